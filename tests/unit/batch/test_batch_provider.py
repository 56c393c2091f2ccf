import asyncio

import pytest

from steadyhand.batch.limits import OPENING_S, SPACING_S, TOLERATED, WINDOW_S, Window
from steadyhand.batch.provider import ProviderGate, ProviderLimits, provider_of
from steadyhand.engine.model_call import WAIT_LIMIT_S
from steadyhand.errors import ModelError
from steadyhand.records.run import CallWait
from steadyhand.testing.fakes import SettableClock
from support.gates import REQUEST, answer, call, down


async def starts(gate, clock, count, **more):
    times = []
    for _ in range(count):
        await call(gate, **more)
        times.append(clock.now())
    return times


async def test_starts_are_spaced_and_more_so_while_connections_are_opened():
    clock = SettableClock(10.0)
    gate = ProviderGate(clock=clock)
    times = []
    all_started = asyncio.Event()

    async def one():
        async with gate.admit("openai/m", REQUEST):
            times.append(clock.now())
            if len(times) == 64:
                all_started.set()
            await all_started.wait()

    for spacing_s in (OPENING_S, SPACING_S):
        times.clear()
        all_started.clear()
        clock.advance(1.0)
        began = clock.now()
        async with asyncio.TaskGroup() as group:
            for _ in range(64):
                group.create_task(one())
        assert max(times) == pytest.approx(began + 63 * spacing_s)


async def test_never_more_requests_in_any_minute_than_allowed():
    clock = SettableClock()
    gate = ProviderGate(clock=clock, limits={"openai": ProviderLimits(requests_per_minute=20)})
    times = await starts(gate, clock, 90)
    for first, later in zip(times, times[20:], strict=False):
        assert later - first >= 60
    assert times[19] < 1
    assert times[-1] < 5 * WINDOW_S
    assert await starts(gate, clock, 1, model="other/m") == [pytest.approx(times[-1], abs=0.01)]


async def test_tokens_are_guessed_first_and_counted_by_the_server_after():
    clock = SettableClock()
    gate = ProviderGate(clock=clock, limits={"openai": ProviderLimits(tokens_per_minute=1000)})
    times = await starts(gate, clock, 6)
    assert times[4] < 1
    assert times[5] > 60
    clock = SettableClock()
    gate = ProviderGate(clock=clock, limits={"openai": ProviderLimits(tokens_per_minute=1000)})
    times = await starts(gate, clock, 50, tokens=10)
    assert times[-1] < 1


async def test_a_request_larger_than_the_limit_goes_alone():
    window = Window(100)
    assert window.wait_s(0.0, 500) == 0
    window.spend(0.0, 500)
    assert window.wait_s(1.0, 1) == pytest.approx(WINDOW_S - 1)
    assert window.wait_s(WINDOW_S, 1) == 0


async def test_no_more_calls_at_a_time_than_allowed():
    gate = ProviderGate(clock=SettableClock(), limits={"openai": ProviderLimits(concurrency=3)})
    now, most, reasons = 0, 0, []

    async def one():
        nonlocal now, most
        async with gate.admit("openai/m", REQUEST) as admission:
            now += 1
            most = max(most, now)
            for _ in range(9):
                await asyncio.sleep(0)
            now -= 1
            reasons.append(admission.reason)

    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(one())
    assert (most, len(reasons)) == (3, 12)
    assert "concurrent calls" in reasons[-1]


async def test_a_pause_that_one_call_was_asked_for_holds_for_all():
    clock = SettableClock()
    gate = ProviderGate(clock=clock)
    await call(gate, down("rate_limit", retry_after_s=20.0))
    reason = await call(gate)
    assert clock.now() == pytest.approx(20.0, abs=0.01)
    assert reason == "openai is rate limiting us (429)"


async def test_a_provider_that_is_down_is_left_alone_and_looked_at_now_and_then():
    clock, notes = SettableClock(), []
    gate = ProviderGate(clock=clock, note=notes.append)
    for _ in range(TOLERATED):
        await call(gate, down())
    assert (clock.now() < 1, len(notes)) == (True, 1)
    probes = []
    for _ in range(4):
        await call(gate, down("server"))
        probes.append(clock.now())
    assert [round(b - a) for a, b in zip([0, *probes], probes, strict=False)] == [1, 2, 4, 8]
    await call(gate)
    assert notes == ["openai seems to be down; holding new calls: connect", "openai is back"]
    before = clock.now()
    await starts(gate, clock, 20)
    assert clock.now() - before < 1


async def test_only_one_call_looks_whether_the_provider_is_back():
    clock = SettableClock()
    gate = ProviderGate(clock=clock)
    for _ in range(TOLERATED):
        await call(gate, down())
    inside, most, done = 0, 0, 0

    async def one():
        nonlocal inside, most, done
        async with gate.admit("openai/m", REQUEST) as admission:
            inside += 1
            most = max(most, inside if not done else 0)
            for _ in range(5):
                await asyncio.sleep(0)
            inside -= 1
            done += 1
            admission.succeeded(answer())

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(one())
    assert (most, done) == (1, 8)


async def test_a_look_that_was_cancelled_does_not_shut_the_gate_for_ever():
    gate = ProviderGate(clock=SettableClock())
    for _ in range(TOLERATED):
        await call(gate, down())
    with pytest.raises(RuntimeError):
        async with gate.admit("openai/m", REQUEST):
            raise RuntimeError
    await call(gate)


async def test_at_last_waiting_is_given_up():
    clock = SettableClock()
    gate = ProviderGate(clock=clock)

    async def until_given_up():
        while True:
            await call(gate, down())

    with pytest.raises(ModelError, match=r"openai has been down for .* s, giving up; resume") as caught:
        await until_given_up()
    assert not caught.value.retryable
    assert WAIT_LIMIT_S <= clock.now() < WAIT_LIMIT_S + 35


@pytest.mark.parametrize("kind", ["rate_limit", "refused", "auth"])
async def test_a_considered_refusal_is_not_an_outage(kind):
    notes = []
    gate = ProviderGate(clock=SettableClock(), note=notes.append)
    for _ in range(5 * TOLERATED):
        await call(gate, down(kind))
    assert notes == []


def test_a_provider_is_what_stands_before_the_slash_and_an_agent_its_host():
    assert provider_of("openai/gpt-4o") == "openai"
    assert provider_of("pydantic-ai/google:gemini") == "pydantic-ai"
    assert provider_of("http:http://127.0.0.1:8000/v1#bot") == "127.0.0.1:8000"
    assert provider_of("http://agent.example/v1") == "agent.example"
    assert provider_of("acme:https://agent.example:8443/v1") == "agent.example:8443"
    assert provider_of("acme/https://agent.example/v1") == "acme"


async def test_who_waits_and_for_what_can_be_seen():
    clock = SettableClock(auto_advance=False)
    gate = ProviderGate(clock=clock)
    await call(gate, down("rate_limit", retry_after_s=42.0))
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(call(gate))
        for _ in range(4):
            await asyncio.sleep(0)
        clock.advance(2.0)
        assert gate.waits() == (CallWait(reason="openai is rate limiting us (429)", calls=3, left_s=40.0),)
        with gate.backing_off("other/m", down("server", status=503), 7.0):
            clock.advance(3.0)
            assert gate.waits()[1:] == (CallWait(reason="other 503", calls=1, left_s=4.0),)
        while gate.waits():
            clock.advance(40.0)
            await asyncio.sleep(0)


async def test_that_a_provider_is_down_can_be_seen():
    clock = SettableClock(auto_advance=False)
    gate = ProviderGate(clock=clock, limits={"openai": ProviderLimits(spacing_s=0.0)})
    for _ in range(TOLERATED):
        await call(gate, down())
    waiting = asyncio.create_task(call(gate))
    await asyncio.sleep(0)
    assert gate.waits() == (CallWait(reason="openai is down", calls=1, left_s=1.0, down="openai"),)
    clock.advance(1.0)
    assert await waiting == "openai is down"
    assert gate.waits() == ()


async def test_how_long_an_outage_is_waited_for_is_shown_after_a_look_in_vain_too():
    clock = SettableClock(auto_advance=False)
    gate = ProviderGate(clock=clock, limits={"openai": ProviderLimits(spacing_s=0.0)})
    for _ in range(TOLERATED):
        await call(gate, down())
    looking = asyncio.create_task(call(gate, down()))
    others = [asyncio.create_task(call(gate)) for _ in range(3)]
    for _ in range(4):
        await asyncio.sleep(0)
    clock.advance(1.0)
    await looking
    for _ in range(4):
        await asyncio.sleep(0)
    assert gate.waits() == (CallWait(reason="openai is down", calls=3, left_s=2.0, down="openai"),)
    while not all(task.done() for task in others):
        clock.advance(1.0)
        await asyncio.sleep(0)
