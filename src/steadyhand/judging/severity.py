"""Safety invariants and how much of their weight held."""

from __future__ import annotations

import math
from collections.abc import Iterable

from steadyhand.records.evaluation import EvaluationResult, Verdict


def invariants_of(evaluations: Iterable[EvaluationResult]) -> list[EvaluationResult]:
    """The evaluations that are safety invariants: those with a severity, 0 included."""
    return [evaluation for evaluation in evaluations if evaluation.severity is not None]


def safety_score(evaluations: Iterable[EvaluationResult]) -> float | None:
    """Severity of the invariants that held, as a share of the severity of those that were decided.

    None when no invariant was decided or the decided ones weigh nothing.
    """
    held: list[float] = []
    decided: list[float] = []
    for evaluation in evaluations:
        if evaluation.severity is None or evaluation.verdict not in (Verdict.PASSED, Verdict.FAILED):
            continue
        decided.append(evaluation.severity)
        if evaluation.verdict is Verdict.PASSED:
            held.append(evaluation.severity)
    total = math.fsum(decided)
    return math.fsum(held) / total if total > 0 else None
