"""Which findings a file switches off with `x-lint-ignore`, at its top level or in a single check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from steadyhand.lint.scenario import CODES
from steadyhand.records.location import Problem
from steadyhand.spec.validation import FieldPath, Findings, describe, nearest
from steadyhand.spec.yaml import Document, read_document

KEY = "x-lint-ignore"
_PART = re.compile(r"\[(\d+)\]|\['([^']*)'\]|([^.\[\]]+)")


def unknown_code(code: str) -> str | None:
    """Why a code cannot be ignored, or None if it can."""
    if code in CODES:
        return None
    near = nearest(code, CODES)
    return f"unknown code `{code}`; " + (f"did you mean `{near}`?" if near else f"expected one of {', '.join(CODES)}")


class FileIgnores:
    """What the files themselves switch off. Each file is read once, when it is first asked about."""

    def __init__(self) -> None:
        self._documents: dict[str, Document | None] = {}

    def covers(self, problem: Problem) -> bool:
        """Whether the problem's file switches its code off, as a whole or for the check in question."""
        document = self._document(problem.place.file)
        return document is not None and problem.code in _ignored(document.data, problem.place.path)

    def faults(self, files: Iterable[str]) -> list[Problem]:
        """What is wrong with the `x-lint-ignore` of these files."""
        found: list[Problem] = []
        for file in dict.fromkeys(files):
            document = self._document(file)
            if document is None:
                continue
            findings = Findings(document)
            for path, value in _declared(document.data, ()):
                for code in _listed(value):
                    fault = unknown_code(code) if isinstance(code, str) else f"expected a code, found {describe(code)}"
                    if fault:
                        findings.warning(path, fault, "unknown-lint-code", key=True)
            found += findings.problems
        return found

    def _document(self, file: str) -> Document | None:
        if file not in self._documents:
            self._documents[file] = read_document(file, file)[0]
        return self._documents[file]


def _ignored(data: Any, path: str) -> set[Any]:
    """The codes switched off anywhere from the top of the file down to `path`."""
    codes: set[Any] = set()
    for index, name, key in [("", "", ""), *_PART.findall(path)]:
        if index or name or key:
            data = _member(data, int(index) if index else name or key)
        if isinstance(data, dict):
            codes.update(each for each in _listed(cast("dict[str, Any]", data).get(KEY, [])) if isinstance(each, str))
    return codes


def _member(data: Any, part: str | int) -> Any:
    try:
        return data[part]
    except (KeyError, IndexError, TypeError):
        return None


def _declared(data: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """Every `x-lint-ignore` of the file, with its place."""
    if isinstance(data, dict):
        for name, value in cast("dict[str, Any]", data).items():
            if name == KEY:
                yield (*path, name), value
            elif name != "metadata":
                yield from _declared(value, (*path, name))
    elif isinstance(data, list):
        for index, value in enumerate(cast("list[Any]", data)):
            yield from _declared(value, (*path, index))


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]
