from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from steadyhand.engine.lag import LagMonitor
from steadyhand.engine.model_call import OpenAdmission
from steadyhand.engine.trial import run_trial
from steadyhand.ports.agent import Reply
from steadyhand.records.chat import ChatRequest, ChatResponse
from steadyhand.records.evaluation import LatencyTier, Verdict
from steadyhand.records.event import LimitReached
from steadyhand.records.timing import Attempt, SpoiledBy
from support.engine import asking, check, scenario

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


class HeldUp:
    """Lets calls go after a while, as a rate limit does."""

    @asynccontextmanager
    async def admit(self, model, request):
        await asyncio.sleep(0.4)
        yield OpenAdmission()


class Model:
    name = "test/model"

    def __init__(self, takes_s):
        self.takes_s = takes_s

    async def attempt(self, request, *, zero):
        await asyncio.sleep(self.takes_s)
        return ChatResponse(text="done", attempt=Attempt(started_ms=0, sent_ms=0, last_byte_ms=1))

    async def close(self):
        """Nothing is held open."""


@pytest.mark.parametrize(("takes_s", "verdict"), [(0.0, Verdict.PASSED), (60.0, Verdict.FAILED)])
async def test_a_step_is_out_of_time_by_the_agents_time_and_not_by_ours(build, takes_s, verdict):
    async def call(turn, trial):
        request = ChatRequest(messages=turn.messages)
        return (await trial.call(Model(takes_s), request)).text

    step = asking("hi", check("string_contains", value="done"), timeout_ms=200)
    record = await run_trial(build(scenario(step), call, gate=HeldUp()))
    assert record.judged.verdict is verdict
    limits = [event for event in record.events if isinstance(event, LimitReached)]
    assert [record.duration_ms - limit.used >= 390 for limit in limits] == [True] * (verdict is Verdict.FAILED)
