"""What was found wrong in one document, in the order of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from steadyhand.records.location import Place, Problem
from steadyhand.spec.naming import Path


class Located(Protocol):
    """A file that can say where a field of it stands."""

    def locate(self, path: Path, *, key: bool = False) -> Place: ...


class Findings:
    """Collects the problems of one document. `failed` once one of them is an error."""

    def __init__(self, document: Located, problems: Sequence[Problem] = ()) -> None:
        self.document: Located = document
        self._problems: list[Problem] = list(problems)

    def error(self, path: Path, message: str, code: str, *, key: bool = False) -> None:
        self._add(path, message, code, "error", key)

    def warning(self, path: Path, message: str, code: str, *, key: bool = False) -> None:
        self._add(path, message, code, "warning", key)

    def _add(self, path: Path, message: str, code: str, level: Literal["error", "warning"], key: bool) -> None:
        place = self.document.locate(path, key=key)
        self._problems.append(Problem(place=place, message=message, code=code, level=level))

    @property
    def failed(self) -> bool:
        return any(problem.level == "error" for problem in self._problems)

    @property
    def problems(self) -> list[Problem]:
        return sorted(self._problems, key=lambda problem: (problem.place.line, problem.place.column))


def describe(value: Any) -> str:
    """A value as a message names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        short = value if len(value) <= 60 else value[:57] + "..."
        return f'the text "{short}"'
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "a mapping" if isinstance(value, dict) else str(value)
