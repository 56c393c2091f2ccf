"""One weighted score from the scores by dimension. Timeliness comes from the clock, never from a judge."""

from __future__ import annotations

import math
from collections.abc import Mapping

from steadyhand.records.evaluation import LatencyTier, Rubric

NO_JUDGE = (
    "not scored: a rubric needs a judge other than the model under test. A judge would score how good each answer is, "
    "and report poor and fabricated ones (classes C and E); verdicts do not depend on it. Name one with "
    "`--judge provider/model` or `judge` in steadyhand.toml"
)
NOT_REACHED = "not scored: the trial ended before that"

_TIMELINESS: dict[LatencyTier, float] = {
    LatencyTier.TARGET: 1.0,
    LatencyTier.ACCEPTABLE: 0.75,
    LatencyTier.CRITICAL: 0.5,
    LatencyTier.EXCEEDED: 0.0,
}


def is_timeliness(dimension: str) -> bool:
    """Whether the clock scores this dimension."""
    return dimension.strip().casefold() == "timeliness"


def timeliness_of(tier: LatencyTier | None) -> float | None:
    """The score of a latency tier; None when the latency was not graded."""
    return None if tier is None else _TIMELINESS[tier]


def missing_dimensions(rubric: Rubric, scores: Mapping[str, float]) -> tuple[str, ...]:
    """Dimensions without a usable score, in the rubric's order."""
    return tuple(
        dimension.name
        for dimension in rubric.dimensions
        if dimension.name not in scores or not 0.0 <= scores[dimension.name] <= 1.0
    )


def overall_score(rubric: Rubric, scores: Mapping[str, float]) -> float | None:
    """The weighted mean, or None when a dimension has no score or nothing has weight."""
    total = math.fsum(dimension.weight for dimension in rubric.dimensions)
    if missing_dimensions(rubric, scores) or total <= 0:
        return None
    weighted = math.fsum(dimension.weight * scores[dimension.name] for dimension in rubric.dimensions)
    return min(1.0, max(0.0, weighted / total))
