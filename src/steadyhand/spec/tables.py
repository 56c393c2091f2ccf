"""Tables of cases: rows from a scenario, or from a CSV, JSONL or YAML file, that know where each of their values is."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from steadyhand.records.location import Place
from steadyhand.spec.discovery import show_file
from steadyhand.spec.validation import FieldPath, describe
from steadyhand.spec.yaml import Document, YamlError, decode, open_regular, read_document

MAX_TABLE_BYTES = 64 << 20
ENDINGS = (".csv", ".jsonl", ".yaml", ".yml")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_CONSTANTS = {"true": True, "false": False}


class TableError(Exception):
    """Why a table, or a row of it, cannot be read."""

    def __init__(self, place: Place, message: str, code: str = "bad-table") -> None:
        super().__init__(message)
        self.place: Place = place
        self.code: str = code


class TableRow(Protocol):
    """The values of a case, by name or by path, such as `patient.age`. `value` and `text` raise `KeyError`."""

    @property
    def columns(self) -> Iterable[str]: ...

    @property
    def content(self) -> object:
        """What it is made of, for a digest."""
        ...

    def value(self, name: str) -> Any: ...

    def text(self, name: str) -> Any:
        """As it was written, if it is not a list or a mapping."""
        ...

    def place(self, name: str = "") -> Place: ...


class Table(NamedTuple):
    """`file` is set if the rows are not in the scenario itself."""

    rows: Sequence[TableRow]
    file: str | None = None


class DataRow:
    """A row of data that was read from YAML or JSON."""

    __slots__ = ("_data", "_locate", "_written")

    def __init__(
        self, data: dict[str, Any], locate: Callable[[FieldPath], Place], written: Callable[[FieldPath], str | None]
    ) -> None:
        self._data: dict[str, Any] = data
        self._locate: Callable[[FieldPath], Place] = locate
        self._written: Callable[[FieldPath], str | None] = written

    @property
    def columns(self) -> Iterable[str]:
        return self._data

    @property
    def content(self) -> object:
        return self._data

    def value(self, name: str) -> Any:
        return self._find(name)[0]

    def text(self, name: str) -> Any:
        value, path = self._find(name)
        if not isinstance(value, bool | int | float):
            return value
        written = self._written(path)
        return json.dumps(value) if written is None else written

    def place(self, name: str = "") -> Place:
        try:
            return self._locate(self._find(name)[1] if name else ())
        except KeyError:
            return self._locate(())

    def _find(self, name: str) -> tuple[Any, FieldPath]:
        if name in self._data:
            return self._data[name], (name,)
        value: Any = self._data
        path = tuple(name.split("."))
        for part in path:
            if not isinstance(value, dict):
                raise KeyError(name)
            value = cast("dict[str, Any]", value)[part]
        return value, path


class CsvRow:
    """A row of a CSV file. A cell is a number, true or false if JSON would write it so, and else text."""

    __slots__ = ("_cells", "_line", "_table")

    def __init__(self, cells: list[str], line: int, table: _CsvTable) -> None:
        self._cells: list[str] = cells
        self._line: int = line
        self._table: _CsvTable = table

    @property
    def columns(self) -> Iterable[str]:
        return self._table.columns

    @property
    def content(self) -> object:
        return self._cells

    def value(self, name: str) -> Any:
        text = self._cells[self._table.columns[name]]
        if _NUMBER.fullmatch(text):
            return float(text) if "." in text else int(text)
        return _CONSTANTS.get(text, text)

    def text(self, name: str) -> str:
        return self._cells[self._table.columns[name]]

    def place(self, name: str = "") -> Place:
        return self._table.place(self._line, self._table.columns.get(name, 0))


class _CsvTable:
    def __init__(self, file: str, text: str) -> None:
        self._file: str = file
        self._text: str = text
        self.columns: dict[str, int] = {}

    def read(self) -> Table:
        """Raises `TableError`."""
        reader = csv.reader(io.StringIO(self._text, newline=""), strict=True)
        rows: list[CsvRow] = []
        before = 0
        limit = csv.field_size_limit(MAX_TABLE_BYTES)
        try:
            for cells in reader:
                line, before = before + 1, reader.line_num
                if not any(map(str.strip, cells)):
                    continue
                stripped = [cell.strip() for cell in cells]
                if not self.columns:
                    self._read_header(stripped, line)
                    continue
                if len(stripped) != len(self.columns):
                    message = f"expected {len(self.columns)} cells, as in the first line; found {len(stripped)}"
                    raise TableError(self.place(line, min(len(stripped), len(self.columns))), message)
                rows.append(CsvRow(stripped, line, self))
        except csv.Error as error:
            raise TableError(Place(file=self._file, line=before + 1, column=1), f"not valid CSV: {error}") from None
        finally:
            csv.field_size_limit(limit)
        return Table(rows, self._file)

    def _read_header(self, cells: list[str], line: int) -> None:
        for index, name in enumerate(cells):
            if not name:
                raise TableError(self.place(line, index), "the column has no name")
            if name in self.columns:
                raise TableError(self.place(line, index), f"another column is also called `{name}`")
            self.columns[name] = index
        if len(cells) == 1 and re.search(r"[;\t]", cells[0]):
            message = f"found one column, `{cells[0]}`; separate columns with commas"
            raise TableError(self.place(line, 0), message)

    def place(self, line: int, index: int) -> Place:
        """Where the cell with this index begins, in the record that begins on this line."""
        at = (line, 1)
        lines = self._text.split("\n")[line - 1 :] if index else []
        quoted, cell, row, column = False, 0, 0, 0
        while cell < index and row < len(lines):
            if column >= len(lines[row]):
                row, column = row + 1, 0
                if not quoted:
                    break
                continue
            if lines[row][column] == '"':
                quoted = not quoted
            elif lines[row][column] == "," and not quoted:
                cell += 1
                at = (line + row, column + 2)
            column += 1
        return Place(file=self._file, line=at[0], column=at[1])


def inline_table(entries: list[Any], document: Document, path: FieldPath) -> Table:
    """Raises `TableError`."""
    return Table([_data_row(entry, document, (*path, index)) for index, entry in enumerate(entries)])


def _data_row(entry: Any, document: Document, path: FieldPath) -> DataRow:
    if not isinstance(entry, dict):
        raise TableError(document.locate(path), f"expected a mapping of names to values, found {describe(entry)}")
    return DataRow(
        cast("dict[str, Any]", entry),
        lambda inner: document.locate((*path, *inner)),
        lambda inner: document.written((*path, *inner)),
    )


def read_table(path: str) -> Table:
    """The rows of a file. Raises `TableError`."""
    file = show_file(path, os.getcwd())  # noqa: PTH109
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise TableError(Place(file=file), f"expected a file that ends in {', '.join(ENDINGS[:-1])}")
    if ending in (".yaml", ".yml"):
        document, problems = read_document(path, file)
        if document is None or problems:
            raise TableError(problems[0].place, problems[0].message, problems[0].code)
        if not isinstance(document.data, list):
            raise TableError(document.locate(()), f"expected a list of cases, found {describe(document.data)}")
        found = inline_table(cast("list[Any]", document.data), document, ())
        return Table(found.rows, file)
    text = _read_text(path, file)
    return _CsvTable(file, text).read() if ending == ".csv" else _read_jsonl(text, file)


def _read_text(path: str, file: str) -> str:
    try:
        with open(path, "rb", opener=open_regular) as stream:
            content = stream.read(MAX_TABLE_BYTES + 1)
        if len(content) > MAX_TABLE_BYTES:
            raise TableError(Place(file=file), "the file is larger than the limit of 64 MiB", "too-large")
        return decode(content, most=MAX_TABLE_BYTES)
    except OSError as error:
        raise TableError(Place(file=file), f"cannot be read: {error.strerror or error}", "unreadable") from None
    except YamlError as error:
        fault = error.fault
        raise TableError(Place(file=file, line=fault.line, column=fault.column), fault.message, fault.code) from None


def _read_jsonl(text: str, file: str) -> Table:
    rows: list[DataRow] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        place = Place(file=file, line=number, column=1)
        try:
            data = json.loads(line, object_pairs_hook=_without_repeats, parse_constant=_refuse, parse_float=_finite)
            line.encode()
            json.dumps(data, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            fault = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            column = error.colno if isinstance(error, json.JSONDecodeError) else 1
            raise TableError(Place(file=file, line=number, column=column), f"not valid JSON: {fault}") from None
        if not isinstance(data, dict):
            raise TableError(place, f"expected a JSON object, found {describe(data)}")
        rows.append(DataRow(cast("dict[str, Any]", data), _locator(line, place), _numbers_of(line)))
    return Table(rows, file)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises `ValueError`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key `{twice}` is set twice")
    return found


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number


def _numbers_of(line: str) -> Callable[[FieldPath], str | None]:
    """The numbers of a line as they are written in it."""

    def written(path: FieldPath) -> str | None:
        found = json.loads(line, parse_int=str, parse_float=str)
        for part in path:
            found = found[part]
        return found if isinstance(found, str) else None

    return written


def _refuse(constant: str) -> Any:
    raise ValueError(f"found {constant}")


def _locator(line: str, place: Place) -> Callable[[FieldPath], Place]:
    def locate(path: FieldPath) -> Place:
        at = line.find(json.dumps(path[0])) if path else -1
        return Place(file=place.file, line=place.line, column=max(at, 0) + 1)

    return locate
