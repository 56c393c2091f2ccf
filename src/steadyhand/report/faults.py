"""What agents made of services that went wrong: a table with the outcomes apart, one row for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from steadyhand.reading.run import Reading
from steadyhand.records.run import FaultConduct
from steadyhand.report.table import Cell, Page, one_line, render_table

TITLE = "When a service goes wrong"
CONDUCTS: tuple[FaultConduct, ...] = get_args(FaultConduct)
COLUMNS = ("scenario", "fault", *(each.replace("_", " ") for each in CONDUCTS))


def fault_rows(reading: Reading) -> list[tuple[str, ...]]:
    """The original's id, what went wrong, and the number of trials with each outcome."""
    found, origins = reading.totals.faults, reading.header.variants
    return [
        (origins[each].original, origins[each].shown, *(str(counts[conduct] or "") for conduct in CONDUCTS))
        for each in reading.expected
        if (counts := found.get(each)) is not None and each in origins
    ]


def render_faults(reading: Reading, page: Page) -> Iterator[str]:
    rows = [tuple(Cell(text=one_line(text)) for text in row) for row in fault_rows(reading)]
    if rows:
        yield ""
        yield page.paint(TITLE, "strong")
        yield from render_table(COLUMNS, rows, page, giving_way=0)
