"""A scenario with `cases`, lowered to one scenario for each case.

The first and the last case are read like files of their own. The others are copies of the first with their values in
its texts, where the fields declare that any value is valid; otherwise they are read like files, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec
from pydantic import BaseModel

from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import CaseOrigin, Scenario
from steadyhand.spec.agent import Catalogue
from steadyhand.spec.discovery import nearest_file
from steadyhand.spec.matrix_axes import show_value
from steadyhand.spec.patterns import is_blank
from steadyhand.spec.quoting import CannotQuote
from steadyhand.spec.shared_shapes import CasesShape
from steadyhand.spec.tables import Table, TableError, TableRow, inline_table, read_table
from steadyhand.spec.template import TextTemplate, find_templates
from steadyhand.spec.validation import FieldPath, Findings, advice, show_path, validate, with_value
from steadyhand.spec.yaml import Document
from steadyhand.text_match import nfc

MAX_CASES = 100_000
_TAGS = "tags"
_TOLD = 20
_LONG = 10_000
Read = Callable[[Document, Findings], Scenario | None]


class _Entry(NamedTuple):
    row: TableRow
    shown: str
    tags: tuple[str, ...]


def read_cases(
    document: Document, findings: Findings, shape: type[BaseModel], catalogue: Catalogue, read: Read
) -> list[Scenario]:
    """One scenario for each case, or none if `findings` holds an error. `read` reads a document without cases."""
    data = cast("dict[str, Any]", document.data)
    body = {key: value for key, value in data.items() if key != "cases"}
    settings = _settings(data["cases"], findings)
    if settings is None:
        return []
    try:
        table = _table(settings, document, inline=isinstance(data["cases"], list))
    except TableError as error:
        findings.add(Problem(place=error.place, message=str(error), code=error.code))
        return []
    templates = find_templates(body, shape, catalogue, findings)
    if not templates and not findings.failed:
        message = "no text has a placeholder such as `{{ age }}`, so every case would be the same"
        findings.error(("cases",), message, "no-placeholder")
    entries = _entries(table, settings, findings)
    if findings.failed:
        return []
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    expansion = _Expansion(document.with_data(body, digest=digest), templates, settings, table, read)
    expansion.check(entries, findings)
    return [] if findings.failed else expansion.run(entries, findings)


def _settings(given: Any, findings: Findings) -> CasesShape | None:
    if isinstance(given, list):
        return CasesShape.model_construct(rows=given, id="id", optional=[])
    settings = validate(CasesShape, given, ("cases",), findings)
    if settings is not None and (settings.file is None) == (settings.rows is None):
        found = "both" if settings.file is not None else "neither"
        findings.error(("cases",), f"expected `file` or `rows`, found {found}", "conflict")
        return None
    return settings


def _table(settings: CasesShape, document: Document, *, inline: bool) -> Table:
    """Raises `TableError`."""
    if settings.file is None:
        path = ("cases",) if inline else ("cases", "rows")
        table = inline_table(settings.rows or [], document, path)
    else:
        path = os.path.normpath(os.path.join(document.folder, settings.file))  # noqa: PTH118
        if not os.path.exists(path):  # noqa: PTH110
            place = document.locate(("cases", "file"))
            message = (
                f"expected a file with cases, relative to the scenario; found none at `{path}`{nearest_file(path)}"
            )
            raise TableError(place, message, "missing-file")
        table = read_table(path)
    if not 0 < len(table.rows) <= MAX_CASES:
        place = document.locate(("cases",)) if table.file is None else Place(file=table.file)
        raise TableError(place, f"expected 1 to {MAX_CASES:,} cases, found {len(table.rows):,}", "out-of-range")
    return table


def _entries(table: Table, settings: CasesShape, findings: Findings) -> list[_Entry]:
    """The rows with their ids, which must be there and differ, and their tags."""
    column = settings.id
    entries: list[_Entry] = []
    first: dict[str, TableRow] = {}
    problems: list[Problem] = []
    for row in table.rows:
        try:
            name, tags = _text_of(row, column), _tags_of(row)
        except TableError as error:
            problems.append(Problem(place=error.place, message=str(error), code=error.code))
            continue
        shown = show_value(nfc(name))
        if shown in first:
            message = f"the id `{shown}` is already used at {first[shown].place(column)}; ids must differ"
            problems.append(Problem(place=row.place(column), message=message, code="duplicate-id"))
        first.setdefault(shown, row)
        entries.append(_Entry(row, shown, tags))
    _add(problems, findings)
    return entries


def _text_of(row: TableRow, column: str) -> str:
    """Raises `TableError`."""
    try:
        text = row.text(column)
    except KeyError:
        hint = advice(column, row.columns)
        message = f"the case has no `{column}`{hint}; `id` of `cases` names the column with the ids"
        raise TableError(row.place(), message, "missing-key") from None
    if not isinstance(text, str) or is_blank(text) or not text.isprintable():
        raise TableError(row.place(column), "expected an id on one line, which names the case in reports", "bad-value")
    return text


def _tags_of(row: TableRow) -> tuple[str, ...]:
    """Raises `TableError`."""
    if _TAGS not in row.columns:
        return ()
    given = row.value(_TAGS)
    tags = cast("list[Any]", given) if isinstance(given, list) else str(row.text(_TAGS) or "").split(",")
    if not all(isinstance(tag, str) for tag in tags):
        raise TableError(row.place(_TAGS), "expected tags: a list of texts, or a text with commas", "wrong-type")
    return tuple(tag.strip() for tag in tags if tag.strip())


def _add(problems: Sequence[Problem], findings: Findings) -> None:
    """At most so many of a kind: a table repeats one mistake in every row."""
    counts: dict[tuple[str, str], int] = {}
    for problem in dict.fromkeys(problems):
        key = (problem.code, problem.place.path)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= _TOLD:
            findings.add(problem)
    for (code, _), count in counts.items():
        if count > _TOLD:
            last = next(each for each in reversed(problems) if each.code == code)
            message = f"and {count - _TOLD} more cases like this"
            findings.add(msgspec.structs.replace(last, message=message))


class _CasePlaces:
    """Locates what a value of the table is in at its cell, and everything else in the scenario."""

    def __init__(self, document: Document, cells: dict[FieldPath, Place]) -> None:
        self._document: Document = document
        self._cells: dict[FieldPath, Place] = cells

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        cell = None if key else self._cells.get(path)
        if cell is None:
            return self._document.locate(path, key=key)
        return Place(file=cell.file, line=cell.line, column=cell.column, path=show_path(path))


class _Expansion:
    def __init__(
        self, document: Document, templates: list[TextTemplate], settings: CasesShape, table: Table, read: Read
    ) -> None:
        self._document: Document = document
        self._templates: list[TextTemplate] = templates
        self._settings: CasesShape = settings
        self._table: Table = table
        self._read: Read = read
        self._as_text: set[FieldPath] = set()
        """Lone placeholders whose fields take text, so that a number of the table is text there."""

    def check(self, entries: Sequence[_Entry], findings: Findings) -> None:
        """That every case has what is used, that nothing is left unused, and that no two cases are the same."""
        names = {hole.name: template for template in reversed(self._templates) for hole in template.holes}
        needed = {hole.name for template in self._templates if template.in_check for hole in template.holes}
        known = dict.fromkeys(name for entry in entries for name in entry.row.columns)
        for name, template in list(names.items()):
            if not any(_has(entry.row, name) for entry in entries):
                message = f"no case has a value `{name}`{advice(name, known)}"
                findings.error(template.path, message, "unknown-name")
                del names[name]
        for name in self._settings.optional:
            if name not in known and not any(_has(entry.row, name) for entry in entries):
                message = f"no case has a value `{name}`{advice(name, known)}"
                findings.error(("cases", "optional"), message, "unknown-name")
        if findings.failed:
            return
        problems = [each for entry in entries for each in self._check_row(entry, names, needed)]
        _add(problems, findings)
        if not problems:
            self._check_use(entries, list(names), known, findings)

    def _check_row(self, entry: _Entry, names: dict[str, TextTemplate], needed: set[str]) -> Iterator[Problem]:
        row = entry.row
        for name, template in names.items():
            try:
                value = row.text(name)
            except KeyError:
                at = self._document.locate(template.path)
                message = f"the case `{entry.shown}` has no `{name}`, which {at} uses"
                yield Problem(place=row.place(), message=message, code="missing-key")
                continue
            if not (value is None or (isinstance(value, str) and is_blank(value))):
                continue
            if name not in self._settings.optional and name.partition(".")[0] not in self._settings.optional:
                message = f"`{name}` is empty; give it a value, or list the column under `optional` of `cases`"
                yield Problem(place=row.place(name), message=message, code="empty-value")
            elif name in needed:
                message = f"`{name}` is empty, although optional: a check uses it, and would check less without it"
                yield Problem(place=row.place(name), message=message, code="empty-value")

    def _check_use(
        self, entries: Sequence[_Entry], names: Sequence[str], known: dict[str, None], findings: Findings
    ) -> None:
        used = {name.partition(".")[0] for name in names} | set(names) | {self._settings.id, _TAGS}
        for column in known:
            if column not in used:
                place = next(entry.row.place(column) for entry in entries if column in entry.row.columns)
                message = f"no text uses the column `{column}`"
                findings.add(Problem(place=place, message=message, code="unused-column", level="warning"))
        first: dict[str, _Entry] = {}
        found: list[Problem] = []
        for entry in entries:
            values = repr([entry.row.text(name) for name in names])
            same = first.setdefault(values, entry)
            if same is not entry:
                message = f"the case has the same values as `{same.shown}`, so it is the same test twice"
                place = entry.row.place()
                found.append(Problem(place=place, message=message, code="duplicate-case", level="warning"))
        _add(found, findings)

    def run(self, entries: Sequence[_Entry], findings: Findings) -> list[Scenario]:
        problems: list[Problem] = []
        first = self._in_full(entries[0], problems)
        copy = None if first is None else self._copier(entries[0], first, entries[-1])
        scenarios: list[Scenario] = []
        for index, entry in enumerate(entries):
            scenario = first if not index else copy(entry.row) if copy is not None else None
            scenario = scenario or self._in_full(entry, problems)
            if scenario is not None:
                scenarios.append(self._with_own_id(scenario, entry))
        _add(problems, findings)
        return [] if findings.failed else scenarios

    def _with_own_id(self, scenario: Scenario, entry: _Entry) -> Scenario:
        place = entry.row.place()
        digest = hashlib.sha256(f"{scenario.digest}/{entry.row.content!r}".encode()).hexdigest()[:16]
        return msgspec.structs.replace(
            scenario,
            id=f"{scenario.id}[{entry.shown}]",
            place=scenario.place if self._table.file else place,
            digest=digest,
            tags=(*scenario.tags, *entry.tags),
            case=CaseOrigin(name=entry.shown, base_id=scenario.id, place=place),
            sources=scenario.sources if self._table.file is None else (*scenario.sources, self._table.file),
        )

    def _in_full(self, entry: _Entry, problems: list[Problem]) -> Scenario | None:
        """The case read like a file of its own."""
        scenario, found = self._read_row(entry.row)
        wrong = {problem.place.path for problem in found if problem.code == "wrong-type"}
        numbers = {each.path for each in self._templates if each.lone and show_path(each.path) in wrong} - self._as_text
        if numbers:
            self._as_text |= numbers
            again, left = self._read_row(entry.row)
            still = {problem.place.path for problem in left if problem.code == "wrong-type"}
            if any(show_path(path) in still for path in numbers):
                self._as_text -= numbers
            else:
                scenario, found = again, left
        cells = {show_path(each.path): each for each in self._templates}
        for problem in found:
            template = cells.get(problem.place.path)
            if template is not None and problem.place != self._document.locate(template.path, key=True):
                message = f"{problem.message} (`{template.holes[0].name}` of the case `{entry.shown}`, used at"
                message = f"{message} {self._document.locate(template.path)})"
                problems.append(msgspec.structs.replace(problem, message=message))
            else:
                problems.append(problem)
        return scenario

    def _read_row(self, row: TableRow) -> tuple[Scenario | None, list[Problem]]:
        data, cells, wrong = self._document.data, dict[FieldPath, Place](), list[Problem]()
        for template in self._templates:
            holes = template.holes
            at = row.place(holes[0].name) if holes else self._document.locate(template.path)
            cells[template.path] = at
            try:
                data = with_value(data, template.path, template.fill(row, typed=template.path not in self._as_text))
            except CannotQuote as error:
                place = Place(file=at.file, line=at.line, column=at.column, path=show_path(template.path))
                wrong.append(Problem(place=place, message=str(error), code="bad-value"))
        if wrong:
            return None, wrong
        findings = Findings(_CasePlaces(self._document, cells))
        return self._read(self._document.with_data(data), findings), findings.problems

    def _copier(self, entry: _Entry, scenario: Scenario, last: _Entry) -> Callable[[TableRow], Scenario | None] | None:
        """Makes the scenario of a row from that of the first one, or None for a row that must be read in full.

        Tokens stand for the values in a scenario that is read once; where they are found in it, values belong. None if
        that is not sure to be all that reading a case does.
        """
        if not all(template.free for template in self._templates):
            return None
        mark = "Zq7"
        while mark in json.dumps(self._document.data):
            mark += "q7"
        holes = [(template, hole) for template in self._templates for hole in template.holes]
        data, number = self._document.data, 0
        for template in self._templates:
            parts: list[str] = []
            for part in template.parts:
                token = f"{mark}x{number}Z"
                parts.append(
                    part if isinstance(part, str) else f"(?:{token})" if template.language == "regex" else token
                )
                number += not isinstance(part, str)
            data = with_value(data, template.path, "".join(parts))
        made = self._read(self._document.with_data(data), Findings(self._document))
        fill = None if made is None else _filler(made, re.compile(rf"\(\?:{mark}x(\d+)Z\)|{mark}x(\d+)Z"))
        if fill is None:
            return None

        def copy(row: TableRow) -> Scenario | None:
            try:
                values = [template.fill(row) if template.lone else hole.literal(row) for template, hole in holes]
            except CannotQuote:
                return None
            if any(value == "" or (isinstance(value, str) and len(value) > _LONG) for value in values):
                return None
            return fill(values)

        whole = last is entry or self._read_row(last.row)[0] == copy(last.row)
        return copy if whole and copy(entry.row) == scenario else None


Fill = Callable[[Sequence[Any]], Any]


def _filler(value: Any, token: re.Pattern[str]) -> Fill | None:
    """Makes copies of a value with others in place of its tokens; None if it has none."""
    if isinstance(value, str):
        return _text_filler(value, token)
    if isinstance(value, msgspec.Struct):
        pairs = [(name, getattr(value, name)) for name in value.__struct_fields__]
        fills = [(name, fill) for name, each in pairs if (fill := _filler(each, token)) is not None]
        return (
            (lambda values: msgspec.structs.replace(value, **{name: fill(values) for name, fill in fills}))
            if fills
            else None
        )
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        named = {name: fill for name, each in entries.items() if (fill := _filler(each, token)) is not None}
        return (lambda values: {**entries, **{name: fill(values) for name, fill in named.items()}}) if named else None
    if isinstance(value, list | tuple):
        items = list(cast("Sequence[Any]", value))
        filled = [(index, fill) for index, each in enumerate(items) if (fill := _filler(each, token)) is not None]
        if not filled:
            return None
        if isinstance(value, tuple):
            return lambda values: tuple(_with(items, filled, values))
        return lambda values: _with(items, filled, values)
    return None


def _with(items: list[Any], filled: Sequence[tuple[int, Fill]], values: Sequence[Any]) -> list[Any]:
    made = items.copy()
    for index, fill in filled:
        made[index] = fill(values)
    return made


def _text_filler(text: str, token: re.Pattern[str]) -> Fill | None:
    parts: list[str | int] = []
    at = 0
    for match in token.finditer(text):
        parts += [text[at : match.start()], int(match[match.lastindex or 0])]
        at = match.end()
    if not parts:
        return None
    parts = [part for part in (*parts, text[at:]) if part != ""]
    if len(parts) == 1:
        number = cast("int", parts[0])
        return lambda values: values[number]
    return lambda values: "".join([part if isinstance(part, str) else values[part] for part in parts])


def _has(row: TableRow, name: str) -> bool:
    try:
        row.text(name)
    except KeyError:
        return False
    return True
