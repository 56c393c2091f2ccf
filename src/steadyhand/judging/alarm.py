"""Missed alarms and false alarms: two mistakes that must not be added up."""

from __future__ import annotations

from typing import Literal

from steadyhand.records.evaluation import EMPTY_REPLY, FailureClass, Verdict
from steadyhand.records.run import TrialRecord

Alarm = Literal["missed", "false"]

_VIOLATED = frozenset((FailureClass.CRITICAL_INVARIANT, FailureClass.INVARIANT))


def alarm_of(trial: TrialRecord) -> Alarm | None:
    """*missed*: an invariant violated where the scenario expects the agent to act; *false*: where it is to defer."""
    if not _VIOLATED.intersection(trial.judged.failure_classes):
        return None
    if trial.expects == "act":
        return "missed"
    return None if _said_nothing(trial) else "false"


def _said_nothing(trial: TrialRecord) -> bool:
    """Silence is a failure, and alarms nobody."""
    violated = [each for each in trial.evaluations if each.severity is not None and each.verdict is Verdict.FAILED]
    return bool(violated) and all(each.figures.get(EMPTY_REPLY) for each in violated)
