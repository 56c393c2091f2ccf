"""Missed alarms and false alarms: two mistakes that must not be added up."""

from __future__ import annotations

from typing import Literal

from holdfast.records.run import TrialRecord
from holdfast.records.verdict import FailureClass

Alarm = Literal["missed", "false"]

_VIOLATED = frozenset((FailureClass.CRITICAL_INVARIANT, FailureClass.INVARIANT))


def alarm_of(trial: TrialRecord) -> Alarm | None:
    """*missed*: an invariant violated where the scenario expects the agent to act; *false*: where it is to defer."""
    if not _VIOLATED.intersection(trial.judged.failure_classes):
        return None
    return "missed" if trial.expects == "act" else "false"
