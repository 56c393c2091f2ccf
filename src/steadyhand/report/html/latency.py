"""Latency against its tiers: every trial a point, for each scenario and target that has a budget."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from steadyhand.judging.statistics import percentile
from steadyhand.records.base import Record
from steadyhand.records.evaluation import LatencyBounds
from steadyhand.report.html.overview import TrialLine
from steadyhand.report.wording import milliseconds

_MOST_ROWS = 60
_MOST_POINTS = 500


class LatencyRow(Record):
    """The trials of a scenario on a target. `percentiles` are told only where there are enough values for them."""

    name: str
    target: str
    budget: LatencyBounds
    points: tuple[tuple[float, str, str], ...]
    percentiles: str
    not_graded: int = 0
    worst_share: float = 0.0


def latency_rows(lines: Iterable[TrialLine]) -> list[LatencyRow]:
    """Those that used most of their critical time first. A latency that was not graded is counted, not drawn."""
    groups: dict[tuple[str, str], list[TrialLine]] = {}
    for each in lines:
        if each.budget is not None:
            groups.setdefault((each.scenario, each.target), []).append(each)
    rows = [_row(group) for group in groups.values()]
    return sorted(rows, key=lambda row: -row.worst_share)


def picture(rows: list[LatencyRow]) -> list[dict[str, Any]]:
    """What the script draws of the first rows."""
    several = len({row.target for row in rows}) > 1
    return [
        {
            "name": f"{row.name} · {row.target}" if several else row.name,
            "bounds": [row.budget.target_ms, row.budget.acceptable_ms, row.budget.critical_ms],
            "points": [[round(ms, 1), tier, anchor] for ms, tier, anchor in row.points[:_MOST_POINTS]],
        }
        for row in rows[:_MOST_ROWS]
    ]


def _row(group: list[TrialLine]) -> LatencyRow:
    budget = group[0].budget
    assert budget is not None
    graded = [each for each in group if each.latency_ms is not None and each.tier is not None]
    points = tuple((each.latency_ms or 0.0, each.tier or "", each.anchor) for each in graded)
    values = [ms for ms, _, _ in points]
    return LatencyRow(
        name=group[0].scenario,
        target=group[0].target,
        budget=budget,
        points=points,
        percentiles=_percentiles(values),
        not_graded=len(group) - len(graded),
        worst_share=max(values, default=0.0) / budget.critical_ms,
    )


def _percentiles(values: list[float]) -> str:
    found = [("median", percentile(values, 0.5)), ("p95", percentile(values, 0.95)), ("p99", percentile(values, 0.99))]
    told = [
        f"{name} {milliseconds(each.value)} ({milliseconds(each.low or 0.0)} to {milliseconds(each.high or 0.0)})"
        for name, each in found
        if each.value is not None
    ]
    return ", ".join(told)
