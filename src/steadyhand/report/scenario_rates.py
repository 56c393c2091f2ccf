"""What became of the scenarios of a run: those that were tried several times, the matrices, and the sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from steadyhand.judging.rates import ScenarioRate
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader
from steadyhand.report.page import Page, one_line
from steadyhand.report.rate_cells import RATE_COLUMNS, rate_cells
from steadyhand.report.table import Cell, render_table

_ROWS = 200


def render_scenarios(header: RunHeader, rates: Sequence[ScenarioRate], page: Page) -> Iterator[str]:
    """The lines, each table after an empty one; none when every scenario was to be tried once, outside any matrix."""
    in_matrix = {each for matrix in header.matrices for each in matrix.combinations}
    several = [rate for rate in rates if rate.planned > 1 and rate.scenario_id not in in_matrix]
    if several:
        yield ""
        yield from _several(several, page)
    if header.matrices:
        from steadyhand.report.matrix import render_matrix

        by_id = {rate.scenario_id: rate for rate in rates}
        for matrix in header.matrices:
            yield ""
            yield from render_matrix(matrix, by_id, page)


def scenarios_line(header: RunHeader, rates: Sequence[ScenarioRate], page: Page) -> str | None:
    """Such as `2 scenarios: 1 passed, 1 failed`, which decides the exit code; None where the trials say it already."""
    if all(rate.planned <= 1 for rate in rates):
        return None
    counts = Counter(rate.verdict for rate in rates)
    told = ", ".join(page.paint(f"{counts[verdict]} {verdict}", verdict) for verdict in Verdict if counts[verdict])
    noun = "combination" if sum(len(each.combinations) for each in header.matrices) == len(rates) else "scenario"
    return f"{len(rates)} {noun}{'s' if len(rates) > 1 else ''}: {told}"


def _several(rates: Sequence[ScenarioRate], page: Page) -> Iterator[str]:
    shown = rates
    if len(rates) > _ROWS:
        shown = sorted(rates, key=lambda rate: rate.verdict is Verdict.PASSED)[:_ROWS]
    rows = [
        (
            Cell(text=rate.verdict, style=rate.verdict),
            Cell(text=one_line(rate.scenario_id)),
            *rate_cells(rate),
        )
        for rate in shown
    ]
    yield from render_table(("verdict", "scenario", *RATE_COLUMNS), rows, page, giving_way=1)
    if len(rates) > _ROWS:
        yield f"({len(rates) - _ROWS} more scenarios are not listed)"
