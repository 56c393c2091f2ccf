"""A matrix that was run: how each value of each axis did, over all combinations that have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from steadyhand.judging.rates import ScenarioRate
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunMatrix


class Tally(Record):
    """How many came to each verdict. `not_run` is for trials alone: a combination always has a verdict."""

    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    error: int = 0
    not_run: int = 0

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.inconclusive + self.error + self.not_run


class ValueRate(Record):
    """One value of one axis: the verdicts of the combinations that have it, and those of their trials."""

    parameter: str
    value: Any
    combinations: Tally
    trials: Tally


def value_rates(matrix: RunMatrix, rates: Mapping[str, ScenarioRate]) -> list[ValueRate]:
    """Axis by axis, value by value, in the order of the file."""
    having: dict[tuple[int, int], list[ScenarioRate]] = {}
    for scenario_id, numbers in matrix.combinations.items():
        for at, number in enumerate(numbers):
            having.setdefault((at, number), []).append(rates[scenario_id])
    return [
        ValueRate(
            parameter=axis.parameter,
            value=value,
            combinations=tally_scenarios(having[at, number]),
            trials=tally_trials(having[at, number]),
        )
        for at, axis in enumerate(matrix.axes)
        for number, value in enumerate(axis.values)
    ]


def tally_scenarios(rates: Iterable[ScenarioRate]) -> Tally:
    counts = Counter(rate.verdict for rate in rates)
    return Tally(**{verdict.value: counts[verdict] for verdict in Verdict})


def tally_trials(rates: Iterable[ScenarioRate]) -> Tally:
    """Of all their trials together."""
    total: Counter[str] = Counter()
    for rate in rates:
        for name in Tally.__struct_fields__:
            total[name] += getattr(rate, name)
    return Tally(**total)
