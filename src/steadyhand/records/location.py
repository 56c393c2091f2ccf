"""Positions in files, and problems found there."""

from __future__ import annotations

from typing import Literal

from steadyhand.records.base import Record


class Place(Record, array_like=True):
    """A position in a source file. `line` and `column` count from 1; 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem(Record):
    """`code` is a stable short name for machines, such as `unknown-key` or `out-of-range`."""

    place: Place
    message: str
    code: str
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        path = f"{self.place.path}: " if self.place.path else ""
        mark = "warning: " if self.level == "warning" else ""
        return f"{self.place}: {path}{mark}{self.message}"
