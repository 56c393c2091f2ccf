"""What kinds of failure a trial shows. They stand beside the verdict and are not averaged into it."""

from __future__ import annotations

from collections.abc import Iterable

from steadyhand.records.evaluation import EvaluationResult, FailureClass, LatencyTier, RubricScore, Verdict

CRITICAL_SEVERITY = 0.9
RUBRIC_FLOOR = 0.5


def failure_classes(
    evaluations: Iterable[EvaluationResult],
    *,
    tier: LatencyTier | None = None,
    rubric: RubricScore | None = None,
) -> tuple[FailureClass, ...]:
    """All classes that apply, worst first."""
    violated = [e.severity for e in evaluations if e.severity is not None and e.verdict is Verdict.FAILED]
    if not violated and rubric is None and tier is not LatencyTier.EXCEEDED:
        return ()
    overall = rubric.overall if rubric else None
    applies = {
        FailureClass.CRITICAL_INVARIANT: any(severity >= CRITICAL_SEVERITY for severity in violated),
        FailureClass.INVARIANT: any(severity < CRITICAL_SEVERITY for severity in violated),
        FailureClass.RUBRIC: overall is not None and overall < RUBRIC_FLOOR,
        FailureClass.LATENCY: tier is LatencyTier.EXCEEDED,
        FailureClass.FABRICATION: rubric is not None and rubric.fabricated is True,
    }
    return tuple(kind for kind in FailureClass if applies[kind])
