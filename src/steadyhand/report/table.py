"""Tables of text: columns as wide as their content, one of which shrinks to fit the page."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence

from steadyhand.records.base import Record
from steadyhand.records.evaluation import Verdict

_CODES = {
    "passed": "32",
    "failed": "1;31",
    "inconclusive": "33",
    "error": "1;35",
    "good": "32",
    "fair": "33",
    "bad": "31",
    "strong": "1",
    "faint": "2",
}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MINIMUM = 40
Quote = Callable[[str], str]
"""How an output shows text that comes from outside."""


class Page(Record):
    width: int = 100
    colour: bool = False

    def paint(self, text: str, style: str | Verdict) -> str:
        """The text in colour, if the page has colour. `style` is a verdict or a key of `_CODES`."""
        code = _CODES.get(style, "") if self.colour else ""
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    def wrap(self, text: str, *, indent: int = 0, most: int = 4) -> Iterator[str]:
        """Lines that fit after an indent, at most `most`; an ellipsis marks what is left out."""
        room = max(self.width, _MINIMUM) - indent
        lines = [piece for line in visible(text).split("\n") for piece in _pieces(line.rstrip(), room)]
        if len(lines) > most:
            lines = [*lines[: most - 1], clip(lines[most - 1] + " " * room, room)]
        yield from (line.rstrip() for line in lines)


def visible(text: str) -> str:
    """Tabs expanded and control characters escaped: what an agent says must not control the terminal."""
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def no_commands(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with those that look like workflow commands escaped: a CI service would execute them."""
    for line in lines:
        yield f"| {line}" if line.lstrip().startswith("::") else line


def one_line(text: str) -> str:
    return " ".join(visible(text).split())


def cells(text: str) -> int:
    """Width of the text in columns."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def clip(text: str, width: int) -> str:
    """The text, cut to `width` columns, with an ellipsis if something was cut."""
    if cells(text) <= width:
        return text
    taken = 0
    for position, character in enumerate(text):
        taken += _cell(character)
        if taken > width - 1:
            return text[:position].rstrip() + "…"
    return text


def pad(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _pieces(line: str, room: int) -> Iterator[str]:
    while cells(line) > room:
        at, taken = 0, 0
        while taken + _cell(line[at]) <= room:
            taken += _cell(line[at])
            at += 1
        blank = line.rfind(" ", 1, at + 1)
        cut = blank if blank > 0 and line[:blank].strip() else at
        yield line[:cut].rstrip()
        line = line[cut:].lstrip()
    yield line


_GAP = "  "
_LEAST = 12
_CRAMPED = 18
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
    cuttable: Sequence[int] = (),
) -> Iterator[str]:
    """The lines of the table. Empty columns are left out, and column `giving_way` is cut to fit the page.

    If that would make it uncomfortably narrow, `optional` columns are dropped first, in the order given. If the table
    is still too wide, or that column cramped, the widest of the `cuttable` ones are cut, too.
    """
    used = [i for i in range(len(header)) if i == giving_way or any(row[i].text for row in rows)]
    widths = {i: max(cells(header[i]), *(cells(row[i].text) for row in rows)) for i in used} if rows else {}
    if not widths:
        return
    wanted = min(widths[giving_way], _COMFORT)
    for column in optional:
        if column in used and page.width - _fixed(widths, used, giving_way) < wanted:
            used.remove(column)
    cramped = _fixed(widths, used, giving_way) + min(widths[giving_way], _CRAMPED) - page.width
    cut = {giving_way, *_narrow(widths, [i for i in cuttable if i in used and i != giving_way], cramped)}
    fixed = _fixed(widths, used, giving_way)
    widths[giving_way] = min(widths[giving_way], max(page.width - fixed, _LEAST))
    shown: list[list[Cell]] = [list(row) for row in rows]
    for column in cut:
        texts = tell_apart([row[column].text for row in rows], widths[column])
        widths[column] = max(cells(header[column]), *map(cells, texts))
        for row, text in zip(shown, texts, strict=True):
            row[column] = Cell(text=text, style=row[column].style)
    yield page.paint(_GAP.join(pad(header[i], widths[i]) for i in used).rstrip(), "faint")
    for row in shown:
        yield _line(row, used, widths, page)


def _narrow(widths: dict[int, int], columns: Sequence[int], over: int) -> Iterator[int]:
    """Take what is `over` from the widest of the columns, and yield those that were narrowed."""
    while over > 0 and columns:
        widest = max(columns, key=lambda i: widths[i])
        less = min(over, widths[widest] - _LEAST)
        if less <= 0:
            return
        widths[widest] -= less
        over -= less
        yield widest


def _fixed(widths: dict[int, int], used: Sequence[int], giving_way: int) -> int:
    return sum(widths[i] for i in used if i != giving_way) + len(_GAP) * (len(used) - 1)


def tell_apart(texts: Sequence[str], width: int) -> list[str]:
    """The texts, cut to the width; without the beginning that they share, if they could not be told apart with it."""
    cut = [clip(text, width) for text in texts]
    if len(set(cut)) == len(set(texts)):
        return cut
    first, last = min(texts), max(texts)
    shared = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    shorter = [f"…{text[shared:]}" for text in texts]
    ends = [clip(text, width) for text in shorter]
    return ends if len(set(ends)) > len(set(cut)) else cut


def _line(row: Sequence[Cell], used: Sequence[int], widths: dict[int, int], page: Page) -> str:
    parts: list[str] = []
    for i in used:
        text = clip(row[i].text, widths[i])
        parts.append(page.paint(text, row[i].style) + " " * (widths[i] - cells(text)))
    return _GAP.join(parts).rstrip()
