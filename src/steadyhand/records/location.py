"""Where something stands in a file."""

from __future__ import annotations

from steadyhand.records.base import Record


class Place(Record, array_like=True):
    """A position in a source file. `line` and `column` count from 1; 0 means the whole file."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file
