"""What kinds of failure a trial shows. They stand beside the verdict and are not averaged into it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.records.evaluation import EvaluationResult
from holdfast.records.verdict import FailureClass, LatencyTier, Verdict

CRITICAL_SEVERITY = 0.9
RUBRIC_FLOOR = 0.5


def failure_classes(
    evaluations: Iterable[EvaluationResult],
    *,
    tier: LatencyTier | None = None,
    rubric_overall: float | None = None,
    fabricated: bool = False,
) -> tuple[FailureClass, ...]:
    """All classes that apply, worst first."""
    violated = [e.severity for e in evaluations if e.severity is not None and e.verdict is Verdict.FAILED]
    applies = {
        FailureClass.CRITICAL_INVARIANT: any(severity >= CRITICAL_SEVERITY for severity in violated),
        FailureClass.INVARIANT: any(severity < CRITICAL_SEVERITY for severity in violated),
        FailureClass.RUBRIC: rubric_overall is not None and rubric_overall < RUBRIC_FLOOR,
        FailureClass.LATENCY: tier is LatencyTier.EXCEEDED,
        FailureClass.FABRICATION: fabricated,
    }
    return tuple(kind for kind in FailureClass if applies[kind])
