"""A matrix that was run: a line for each combination, and one for each value of each axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from holdfast.judging.matrix_rate import ValueRate, value_rates
from holdfast.judging.scenario_rate import ScenarioRate
from holdfast.records.run import RunMatrix
from holdfast.report.page import Page, one_line
from holdfast.report.rate_cells import RATE_COLUMNS, rate_cells
from holdfast.report.table import Cell, render_table
from holdfast.report.wording import axis_value

_ROWS = 200


def render_matrix(matrix: RunMatrix, rates: Mapping[str, ScenarioRate], page: Page) -> Iterator[str]:
    """The lines. Combinations that did not pass come first when there are too many to list."""
    count = len(matrix.combinations)
    yield page.paint(f"matrix {one_line(matrix.name)}: {count} combination{'s' if count > 1 else ''}", "strong")
    names = _short_names([axis.parameter for axis in matrix.axes])
    listed = list(matrix.combinations)
    if count > _ROWS:
        listed = sorted(listed, key=lambda each: rates[each].verdict == "passed")[:_ROWS]
    rows = [_row(matrix, each, rates[each]) for each in listed]
    widest = max(range(len(names)), key=lambda at: max(len(row[1 + at].text) for row in rows))
    yield from render_table(("verdict", *names, *RATE_COLUMNS), rows, page, giving_way=1 + widest)
    if count > len(listed):
        yield f"({count - len(listed)} more combinations are not listed)"
    if sum(len(axis.values) > 1 for axis in matrix.axes) > 1:
        yield ""
        yield from _by_value(value_rates(matrix, rates), page)


def _row(matrix: RunMatrix, scenario_id: str, rate: ScenarioRate) -> tuple[Cell, ...]:
    values = matrix.parameters(scenario_id).values()
    return (
        Cell(text=rate.verdict, style=rate.verdict),
        *(Cell(text=axis_value(value)) for value in values),
        *rate_cells(rate),
    )


def _by_value(values: Sequence[ValueRate], page: Page) -> Iterator[str]:
    rows = [
        (
            Cell(text=one_line(each.parameter)),
            Cell(text=axis_value(each.value)),
            Cell(text=f"{each.combinations.passed}/{each.combinations.total}"),
            Cell(text=f"{each.trials.passed}/{each.trials.total}"),
        )
        for each in values
    ]
    header = ("parameter", "value", "combinations passed", "trials passed")
    yield from render_table(header, rows, page, giving_way=1)


def _short_names(parameters: Sequence[str]) -> list[str]:
    """The last part of each path, where that is enough to tell them apart."""
    last = [one_line(parameter.rpartition(".")[2]) for parameter in parameters]
    count = Counter(last)
    return [short if count[short] == 1 else one_line(whole) for short, whole in zip(last, parameters, strict=True)]
