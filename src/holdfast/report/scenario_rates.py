"""Scenarios that were tried several times: one line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.judging.scenario_rate import ScenarioRate, pass_hat_k
from holdfast.report.page import Page, one_line
from holdfast.report.table import Cell, render_table

_COLUMNS = ("verdict", "scenario", "passed", "required", "95 % interval", "pass^k", "undecided")
_ROWS = 200
_LARGEST_K = 5


def render_scenario_rates(rates: Sequence[ScenarioRate], page: Page) -> Iterator[str]:
    """The lines, none when every scenario was to be tried once. Those that did not pass come first when it is long."""
    several = [rate for rate in rates if rate.planned > 1]
    if not several:
        return
    shown = several
    if len(several) > _ROWS:
        shown = sorted(several, key=lambda rate: rate.verdict == "passed")[:_ROWS]
    yield from render_table(_COLUMNS, [_row(rate) for rate in shown], page, giving_way=1)
    if len(several) > _ROWS:
        yield f"({len(several) - _ROWS} more scenarios are not listed)"


def _row(rate: ScenarioRate) -> tuple[Cell, ...]:
    interval = rate.interval
    decided = rate.passed + rate.failed
    k = min(_LARGEST_K, decided - 1)
    hat = pass_hat_k(rate.passed, decided, k)
    undecided = rate.total - decided
    return (
        Cell(text=rate.verdict, style=rate.verdict),
        Cell(text=one_line(rate.scenario_id)),
        Cell(text=f"{rate.passed}/{rate.total}"),
        Cell(text="all" if rate.required is None else f"{rate.required:.0%}"),
        Cell(text=f"{interval[0]:.0%} to {interval[1]:.0%}" if interval else ""),
        Cell(text=f"k={k}: {hat:.0%}" if hat is not None else ""),
        Cell(text=str(undecided) if undecided else ""),
    )
