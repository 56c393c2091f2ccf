"""A provider whose limits nobody configured, by a clock that is set: many calls at a time, in no time."""

import asyncio
import random

import pytest

from holdfast.batch.gate import ProviderGate
from holdfast.batch.pace import SPACING_S, Pace
from holdfast.engine.calling import Caller, RetryPolicy
from holdfast.errors import ModelError
from holdfast.records.event import ModelCalled, Retried, Waited
from holdfast.records.message import Message
from holdfast.records.model import ChatRequest, ChatResponse
from holdfast.records.timing import Attempt
from holdfast.testing import SettableClock

REQUEST = ChatRequest(messages=(Message(role="user", content="hello"),))


class OneASecond:
    """Answers a call a second, after a burst of ten, and refuses the rest."""

    name = "openai/m"

    def __init__(self, clock, retry_after_s):
        self._clock = clock
        self._retry_after_s = retry_after_s
        self._left = 10.0
        self._at = 0.0
        self.refused = 0

    async def attempt(self, request, *, zero):
        now = self._clock.now()
        self._left = min(10.0, self._left + now - self._at)
        self._at = now
        if self._left < 1:
            self.refused += 1
            raise ModelError("429", kind="rate_limit", retryable=True, status=429, retry_after_s=self._retry_after_s)
        self._left -= 1
        await self._clock.sleep(0.2)
        return ChatResponse(text="hi", attempt=Attempt(started_ms=0, sent_ms=0, last_byte_ms=200))

    async def close(self): ...


async def run_until_done(clock, work):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        while not all(task.done() for task in tasks):
            for _ in range(3):
                await asyncio.sleep(0)
            clock.advance(0.01)


async def limited(retry_after_s, calls=120, workers=32):
    clock, events = SettableClock(auto_advance=False), []
    gate, model = ProviderGate(clock=clock), OneASecond(clock, retry_after_s)
    waiting = iter(range(calls))

    async def work():
        for number in waiting:
            caller = Caller(
                policy=RetryPolicy(),
                gate=gate,
                clock=clock,
                lag=None,
                generator=random.Random(number),
                now_ms=lambda: clock.now() * 1000,
                emit=events.append,
            )
            await caller.call(model, REQUEST)

    await run_until_done(clock, [work() for _ in range(workers)])
    return clock, model, events


@pytest.mark.parametrize("retry_after_s", [1.0, 5.0, None])
async def test_calls_wait_for_their_turn_instead_of_being_refused_again_and_again(retry_after_s):
    clock, model, events = await limited(retry_after_s)
    done = [event for event in events if isinstance(event, ModelCalled)]
    assert [event.error for event in done] == [None] * 120
    assert sum(not event.timing.spoiled for event in done) > 80
    assert clock.now() < 1.2 * 110
    assert model.refused == sum(isinstance(event, Retried) for event in events)
    assert {event.reason for event in events if isinstance(event, Waited)} == {"openai limits the rate (429)"}


def starts(pace, now, count):
    """When so many calls start that are asked for at once."""
    found = []
    for _ in range(count):
        found.append(now + pace.wait_s(now))
        pace.started(found[-1])
    return found


def test_after_a_refusal_starts_are_spaced_as_calls_were_taken_and_closer_with_every_answer():
    pace = Pace()
    taken = starts(pace, 0.0, 20)
    refused = starts(pace, 1.0, 4)
    for start in refused:
        pace.limited(1.1, started=start)
    assert pace.slowed
    spaced = starts(pace, 2.0, 3)
    assert spaced == pytest.approx([2.0, 2.5, 3.0])
    for _ in range(100):
        pace.answered()
    assert starts(pace, 9.0, 2) == pytest.approx([9.0, 9.0 + 0.5 * 0.98**100])
    for _ in range(200):
        pace.answered()
    assert not pace.slowed
    assert starts(pace, 20.0, 2) == pytest.approx([20.0, 20.0 + SPACING_S])
    assert taken[1] == SPACING_S


def test_a_provider_that_took_no_call_at_all_is_asked_now_and_then():
    pace = Pace()
    (refused,) = starts(pace, 0.0, 1)
    pace.limited(0.1, started=refused)
    assert starts(pace, 1.0, 2) == pytest.approx([1.0, 6.0])
