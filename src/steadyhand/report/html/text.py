"""Untrusted text in a page: escaped, with hidden characters shown, and limited in size.

Everything that a template prints automatically goes through `written_out` and Jinja's escaping; text longer than a line
goes through `shown`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from difflib import unified_diff
from typing import Any, NamedTuple, cast

import msgspec
from markupsafe import Markup, escape

from steadyhand.records.base import plain

SHOWN = 2_000
"""The length of text that is shown before it is folded."""
MOST = 20_000
"""The maximum length of a text in a page."""
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


class Highlight(NamedTuple):
    """A highlighted part of a text, `text[start:end]`; `title` says why."""

    start: int
    end: int
    style: str
    title: str = ""


def written_out(value: Any) -> Any:
    """A string with its hidden characters escaped, for one line of a page; anything else unchanged."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return _HIDDEN.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), _lines(value))


def shown(text: str, marks: Iterable[Highlight] = (), *, limit: int = SHOWN) -> Markup:
    """The text as HTML, with `marks`; folded after `limit` characters and truncated after `MOST`."""
    marks = tuple(marks)
    text = text if marks else _lines(text)
    pieces = _cut(text, sorted(marks, key=lambda mark: (mark.start, -mark.end)))
    if len(text) <= limit + limit // 5:
        return Markup("<bdi>{}</bdi>").format(_joined(pieces))
    head, rest = _split(pieces, limit)
    rest, left_out = _split(rest, MOST - limit)
    size = f"{len(text):,}".replace(",", "\u202f")
    more = Markup('<details class="more"><summary>show all {} characters</summary><bdi>{}</bdi>{}</details>')
    cut = Markup('<p class="cut">{} more characters are in the run record only.</p>')
    cut = cut.format(sum(len(text) for text, _ in left_out)) if left_out else ""
    return Markup("<bdi>{}</bdi>{}").format(_joined(head), more.format(_escaped(size), _joined(rest), cut))


def line(text: str, limit: int = 200) -> Markup:
    """The text on one line, with an ellipsis if it was cut."""
    flat = " ".join(text[: limit * 4].split())
    flat = flat if len(flat) <= limit and len(text) <= limit * 4 else flat[:limit].rstrip() + "…"
    return Markup("<bdi>{}</bdi>").format(_escaped(flat))


def line_as_is(text: str, limit: int = 400) -> Markup:
    """One line of a file, its spaces kept."""
    return Markup("<bdi>{}</bdi>").format(_escaped(text if len(text) <= limit else text[:limit] + "…"))


def value(anything: Any) -> Markup:
    """A value from a tool or a service: a string unchanged, anything else as JSON."""
    if isinstance(anything, str):
        return shown(anything, limit=600)
    try:
        encoded = msgspec.json.encode(anything, enc_hook=repr)
    except (ValueError, TypeError, RecursionError):
        encoded = msgspec.json.encode(plain(anything))
    if len(encoded) > 80:
        encoded = msgspec.json.format(encoded, indent=2)
    return shown(encoded.decode(), limit=600)


def chart_data(anything: Any) -> Any:
    """The data of a chart, with its text made safe, because a script inserts it unchanged."""
    if isinstance(anything, dict):
        return {key: chart_data(each) for key, each in cast("dict[str, Any]", anything).items()}
    if isinstance(anything, list):
        return [chart_data(each) for each in cast("list[Any]", anything)]
    return written_out(anything)


class DiffLine(NamedTuple):
    kind: str
    text: str


def diff(before: str | None, after: str | None) -> list[DiffLine]:
    """The changed lines with three of context around them."""
    kinds = {"+": "added", "-": "removed", "@": "hunk"}
    lines = list(unified_diff((before or "").splitlines(), (after or "").splitlines(), lineterm=""))[2:]
    return [DiffLine(kinds.get(each[:1], "same"), each) for each in lines]


class SourceLine(NamedTuple):
    number: int
    text: str
    here: bool


def excerpt(source: str, number: int, most: int = 16) -> list[SourceLine]:
    """The lines of a file from `number` (counted from 1) to the end of the block that begins there."""
    lines = source.splitlines()
    if not 0 < number <= len(lines):
        return []
    indent = _indent(lines[number - 1])
    found = [SourceLine(number, lines[number - 1], here=True)]
    for at, text in enumerate(lines[number : number + most - 1], start=number + 1):
        if text.strip() and _indent(text) <= indent:
            break
        found.append(SourceLine(at, text, here=False))
    while not found[-1].text.strip() and len(found) > 1:
        found.pop()
    return found


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _escaped(text: str) -> Markup:
    """The only place where untrusted text becomes HTML."""
    found = escape(text)
    return Markup(_HIDDEN.sub(_revealed, str(found))) if _HIDDEN.search(found) else found  # noqa: S704 - escaped above


def _revealed(found: re.Match[str]) -> str:
    character = found.group()
    name = escape(unicodedata.name(character, "control character"))
    return f'<span class="hidden" title="{name}">U+{ord(character):04X}</span>'


def _cut(text: str, marks: Sequence[Highlight]) -> list[tuple[str, Highlight | None]]:
    """The text in pieces, each with the mark it is under; where two overlap the first one wins."""
    found: list[tuple[str, Highlight | None]] = []
    at = 0
    for mark in marks:
        start, end = max(mark.start, at), min(mark.end, len(text))
        if start >= end:
            continue
        if start > at:
            found.append((text[at:start], None))
        found.append((text[start:end], mark))
        at = end
    if at < len(text):
        found.append((text[at:], None))
    return found


def _split(
    pieces: Sequence[tuple[str, Highlight | None]], limit: int
) -> tuple[list[tuple[str, Highlight | None]], list[tuple[str, Highlight | None]]]:
    head: list[tuple[str, Highlight | None]] = []
    room = limit
    for at, (text, mark) in enumerate(pieces):
        if len(text) > room:
            return [*head, (text[:room], mark)], [(text[room:], mark), *pieces[at + 1 :]]
        head.append((text, mark))
        room -= len(text)
    return head, []


def _joined(pieces: Iterable[tuple[str, Highlight | None]]) -> Markup:
    return Markup("").join(_piece(pieces))


def _piece(pieces: Iterable[tuple[str, Highlight | None]]) -> Iterator[Markup]:
    for text, mark in pieces:
        if mark is None:
            yield _escaped(text)
        else:
            title = written_out(mark.title)
            yield Markup('<mark class="{}" title="{}">{}</mark>').format(mark.style, title, _escaped(text))
