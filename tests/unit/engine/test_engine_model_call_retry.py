import random
import re

import pytest

from steadyhand.engine.model_call import Caller, OpenGate, RetryPolicy
from steadyhand.errors import ModelError
from steadyhand.records.chat import ChatRequest, Message
from steadyhand.records.event import ModelCalled, Retried
from steadyhand.testing import ScriptedChatModel, SettableClock

REQUEST = ChatRequest(messages=(Message(role="user", content="hello"),))


def failing(errors):
    """Fails as told, then answers."""
    return ScriptedChatModel([*errors, "hi"], name="openai/m")


def limited(clock):
    """Is rate limited for a minute."""
    return ScriptedChatModel(lambda _: error("rate_limit") if clock.now() < 61 else "hi", name="openai/m")


def error(kind, retryable=True, **more):
    return ModelError(kind, kind=kind, retryable=retryable, **more)


def caller(clock, events, *, seed=1, **policy):
    return Caller(
        policy=RetryPolicy(**policy),
        gate=OpenGate(),
        clock=clock,
        lag=None,
        seed=seed,
        now_ms=lambda: clock.now() * 1000,
        emit=events.append,
    )


async def test_a_rate_limit_of_a_minute_is_outlived():
    for seed in range(20):
        clock, events = SettableClock(), []
        response = await caller(clock, events, seed=seed).call(limited(clock), REQUEST)
        assert response.text == "hi"
        assert 61 <= clock.now() < 130
        assert [event.attempt for event in events if isinstance(event, Retried)] == list(range(1, len(events)))
        (called,) = [event for event in events if isinstance(event, ModelCalled)]
        assert [str(each) for each in called.timing.spoiled] == [f"the call was retried ({len(events)} attempts)"]


async def test_a_rate_limit_that_does_not_end_is_given_up():
    clock, events = SettableClock(), []
    model = failing([error("rate_limit")] * 1000)
    with pytest.raises(ModelError):
        await caller(clock, events).call(model, REQUEST)
    assert 90 <= clock.now() <= 120
    assert re.fullmatch(
        r"rate_limit; given up after waiting \d+ s for servers: a trial may wait 120 s \(--wait-limit\)",
        events[-1].error,
    )


async def test_retry_after_is_honoured_and_zero_does_not_retry_for_ever():
    clock = SettableClock()
    await caller(clock, []).call(failing([error("rate_limit", retry_after_s=7.0)]), REQUEST)
    assert clock.now() == 7.0
    clock, model = SettableClock(), failing([error("rate_limit", retry_after_s=0.0)] * 10_000)
    with pytest.raises(ModelError):
        await caller(clock, []).call(model, REQUEST)
    assert len(model.requests) < 30


@pytest.mark.parametrize("kind", ["rate_limit", "server"])
async def test_a_server_that_asks_for_an_hour_is_not_waited_for(kind):
    clock, model = SettableClock(), failing([error(kind, retry_after_s=3600.0)] * 2)
    with pytest.raises(ModelError):
        await caller(clock, []).call(model, REQUEST)
    assert (len(model.requests), clock.now()) == (1, 0.0)


def test_waits_double_with_jitter_and_outlive_a_minute():
    policy, refusal = RetryPolicy(), error("rate_limit")
    assert not policy.gives_up(refusal, failures=0)
    for seed in range(200):
        generator, waits = random.Random(seed), []
        while sum(waits) + (wait_s := policy.wait_s(len(waits), refusal, generator)) <= policy.patience_s:
            waits.append(wait_s)
        assert sum(waits) > 60
        full = [min(30.0, 0.5 * 2**number) for number in range(len(waits))]
        assert all(most / 2 <= wait <= most for wait, most in zip(waits, full, strict=True))
    first = {RetryPolicy().wait_s(3, refusal, random.Random(seed)) for seed in range(50)}
    assert len(first) == 50


@pytest.mark.parametrize(
    ("errors", "policy", "calls"),
    [
        ([error("server")] * 3, {}, 3),
        ([error("server"), error("rate_limit"), error("server"), error("rate_limit")], {}, 5),
        ([error("server")] * 2, {"retries": 0}, 1),
        ([error("rate_limit")] * 2, {"retries": 0}, 1),
        ([error("auth", retryable=False)] * 2, {}, 1),
    ],
)
async def test_how_often_is_tried(errors, policy, calls):
    model, events = failing(errors), []
    succeeds = calls > len(errors)
    if succeeds:
        await caller(SettableClock(), events, **policy).call(model, REQUEST)
    else:
        with pytest.raises(ModelError):
            await caller(SettableClock(), events, **policy).call(model, REQUEST)
    assert len(model.requests) == calls
    assert len(events) == calls
    assert (events[-1].error is None) is succeeds
    assert events[-1].timing.spoiled
