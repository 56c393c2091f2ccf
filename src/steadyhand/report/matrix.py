"""The results of a matrix: a row for each combination, and one for each value of each parameter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steadyhand.judging.rates import ScenarioRate, ValueRate, value_rates
from steadyhand.records.run import RunMatrix, Target
from steadyhand.report.table import Cell, Page, one_line, render_table
from steadyhand.report.wording import RATE_COLUMNS, axis_value, rate_cells, told_apart
from steadyhand.spec.matrix_axes import parse_path

_ROWS = 200


def render_matrix(
    matrix: RunMatrix, rates: Mapping[str, ScenarioRate], page: Page, targets: Mapping[str, Target]
) -> Iterator[str]:
    """The lines. If there are too many combinations to list, those that did not pass come first.

    `targets` tell combinations of several scenarios or targets apart.
    """
    count = len(matrix.combinations)
    varied = [axis.parameter for axis in matrix.axes if len(axis.values) > 1]
    same = [f"{axis.parameter}={axis_value(axis.values[0])}" for axis in matrix.axes if len(axis.values) == 1]
    heading = f"matrix {one_line(matrix.name)}: {count} combination{'s' if count > 1 else ''}"
    yield page.paint(heading, "strong") + (f", all with {one_line(', '.join(same))}" if same and varied else "")
    listed = list(matrix.combinations)
    if count > _ROWS:
        listed = sorted(listed, key=lambda each: rates[each].verdict == "passed")[:_ROWS]
    axes = {axis.parameter for axis in matrix.axes}
    among = [name for name in ("scenario", "agent", "model") if name not in axes]
    beside = told_apart(list(matrix.combinations), targets, among=among)
    parameters = {each: {**beside.get(each, {}), **matrix.parameters(each)} for each in listed}
    others = list(beside[listed[0]]) if beside else []
    columns = [*others, *(varied or [axis.parameter for axis in matrix.axes])]
    rows = [_matrix_row(parameters[each], columns, rates[each]) for each in listed]
    widest = max(range(len(columns)), key=lambda at: max(len(row[1 + at].text) for row in rows))
    names = ("verdict", *_short_names(columns), *RATE_COLUMNS)
    yield from render_table(names, rows, page, giving_way=1 + widest, cuttable=range(1, 1 + len(columns)))
    if count > len(listed):
        yield f"({count - len(listed)} more combinations not listed)"
    if len(varied) > 1 or (varied and beside):
        yield ""
        yield from _by_value([each for each in value_rates(matrix, rates) if each.parameter in varied], page)


def _matrix_row(parameters: Mapping[str, Any], columns: Sequence[str], rate: ScenarioRate) -> tuple[Cell, ...]:
    return (
        Cell(text=rate.verdict, style=rate.verdict),
        *(Cell(text=axis_value(parameters[column])) for column in columns),
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
    yield from render_table(header, rows, page, giving_way=1, cuttable=(0,))


def _short_names(parameters: Sequence[str]) -> list[str]:
    """The last part of each path, if that is enough to tell them apart."""
    last = [_last_name(parameter) for parameter in parameters]
    count = Counter(last)
    return [short if count[short] == 1 else one_line(whole) for short, whole in zip(last, parameters, strict=True)]


def _last_name(parameter: str) -> str:
    """With its index, if it has one: `run[0]`."""
    name = ""
    for part in parse_path(parameter):
        name = f"{name}[{part}]" if isinstance(part, int) else part
    return one_line(name)
