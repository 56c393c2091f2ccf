"""A provider with unknown limits, on a fake clock: many calls at a time, in no time."""

import asyncio

import pytest

from steadyhand.batch.limits import SPACING_S, Pace
from steadyhand.batch.provider import ProviderGate
from steadyhand.engine.model_call import Caller, RetryPolicy
from steadyhand.errors import ModelError
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, Message
from steadyhand.records.event import ModelCalled, Retried, Waited
from steadyhand.testing import ScriptedChatModel, SettableClock

REQUEST = ChatRequest(messages=(Message(role="user", content="hello"),))


def one_a_second(clock, retry_after_s):
    """Answers a call a second, after a burst of ten, and refuses the rest."""
    left, at = 10.0, 0.0

    async def answer(request):
        nonlocal left, at
        left, at = min(10.0, left + clock.now() - at), clock.now()
        if left < 1:
            return ModelError("429", kind="rate_limit", retryable=True, status=429, retry_after_s=retry_after_s)
        left -= 1
        await clock.sleep(0.2)
        return ChatResponse(text="hi", attempt=Attempt(started_ms=0, sent_ms=0, last_byte_ms=200))

    return ScriptedChatModel(answer, name="openai/m")


async def run_until_done(clock, work):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        while not all(task.done() for task in tasks):
            for _ in range(3):
                await asyncio.sleep(0)
            clock.advance(0.01)


async def limited(retry_after_s, calls=120, workers=32):
    clock, events = SettableClock(auto_advance=False), []
    gate, model = ProviderGate(clock=clock), one_a_second(clock, retry_after_s)
    waiting = iter(range(calls))

    async def work():
        for number in waiting:
            caller = Caller(
                policy=RetryPolicy(),
                gate=gate,
                clock=clock,
                lag=None,
                seed=number,
                now_ms=lambda: clock.now() * 1000,
                emit=events.append,
            )
            await caller.call(model, REQUEST)

    await run_until_done(clock, [work() for _ in range(workers)])
    return clock, model, events


@pytest.mark.parametrize(("retry_after_s", "clean"), [(1.0, 80), (5.0, 80), (None, 50)])
async def test_calls_wait_for_their_turn_instead_of_being_refused_again_and_again(retry_after_s, clean):
    clock, model, events = await limited(retry_after_s)
    done = [event for event in events if isinstance(event, ModelCalled)]
    assert [event.error for event in done] == [None] * 120
    assert sum(not event.timing.spoiled for event in done) > clean
    assert clock.now() < 1.2 * 110
    assert len(model.requests) - len(done) == sum(isinstance(event, Retried) for event in events)
    assert {event.reason for event in events if isinstance(event, Waited)} == {"openai is rate limiting us (429)"}


def starts(pace, now, count):
    """When `count` calls start that are all requested at once."""
    found = []
    for _ in range(count):
        found.append(now + pace.wait_s(now))
        pace.started(found[-1])
    return found


def test_when_many_are_refused_starts_are_spaced_as_calls_were_taken_and_closer_with_every_answer():
    pace = Pace()
    assert starts(pace, 0.0, 20)[1] == SPACING_S
    refused = starts(pace, 9.9, 8)
    for start in refused:
        pace.limited(10.0, started=start)
    assert pace.slowed
    assert starts(pace, 20.0, 3) == pytest.approx([20.0, 20.5, 21.0])
    for _ in range(100):
        pace.answered()
    assert starts(pace, 30.0, 2) == pytest.approx([30.0, 30.0 + 0.5 * 0.98**100])
    for _ in range(200):
        pace.answered()
    assert not pace.slowed
    assert starts(pace, 40.0, 2) == pytest.approx([40.0, 40.0 + SPACING_S])


def test_a_refusal_now_and_then_changes_nothing():
    pace = Pace()
    for number in range(200):
        (start,) = starts(pace, number * 0.01, 1)
        if number % 5 == 4:
            pace.limited(start, started=start)
        else:
            pace.answered()
        assert not pace.slowed


def test_a_provider_that_takes_no_call_at_all_is_asked_now_and_then():
    pace = Pace()
    for start in starts(pace, 0.0, 5):
        pace.limited(9.0, started=start)
    assert starts(pace, 20.0, 2) == pytest.approx([20.0, 25.0])


@pytest.mark.parametrize(
    ("latency_ms", "in_flight", "spacing_s"),
    [(50, 64, SPACING_S), (300, 512, SPACING_S), (1, 64, 0.001 / 128), (300, 10_000, 0.3 / 20_000)],
)
def test_the_spacing_is_at_most_half_of_what_the_calls_in_flight_need(latency_ms, in_flight, spacing_s):
    pace = Pace()
    for _ in range(200):
        pace.answered(latency_ms)
    pace.wait_s(10.0, in_flight=in_flight)
    assert pace.wait_s(10.0, in_flight=in_flight) == pytest.approx(spacing_s)


def test_quick_answers_do_not_undo_a_spacing_that_a_rate_limit_asked_for():
    pace = Pace()
    for start in starts(pace, 0.0, 8):
        pace.answered(0.1)
        pace.limited(1.0, started=start)
    assert pace.slowed
    before = pace.wait_s(20.0, in_flight=64)
    assert pace.wait_s(20.0, in_flight=64) - before > 100 * SPACING_S


def test_one_slow_answer_among_quick_ones_does_not_space_the_rest():
    pace = Pace()
    for _ in range(200):
        pace.answered(1)
    pace.answered(100)
    pace.wait_s(10.0, in_flight=64)
    assert pace.wait_s(10.0, in_flight=64) < SPACING_S / 2


@pytest.mark.parametrize("reported", [-5.0, float("inf"), float("nan")])
def test_an_impossible_latency_does_not_change_the_spacing(reported):
    pace = Pace()
    pace.answered(reported)
    for _ in range(50):
        pace.answered(50)
    pace.wait_s(10.0, in_flight=64)
    assert pace.wait_s(10.0, in_flight=64) == pytest.approx(SPACING_S)
