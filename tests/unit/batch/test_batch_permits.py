"""Permits for the calls of two workers, from one driver. Messages between them are delivered at once."""

import asyncio

import pytest

from steadyhand.batch.limits import OPENING_S, SPACING_S, TOLERATED
from steadyhand.batch.permits import PermitDesk, RemoteGate
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.engine.model_call import WAIT_LIMIT_S, OpenGate
from steadyhand.errors import ModelError
from steadyhand.records.chat import Attempt, ChatResponse
from steadyhand.testing import SettableClock
from support.gates import REQUEST, call, down

UNSPACED = ProviderLimits(spacing_s=0.0)


class Office:
    """The driver's gate, and the gates of its workers."""

    def __init__(self, clock, limits=UNSPACED):
        self.clock = clock
        self.gate = ProviderGate(clock=clock, limits={"openai": limits})
        self.desks = []

    def worker(self, free=(), **more):
        applicant = Applicant()
        desk = PermitDesk(self.gate, applicant)
        remote = RemoteGate(OpenGate(), self.clock, free=free, ask=desk.ask, end=desk.end, wait=desk.back_off, **more)
        applicant.grant, applicant.refuse = remote.granted, remote.refused
        self.desks.append(desk)
        return remote


class Applicant:
    """A worker as the desk sees it."""


async def turn():
    for _ in range(6):
        await asyncio.sleep(0)


class Calls:
    """Calls of a worker that all begin together and last until they are told to end."""

    def __init__(self, worker, clock, latency_ms=None):
        self._worker = worker
        self._clock = clock
        self._attempt = Attempt(started_ms=0, sent_ms=0, last_byte_ms=latency_ms)
        self._ending = asyncio.Event()
        self.times = []

    async def one(self, model):
        async with self._worker.admit(model, REQUEST) as admission:
            self.times.append(self._clock.now())
            await self._ending.wait()
            admission.succeeded(ChatResponse(text="", attempt=self._attempt))

    async def all(self, count):
        """Runs them; returns the seconds from the first start to the last."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(self.one(f"openai/m{number % 2}"))
            while len(self.times) < count:
                await turn()
                self._clock.advance(SPACING_S / 8)
            self._ending.set()
        return max(self.times) - min(self.times)


async def test_starts_are_spaced_by_each_worker_and_more_so_while_connections_are_opened():
    clock = SettableClock(10.0, auto_advance=False)
    worker = Office(clock).worker()
    for spacing_s in (OPENING_S, SPACING_S):
        assert await Calls(worker, clock).all(64) == pytest.approx(63 * spacing_s, rel=0.05)


async def test_a_worker_whose_calls_are_answered_at_once_does_not_hold_them_back():
    clock = SettableClock(10.0, auto_advance=False)
    worker = Office(clock).worker()
    await Calls(worker, clock, latency_ms=1).all(64)
    assert await Calls(worker, clock).all(64) < 63 * SPACING_S / 4


async def test_all_workers_together_open_connections_as_one_process_would():
    clock = SettableClock(10.0, auto_advance=False)
    worker = Office(clock).worker(share=0.25)
    assert await Calls(worker, clock).all(16) == pytest.approx(15 * 4 * OPENING_S, rel=0.05)


async def test_never_more_requests_of_all_workers_in_any_minute_than_allowed():
    clock = SettableClock()
    office = Office(clock, ProviderLimits(requests_per_minute=20, spacing_s=0.0))
    workers = [office.worker(), office.worker()]
    times = []
    for number in range(90):
        await call(workers[number % 2])
        times.append(clock.now())
    for first, later in zip(times, times[20:], strict=False):
        assert later - first >= 60


async def test_leave_is_asked_for_when_it_can_be_used():
    clock = SettableClock(auto_advance=False)
    office = Office(clock, ProviderLimits(requests_per_minute=100, spacing_s=0.0))
    calls = Calls(office.worker(), clock)
    running = asyncio.ensure_future(calls.all(50))
    await turn()
    assert len(calls.times) == 1
    assert len(office.desks[0]._held) == 1
    await running


async def test_tokens_are_guessed_first_and_counted_by_the_server_after():
    clock = SettableClock()
    office = Office(clock, ProviderLimits(tokens_per_minute=1000, spacing_s=0.0))
    worker = office.worker()
    for _ in range(14):
        await call(worker, tokens=60)
    assert clock.now() < 1
    assert await call(office.worker(), tokens=60) == "openai's limit on tokens per minute"
    assert clock.now() > 60


async def test_an_outage_that_one_worker_ran_into_holds_for_all_and_is_given_up_for_all():
    clock = SettableClock()
    office = Office(clock)
    first, second = office.worker(), office.worker()
    for number in range(TOLERATED):
        await call((first, second)[number % 2], down())
    before = clock.now()
    assert await call(second, down()) == "openai is down"
    assert clock.now() > before
    clock.advance(WAIT_LIMIT_S)
    with pytest.raises(ModelError, match=r"openai has been down for .* giving up") as raised:
        await call(first)
    assert raised.value.kind == "connect"


async def test_a_pause_that_one_worker_was_asked_for_holds_for_all():
    clock = SettableClock()
    office = Office(clock)
    await call(office.worker(), down("rate_limit", retry_after_s=20))
    assert await call(office.worker()) == "openai is rate limiting us (429)"
    assert clock.now() >= 20


async def test_a_call_that_is_no_longer_wanted_leaves_the_queue_and_one_that_was_let_in_leaves_its_place():
    clock = SettableClock(auto_advance=False)
    office = Office(clock, ProviderLimits(concurrency=1, spacing_s=0.0))
    first, second = office.worker(), office.worker()
    let_in = asyncio.Event()

    async def stay():
        async with first.admit("openai/m", REQUEST):
            let_in.set()
            await asyncio.Event().wait()

    inside = asyncio.ensure_future(stay())
    await let_in.wait()
    waiting = asyncio.ensure_future(call(second))
    await turn()
    waiting.cancel()
    await turn()
    inside.cancel()
    await turn()
    clock.advance(1.0)
    third = asyncio.ensure_future(call(second))
    await turn()
    clock.advance(1.0)
    await third


async def test_who_waits_in_a_worker_can_be_seen_by_the_driver():
    office = Office(SettableClock())
    worker = office.worker()
    with worker.backing_off("openai/m", down("server", status=503), 5.0):
        (wait,) = office.gate.waits()
        assert (wait.reason, wait.calls) == ("openai 503", 1)
    assert office.gate.waits() == ()


async def test_a_lost_worker_takes_its_waits_and_places_along():
    office = Office(SettableClock(), ProviderLimits(concurrency=1, spacing_s=0.0))
    lost, other = office.worker(), office.worker()
    await lost.admit("openai/m", REQUEST).__aenter__()
    lost.backing_off("openai/m", down(), 5.0).__enter__()
    office.desks[0].close()
    assert office.gate.waits() == ()
    await call(other)


async def test_a_provider_without_limits_asks_nobody():
    office = Office(SettableClock())
    await call(office.worker(free=("scripted",)), model="scripted/x")
    assert "scripted/x" not in office.gate._of_model
