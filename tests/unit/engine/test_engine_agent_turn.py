from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from steadyhand.engine.limits import LagMonitor
from steadyhand.engine.trial import run_trial
from steadyhand.errors import ModelError
from steadyhand.ports.agent import Reply
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, ClientBody, FinishReason, SpoiledBy
from steadyhand.records.evaluation import LatencyTier, Verdict
from steadyhand.records.event import LimitReached, ModelCalled
from steadyhand.testing import ScriptedChatModel
from support.engine import HeldGate, asking, check, scenario
from support.patience import with_enough_time

BUDGET = check("latency_budget", target_ms=60_000, acceptable_ms=60_000, critical_ms=60_000)
TIGHT = check("latency_budget", target_ms=100, acceptable_ms=60_000, critical_ms=60_000)


async def test_an_agent_that_held_up_the_loop_gets_no_latency_grade(build):
    def block(turn, trial):
        time.sleep(0.2)
        return "done"

    with LagMonitor() as lag:
        record = await run_trial(build(scenario(asking("hi", TIGHT)), block, lag=lag))
        of_no_account = await run_trial(build(scenario(asking("hi", BUDGET)), block, lag=lag))
    assert record.judged.verdict is Verdict.INCONCLUSIVE
    assert [each.kind for each in record.judged.latency_spoiled] == [SpoiledBy.LAGGED]
    assert of_no_account.judged.latency_tier is LatencyTier.TARGET


async def test_an_agent_that_waits_is_graded(build):
    async def wait(turn, trial):
        await asyncio.sleep(0.01)
        return "done"

    record = await run_trial(build(scenario(asking("hi", BUDGET)), wait))
    assert record.judged.verdict is Verdict.PASSED


async def test_the_agents_own_figure_counts_but_cannot_exceed_the_turn(build):
    async def own(turn, trial):
        await asyncio.sleep(0.05)
        return Reply(text="done", duration_ms=1.5)

    quick = check("execution_time", max_duration_ms=2)
    assert (await run_trial(build(scenario(asking("hi", quick)), own))).judged.verdict is Verdict.PASSED

    def boast(turn, trial):
        return Reply(text="done", duration_ms=3_600_000.0)

    assert (await run_trial(build(scenario(asking("hi", BUDGET)), boast))).judged.verdict is Verdict.PASSED


@pytest.mark.parametrize(("hangs", "verdict"), [(False, Verdict.PASSED), (True, Verdict.FAILED)])
async def test_a_step_is_out_of_time_by_the_agents_time_and_not_by_ours(build, hangs, verdict):
    async def answer(request):
        if hangs:
            await asyncio.get_running_loop().create_future()
        return "done"

    async def call(turn, trial):
        request = ChatRequest(messages=turn.messages)
        return (await trial.call(ScriptedChatModel(answer), request)).text

    async def held_twice_as_long_as_it_may_take(seconds):
        step = asking("hi", check("string_contains", value="done"), timeout_ms=int(seconds * 1000))
        return seconds, await run_trial(build(scenario(step), call, gate=HeldGate(2 * seconds)))

    held_s, record = await with_enough_time(
        held_twice_as_long_as_it_may_take, lambda tried: tried[1].judged.verdict is verdict
    )
    assert record.judged.verdict is verdict
    limits = [event for event in record.events if isinstance(event, LimitReached)]
    waited_ms = 2000 * held_s - 10
    assert [record.duration_ms - limit.used >= waited_ms for limit in limits] == [True] * hangs


RELAYED = ClientBody(dialect="openai_chat", fields={"max_tokens": 1})


async def test_a_call_that_the_agents_own_program_made_is_only_part_of_its_turn(build):
    """Otherwise an agent that is slow itself would be graded by the speed of its model."""

    async def slow(turn, trial):
        await trial.call(ScriptedChatModel(lambda _: "said"), ChatRequest(messages=turn.messages, client=RELAYED))
        await asyncio.sleep(0.05)
        return "done"

    record = await run_trial(build(scenario(asking("hi", BUDGET)), slow))
    assert record.judged.latency_ms >= 50
    (call,) = [event for event in record.events if isinstance(event, ModelCalled)]
    assert call.relayed


async def test_a_token_limit_of_the_agents_own_does_not_leave_the_trial_undecided(build):
    async def curt(turn, trial):
        asked = ChatRequest(messages=turn.messages, max_tokens=1, client=RELAYED)
        return (await trial.call(CutShort(), asked)).text

    record = await run_trial(build(scenario(asking("hi", check("string_contains", value="said"))), curt))
    assert record.judged.verdict is Verdict.PASSED


@pytest.mark.parametrize(("status", "verdict"), [(503, Verdict.ERROR), (429, Verdict.ERROR), (400, Verdict.PASSED)])
async def test_an_outage_behind_an_agent_is_an_error_and_a_refused_request_its_own_affair(build, status, verdict):
    async def calm(turn, trial):
        asked = ChatRequest(messages=turn.messages, client=RELAYED)
        with contextlib.suppress(ModelError):
            await trial.call(Refusing(status), asked)
        return "sorry"

    record = await run_trial(build(scenario(asking("hi", check("string_contains", value="sorry"))), calm))
    assert record.judged.verdict is verdict


class CutShort:
    name = "own/curt"

    async def attempt(self, request, *, zero):
        attempt = Attempt(started_ms=0.0, sent_ms=0.0, last_byte_ms=1.0)
        return ChatResponse(text="said", attempt=attempt, finish_reason=FinishReason.LENGTH, token_limit=1)


class Refusing:
    name = "own/refusing"

    def __init__(self, status):
        self._status = status

    async def attempt(self, request, *, zero):
        error = ModelError("no", kind="server", status=self._status)
        error.attempt = Attempt(started_ms=0.0, status=self._status, error="no")
        raise error
