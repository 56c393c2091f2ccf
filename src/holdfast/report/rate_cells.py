"""What tables say of a scenario that was tried several times."""

from __future__ import annotations

from holdfast.judging.scenario_rate import ScenarioRate, percent
from holdfast.judging.statistics import pass_hat_k
from holdfast.report.table import Cell

RATE_COLUMNS = ("passed", "required", "95 % interval", "pass^k", "undecided")
_LARGEST_K = 5


def rate_cells(rate: ScenarioRate) -> tuple[Cell, ...]:
    """A cell for each of `RATE_COLUMNS`. One trial alone has no rate worth a figure."""
    decided = rate.passed + rate.failed
    undecided = rate.total - decided
    interval, hat = None, None
    k = min(_LARGEST_K, decided - 1)
    if rate.planned > 1:
        interval, hat = rate.interval, pass_hat_k(rate.passed, decided, k)
    return (
        Cell(text=f"{rate.passed}/{rate.total}"),
        Cell(text=percent(rate.required) if rate.planned > 1 else ""),
        Cell(text=f"{interval[0]:.0%} to {interval[1]:.0%}" if interval else ""),
        Cell(text=f"k={k}: {hat:.0%}" if hat is not None else ""),
        Cell(text=str(undecided) if undecided else ""),
    )
