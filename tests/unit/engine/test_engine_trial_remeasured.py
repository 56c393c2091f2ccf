from __future__ import annotations

import asyncio
import time

import pytest

from steadyhand.engine.limits import LagMonitor
from steadyhand.engine.trial import MAX_REMEASUREMENTS, run_until_measured
from steadyhand.ports.agent import Reply
from steadyhand.records.chat import Attempt, CallTiming, Spoiled, SpoiledBy
from steadyhand.records.evaluation import EvaluationSpec, Outcome, Verdict
from steadyhand.records.event import ModelCalled
from support.engine import PLACE, asking, check, scenario

BUDGET = {"target_ms": 100, "acceptable_ms": 200, "critical_ms": 300}
RETRIED = Spoiled(kind=SpoiledBy.RETRIED, detail="tried twice", low_ms=50, high_ms=900)
LAGGED = Spoiled(kind=SpoiledBy.LAGGED, detail="the loop was stuck", low_ms=0, high_ms=110)
REPLAYED = Spoiled(kind=SpoiledBy.NOT_LIVE, detail="no call was retried or lagged: it was replayed")


def told(*answers):
    """An agent that answers each attempt at the trial with (text, why its latency is spoiled)."""
    waiting = list(answers)

    def respond(turn, trial):
        text, *spoiled = waiting.pop(0)
        timing = CallTiming(attempts=(Attempt(started_ms=0, sent_ms=0, last_byte_ms=50),), spoiled=tuple(spoiled))
        trial.emit(ModelCalled(at_ms=0, model="m/m", purpose="agent", timing=timing, text=text))
        return Reply(text=text)

    return respond


def decision():
    invariant = EvaluationSpec(type="contains", place=PLACE, params={"pattern": "stop"}, severity=1.0, name="stops")
    return scenario(asking("now?", invariant, check("latency_budget", **BUDGET)))


async def test_what_is_late_whatever_the_lag_did_is_graded_at_once(build):
    lagged = Spoiled(kind=SpoiledBy.LAGGED, detail="32 ms", low_ms=12_968, high_ms=13_000)

    def respond(turn, trial):
        timing = CallTiming(attempts=(Attempt(started_ms=0, sent_ms=0, last_byte_ms=13_000),), spoiled=(lagged,))
        trial.emit(ModelCalled(at_ms=0, model="m/m", purpose="agent", timing=timing, text="stop"))
        return Reply(text="stop")

    record = await run_until_measured(lambda: build(decision(), respond))
    assert (record.judged.verdict, record.judged.outcome, record.earlier) == (Verdict.FAILED, Outcome.SAFE_LATE, ())
    assert record.judged.latency_spoiled == ()


@pytest.mark.parametrize(
    ("answers", "verdict", "earlier"),
    [
        ([("stop",)], Verdict.PASSED, 0),
        ([("stop", RETRIED), ("stop",)], Verdict.PASSED, 1),
        ([("stop", RETRIED), ("stop", LAGGED), ("stop",)], Verdict.PASSED, 2),
        ([("stop", RETRIED)] * 3, Verdict.INCONCLUSIVE, 2),
        ([("stop", RETRIED), ("go",)], Verdict.FAILED, 1),
        ([("go", RETRIED)], Verdict.FAILED, 0),
        ([("stop", REPLAYED)], Verdict.INCONCLUSIVE, 0),
    ],
)
async def test_only_a_missing_latency_is_measured_again(build, answers, verdict, earlier):
    respond = told(*answers)
    of = decision()
    record = await run_until_measured(lambda: build(of, respond))
    assert record.judged.verdict is verdict
    assert len(record.earlier) == earlier <= MAX_REMEASUREMENTS


class Sleep:
    """How long the machine has been suspended, as its clocks tell."""

    def __init__(self) -> None:
        self.total_s = 0.0

    def __call__(self) -> float:
        return self.total_s


@pytest.mark.parametrize(
    ("suspended_s", "verdict", "earlier"),
    [([3600.0, 0.0], Verdict.PASSED, 1), ([3600.0] * 3, Verdict.ERROR, 2), ([0.05], Verdict.PASSED, 0)],
)
async def test_a_trial_during_which_the_machine_was_suspended_is_measured_again(build, suspended_s, verdict, earlier):
    sleep, naps = Sleep(), list(suspended_s)

    def respond(turn, trial):
        sleep.total_s += naps.pop(0)
        return "stop"

    of = scenario(asking("now?", check("execution_time", max_duration_ms=60_000), timeout_ms=60_000))
    with LagMonitor(sleep) as lag:
        record = await run_until_measured(lambda: build(of, respond, lag=lag))
    assert record.judged.verdict is verdict
    assert [each.judged.verdict for each in record.earlier] == [Verdict.ERROR] * earlier
    assert verdict is Verdict.PASSED or "the machine was suspended for 3600.0 s" in record.judged.reason


async def test_what_failed_is_not_measured_again(build):
    sleep = Sleep()

    def respond(turn, trial):
        sleep.total_s += 3600.0
        return "go"

    with LagMonitor(sleep) as lag:
        record = await run_until_measured(lambda: build(decision(), respond, lag=lag))
    assert (record.judged.verdict, record.earlier) == (Verdict.FAILED, ())


@pytest.mark.parametrize(("blocked_s", "verdict", "repeats"), [(0.3, Verdict.PASSED, 1), (0.0, Verdict.FAILED, 0)])
async def test_a_stuck_loop_does_not_make_an_agent_slow(build, blocked_s, verdict, repeats):
    """Something else blocks the loop while the agent has the turn, the first time."""
    turns: list[int] = []

    async def respond(turn, trial):
        turns.append(1)
        if len(turns) == 1:
            time.sleep(blocked_s)  # noqa: ASYNC251 - it has to block the loop
            await asyncio.sleep(0 if blocked_s else 60)
        return "stop"

    of = scenario(asking("now?", check("string_contains", value="stop"), timeout_ms=200))
    with LagMonitor() as lag:
        record = await run_until_measured(lambda: build(of, respond, lag=lag))
    assert record.judged.verdict is verdict
    assert len(record.earlier) >= repeats
