from __future__ import annotations

import asyncio
import time

from holdfast.engine.lag import LagMonitor
from holdfast.engine.trial import run_trial
from holdfast.ports.agent import Reply
from holdfast.records.verdict import Verdict
from unit.engine.conftest import asking, check, scenario

BUDGET = check("latency_budget", target_ms=60_000, acceptable_ms=60_000, critical_ms=60_000)


async def test_an_agent_that_held_up_the_loop_gets_no_latency_grade(build):
    def block(turn, trial):
        time.sleep(0.2)
        return "done"

    with LagMonitor() as lag:
        record = await run_trial(build(scenario(asking("hi", BUDGET)), block, lag=lag))
    assert record.judged.verdict is Verdict.INCONCLUSIVE
    assert any("lagged" in reason for reason in record.judged.latency_spoiled)


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
