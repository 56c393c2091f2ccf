"""Sides of a comparison, made from counts, for the tests of comparisons and gates."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from steadyhand.judging.comparison import Pair
from steadyhand.judging.comparison_side import Sample, Side
from steadyhand.records.location import Place
from steadyhand.records.run import SCENARIO_PART

RATES = (1.0,) * 4 + (0.95,) * 3 + (0.8,) * 3 + (0.5,) * 2
"""A realistic suite: some scenarios always pass, some hardly ever."""


def sample(scenario_id: str, passed: int, failed: int = 0, **more: Any) -> Sample:
    given: dict[str, Any] = {
        "target": "m/one",
        "place": Place(file=f"scenarios/{scenario_id}.yaml", line=3),
        "parts": {SCENARIO_PART: "d1"},
        "checks": ("stops",),
    }
    given.update(more)
    return Sample(
        recorded_id=scenario_id,
        scenario_id=scenario_id,
        passed=tuple(range(passed)),
        failed=tuple(range(passed, passed + failed)),
        **given,
    )


def side(*samples: Sample, **more: Any) -> Side:
    given: dict[str, Any] = {"name": "a", "run_id": "run-a", "started_at": "2026-11-16T10:00:00+00:00", **more}
    return Side(samples=samples, **given)


def drawn_side(rates: Sequence[float], trials: int, drawn: random.Random, **more: Any) -> Side:
    """A run of scenarios that pass with these probabilities."""

    def passes(rate: float) -> int:
        return sum(drawn.random() < rate for _ in range(trials))

    counts: Mapping[str, int] = {f"s{at}": passes(rate) for at, rate in enumerate(rates)}
    return side(*(sample(name, passed, trials - passed) for name, passed in counts.items()), **more)


def pair(a: tuple[int, int], b: tuple[int, int], scenario_id: str = "s") -> Pair:
    return Pair(scenario_id=scenario_id, a_passed=a[0], a_decided=a[1], b_passed=b[0], b_decided=b[1])


def draw_pairs(drawn: random.Random, before: tuple[float, ...], after: tuple[float, ...], trials: int) -> list[Pair]:
    def passes(rate: float) -> int:
        return sum(drawn.random() < rate for _ in range(trials))

    return [
        pair((passes(a), trials), (passes(b), trials), f"s{at}")
        for at, (a, b) in enumerate(zip(before, after, strict=True))
    ]
