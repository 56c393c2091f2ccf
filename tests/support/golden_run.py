"""A run with everything that totals depend on: a matrix on two targets, trials saved and not run, both alarms, errors,
an unreadable trial, canaries, and an end before it was finished."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from steadyhand.records.chat import SafetyAtDeadline
from steadyhand.records.evaluation import FailureClass, LatencyTier, Outcome, Verdict
from steadyhand.records.run import CanaryTally, JudgedCase, RunAxis, RunMatrix, Spent, Target, TrialKey, TrialRecord
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter
from support.sample_run import BROKEN, SAFE, UNDECIDED, UNSAFE
from support.sample_trials import HEADER

MATRIX = RunMatrix(
    name="Which model?",
    file="which.matrix.yaml",
    axes=(RunAxis(parameter="model", values=("openai/a", "openai/b")),),
    combinations={"which[a]": (0,), "which[b]": (1,)},
)
PLAN = {"decided": 30, "which[a]": 3, "which[b]": 2, "defer": 2, "broken": 1, "damaged": 2, "untouched": 3}
HELD = FailureClass.CRITICAL_INVARIANT


def as_trial(trial: TrialRecord, scenario_id: str, index: int = 0, **changes) -> TrialRecord:
    key = TrialKey(scenario_id=scenario_id, index=index)
    return msgspec.structs.replace(trial, key=key, scenario_name=scenario_id, **changes)


def safe(scenario_id: str, index: int) -> TrialRecord:
    return as_trial(SAFE, scenario_id, index)


def never_safe(scenario_id: str, index: int, **changes) -> TrialRecord:
    judged = msgspec.structs.replace(
        UNSAFE.judged,
        outcome=Outcome.UNSAFE_IN_TIME,
        latency_tier=LatencyTier.TARGET,
        first_safe_ms=None,
        safety_at_deadline=SafetyAtDeadline(target=False, acceptable=False, critical=False),
        failure_classes=(HELD,),
    )
    return as_trial(UNSAFE, scenario_id, index, judged=judged, **changes)


def unknown_times(trial: TrialRecord) -> TrialRecord:
    """When the answer was safe is not known, although there was a budget for it."""
    judged = msgspec.structs.replace(trial.judged, time_to_safe_ms=None, times_unknown="the call was retried")
    return msgspec.structs.replace(trial, judged=judged)


def golden_run(folder: Path) -> Path:
    """Stopped after `which[b]`'s first trial; one of its records is damaged."""
    trials = [
        *(safe("decided", index) for index in range(11)),
        unknown_times(safe("decided", 11)),
        safe("which[a]", 0),
        as_trial(UNSAFE, "which[a]", 1),
        as_trial(UNDECIDED, "which[a]", 2, agent=SAFE.agent, model=SAFE.model),
        safe("which[b]", 0),
        never_safe("defer", 0, expects="defer"),
        safe("defer", 1),
        as_trial(BROKEN, "broken"),
        safe("damaged", 0),
        safe("damaged", 1),
    ]
    case = JudgedCase(run="r", scenario="s", trial=0, check="c", label="fail", judged="pass", message="it passes")
    header = msgspec.structs.replace(
        HEADER,
        planned=sum(PLAN.values()),
        until="decided",
        pass_rates={"decided": 0.5},
        matrices=(MATRIX,),
        targets={each: Target(scenario="which", model=f"openai/{each[6]}") for each in MATRIX.combinations}
        | {each: Target(scenario=each, model="openai/a") for each in PLAN if each not in MATRIX.combinations},
        canaries=CanaryTally(file="labels.jsonl", cases=(case,), spent=Spent(calls=1, input_tokens=5)),
    )
    return _write(folder, header, trials, PLAN, "interrupted", damaged=("damaged", 1))


def decided_run(folder: Path, *, deleted: int | None = None) -> Path:
    """A run that passed before all of its trials ran; perhaps one of them is gone."""
    header = msgspec.structs.replace(HEADER, planned=30, until="decided", pass_rates={"decided": 0.5})
    path = _write(folder, header, [safe("decided", index) for index in range(12)], {"decided": 30}, "finished")
    if deleted is not None:
        _execute(path, "DELETE FROM trial WHERE idx = ?", (deleted,))
    return path


def _write(folder, header, trials, plan, status, damaged=None) -> Path:
    entries = [
        PlanEntry(key=TrialKey(scenario_id=scenario_id, index=index))
        for scenario_id, count in plan.items()
        for index in range(count)
    ]
    writer = RunWriter.create(folder, header, entries)
    for trial in trials:
        writer.append(trial)
    writer.close(status, header=header)
    if damaged is not None:
        _execute(writer.path, "UPDATE trial SET body = zeroblob(40) WHERE scenario_id = ? AND idx = ?", damaged)
    return writer.path


def _execute(path: Path, statement: str, values: tuple) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


TOTALS = {
    "passed": 16,
    "failed": 2,
    "inconclusive": 1,
    "error": 2,
    "saved": 18,
    "not_run": 4,
    "missed": 1,
    "false": 1,
    "scenarios": {"passed": 1, "failed": 2, "inconclusive": 2, "error": 2},
    "outcomes": {
        Outcome.SAFE_IN_TIME: 16,
        Outcome.SAFE_LATE: 0,
        Outcome.UNSAFE_IN_TIME: 1,
        Outcome.UNSAFE_LATE: 1,
    },
    "calls": 16,
    "tokens": 16 * 28,
    "exit_code": 1,
}
VERDICTS = tuple(verdict.value for verdict in Verdict)
