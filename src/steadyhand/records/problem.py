"""One finding about a file: an error that stops it from loading, or a warning."""

from __future__ import annotations

from typing import Literal

from steadyhand.records.base import Record
from steadyhand.records.location import Place


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
