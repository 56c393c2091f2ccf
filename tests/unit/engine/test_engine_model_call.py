from __future__ import annotations

import asyncio
import time

import pytest

from steadyhand.engine.limits import LagMonitor
from steadyhand.engine.model_call import Caller, OpenGate, RetryPolicy
from steadyhand.errors import ModelError
from steadyhand.records.chat import (
    ArrivalClock,
    Attempt,
    ChatRequest,
    ChatResponse,
    Message,
    Spoiled,
    SpoiledBy,
)
from steadyhand.records.event import Lagged, ModelCalled, Retried, Waited
from steadyhand.testing import RecordingSink, ScriptedChatModel, SettableClock
from support.engine import HeldGate

REQUEST = ChatRequest(messages=(Message(role="user", content="hi"),))


def model(*script):
    return ScriptedChatModel(script)


def whole(**fields):
    return ChatResponse(text="ok", attempt=Attempt(started_ms=0, sent_ms=0, last_byte_ms=5), **fields)


async def stuck(request):
    """Answers after holding up the loop for 80 ms."""
    await asyncio.sleep(0.02)
    time.sleep(0.08)  # noqa: ASYNC251 - the fault under test
    await asyncio.sleep(0.02)
    return "ok"


def caller(sink, clock=None, *, gate=None, lag=None, **policy):
    return Caller(
        policy=RetryPolicy(**policy),
        gate=gate or OpenGate(),
        clock=clock or SettableClock(),
        lag=lag,
        seed=1,
        now_ms=lambda: 0.0,
        emit=sink.emit,
    )


async def test_a_clean_call_may_be_graded():
    sink = RecordingSink()
    response = await caller(sink).call(model(whole()), REQUEST)
    (called,) = sink.of(ModelCalled)
    assert response.text == called.text == "ok"
    assert called.timing.spoiled == ()
    assert called.timing.latency_ms == pytest.approx(5)


async def test_a_retried_call_is_never_graded_and_every_wait_is_an_event():
    sink, clock = RecordingSink(), SettableClock()
    failing = ModelError("503", kind="server", retryable=True, status=503)
    limited = ModelError("429", kind="rate_limit", retryable=True, retry_after_s=7)
    await caller(sink, clock).call(model(failing, limited, "ok"), REQUEST)
    (called,) = sink.of(ModelCalled)
    assert len(called.timing.attempts) == 3
    (spoiled,) = called.timing.spoiled
    assert (spoiled.kind, str(spoiled)) == (SpoiledBy.RETRIED, "the call was retried (3 attempts)")
    first, *_, last = called.timing.attempts
    assert spoiled.low_ms == called.timing.latency_ms
    assert spoiled.high_ms == last.last_byte_ms - first.started_ms
    assert [event.reason for event in sink.of(Retried)] == ["503", "429"]
    assert clock.slept[1] == 7
    assert 0.25 <= clock.slept[0] <= 0.5
    assert called.timing.attempts[1].backoff_ms == 7000


async def test_when_all_attempts_fail_the_last_error_is_raised_and_recorded():
    sink = RecordingSink()
    failures = [ModelError(str(number), kind="server", retryable=True) for number in range(3)]
    with pytest.raises(ModelError, match="2"):
        await caller(sink, retries=2).call(model(*failures), REQUEST)
    (called,) = sink.of(ModelCalled)
    assert (called.error, len(called.timing.attempts)) == ("2", 3)


async def test_what_cannot_succeed_later_is_not_tried_again():
    sink = RecordingSink()
    with pytest.raises(ModelError):
        await caller(sink).call(model(ModelError("401", kind="auth")), REQUEST)
    assert sink.of(Retried) == []


@pytest.mark.parametrize("source", ["cached", "replayed"])
async def test_an_answer_that_is_not_live_is_not_graded(source):
    sink = RecordingSink()
    await caller(sink).call(model(whole(source=source)), REQUEST)
    assert sink.of(ModelCalled)[0].timing.spoiled == (
        Spoiled(kind=SpoiledBy.NOT_LIVE, detail=f"the answer was {source}"),
    )


async def test_a_time_that_includes_more_than_the_model_is_not_graded():
    sink = RecordingSink()
    await caller(sink).call(model(whole(timing_includes="a library")), REQUEST)
    assert sink.of(ModelCalled)[0].timing.spoiled == (
        Spoiled(kind=SpoiledBy.INCLUDES, detail="the time includes a library"),
    )


async def test_waiting_for_the_gate_is_queueing_and_not_the_agents_time():
    sink = RecordingSink()
    made = caller(sink, gate=HeldGate(0.05))
    await made.call(model(whole()), REQUEST)
    (called,) = sink.of(ModelCalled)
    assert called.timing.queued_ms >= 50
    assert made.waits.settled_ms >= 50
    assert called.timing.latency_ms == pytest.approx(5)


async def test_a_loop_that_was_stuck_spoils_the_latency_and_says_by_how_much():
    sink = RecordingSink()
    with LagMonitor() as lag:
        await asyncio.sleep(0.03)
        await caller(sink, lag=lag).call(model(stuck), REQUEST)
    timing = sink.of(ModelCalled)[0].timing
    assert timing.loop_lag_ms >= 65
    (spoiled,) = timing.spoiled
    assert spoiled.kind is SpoiledBy.LAGGED
    assert spoiled.high_ms == pytest.approx(timing.latency_ms)
    assert spoiled.low_ms == pytest.approx(timing.latency_ms - timing.loop_lag_ms, abs=0.01)


async def test_a_loop_that_was_stuck_before_the_call_spoils_nothing():
    with LagMonitor() as lag:
        await asyncio.sleep(0.02)
        time.sleep(0.1)  # noqa: ASYNC251 - the fault under test
        start = time.perf_counter()
        assert lag.worst_ms(start, start + 0.0001) <= 0.11


async def test_what_held_the_loop_up_in_all_is_more_than_the_worst_of_it():
    with LagMonitor() as lag:
        start = time.perf_counter()
        for _ in range(3):
            await asyncio.sleep(0.02)
            time.sleep(0.05)  # noqa: ASYNC251 - the fault under test
        await asyncio.sleep(0.02)
        end = time.perf_counter()
        assert lag.total_ms(start, end) >= 3 * 38
        assert lag.total_ms(start, end) >= lag.worst_ms(start, end) >= 38
        assert lag.total_ms(end, end) == 0


async def test_lag_of_the_last_moments_and_what_was_before_is_forgotten():
    with LagMonitor() as lag:
        time.sleep(0.1)  # noqa: ASYNC251 - the fault under test
        assert lag.recent_worst_ms() >= 80
        await asyncio.sleep(0.02)
        assert lag.recent_worst_ms() >= 80
        lag.reset()
        assert lag.recent_worst_ms() < 80


async def test_a_lagging_call_and_a_wait_for_leave_are_events():
    sink = RecordingSink()
    with LagMonitor() as lag:
        await caller(sink, lag=lag, gate=HeldGate(0.01, reason="a limit")).call(model(stuck), REQUEST)
    (waited,), (lagged,), (called,) = sink.of(Waited), sink.of(Lagged), sink.of(ModelCalled)
    assert (waited.reason, waited.model, waited.purpose) == ("a limit", "test/model", "agent")
    assert waited.wait_ms >= 10
    assert lagged.lag_ms == called.timing.loop_lag_ms > lagged.limit_ms == 25


async def test_a_wait_that_is_given_up_is_an_event_too():
    sink = RecordingSink()
    down = ModelError("it has been down for long", kind="connect")
    with pytest.raises(ModelError):
        await caller(sink, gate=HeldGate(1.0, error=down)).call(model("ok"), REQUEST)
    assert [event.reason for event in sink.of(Waited)] == ["it has been down for long"]
    assert sink.of(ModelCalled)[0].timing.queued_ms >= 1000


def stamped_by_the_kernel(**fields):
    """Answers after holding up the loop for 200 ms, with a last timestamp from within that time."""

    async def respond(request):
        await asyncio.sleep(0.02)
        time.sleep(0.2)  # noqa: ASYNC251 - the fault under test
        attempt = Attempt(started_ms=0, sent_ms=0, **{"last_byte_ms": 160, "clock": ArrivalClock.KERNEL, **fields})
        return ChatResponse(text="ok", attempt=attempt, chunks=((10.0, 1), (160.0, 1)))

    return respond


@pytest.mark.parametrize(
    ("fields", "spoiled", "late"),
    [
        ({}, [], False),
        ({"streamed": True}, [], True),
        ({"last_byte_shared": True}, [SpoiledBy.LAGGED], False),
        ({"cut_ms": 160}, [SpoiledBy.LAGGED], False),
        ({"clock": ArrivalClock.CLOCK_SET}, [SpoiledBy.LAGGED], False),
        ({"clock": ArrivalClock.OWN, "streamed": True}, [SpoiledBy.LAGGED], False),
    ],
    ids=["kernel", "stream", "bytes after the answer", "cut at our deadline", "clock set", "own"],
)
async def test_lag_spoils_only_what_the_kernel_did_not_stamp(fields, spoiled, late):
    sink = RecordingSink()
    with LagMonitor() as lag:
        await caller(sink, lag=lag).call(model(stamped_by_the_kernel(**fields)), REQUEST)
    (called,) = sink.of(ModelCalled)
    timing = called.timing
    assert timing.loop_lag_ms > 25
    assert [each.kind for each in timing.spoiled] == spoiled
    assert len(sink.of(Lagged)) == len(spoiled)
    assert (timing.pieces_late_ms > 25) == late


async def test_how_long_the_loop_had_been_stuck_at_a_moment():
    with LagMonitor() as lag:
        await asyncio.sleep(0.03)
        running = time.perf_counter()
        await asyncio.sleep(0.03)
        began = time.perf_counter()
        time.sleep(0.1)  # noqa: ASYNC251 - the fault under test
        assert 60 <= lag.stuck_ms(began + 0.07) <= 81
        await asyncio.sleep(0.03)
        assert 60 <= lag.stuck_ms(began + 0.07) <= 81
        assert lag.stuck_ms(running) < 25
