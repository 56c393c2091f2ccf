"""A table of text: columns as wide as they need to be, one of them giving way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steadyhand.records.base import Record
from steadyhand.report.page import Page, cells, clip, pad

_GAP = "  "
_LEAST = 12
_COMFORT = 24


class Cell(Record):
    text: str = ""
    style: str = ""


def render_table(
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    page: Page,
    *,
    giving_way: int,
    optional: Sequence[int] = (),
) -> Iterator[str]:
    """Lines of the table. Columns that are empty throughout are left out; `giving_way` is cut when room is short.

    Before that is cut to less than is comfortable, `optional` columns are left out, the first named first.
    """
    used = [i for i in range(len(header)) if i == giving_way or any(row[i].text for row in rows)]
    widths = {i: max(cells(header[i]), *(cells(row[i].text) for row in rows)) for i in used} if rows else {}
    if not widths:
        return
    wanted = min(widths[giving_way], _COMFORT)
    for column in optional:
        if column in used and page.width - _fixed(widths, used, giving_way) < wanted:
            used.remove(column)
    fixed = _fixed(widths, used, giving_way)
    widths[giving_way] = min(widths[giving_way], max(page.width - fixed, _LEAST))
    yield page.paint(_GAP.join(pad(header[i], widths[i]) for i in used).rstrip(), "faint")
    for row in rows:
        yield _line(row, used, widths, page)


def _fixed(widths: dict[int, int], used: Sequence[int], giving_way: int) -> int:
    return sum(widths[i] for i in used if i != giving_way) + len(_GAP) * (len(used) - 1)


def _line(row: Sequence[Cell], used: Sequence[int], widths: dict[int, int], page: Page) -> str:
    parts: list[str] = []
    for i in used:
        text = clip(row[i].text, widths[i])
        parts.append(page.paint(text, row[i].style) + " " * (widths[i] - cells(text)))
    return _GAP.join(parts).rstrip()
