"""Which findings a file switches off with `x-lint-ignore`, at its top level or in a single check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from steadyhand.records.location import Problem
from steadyhand.spec.validation import FieldPath, Findings, describe, nearest
from steadyhand.spec.yaml import Document, read_document

KEY = "x-lint-ignore"
CODES: dict[str, str] = {
    "truncated-stem": "a truncated word before `\\b`, which matches no whole word",
    "never-matches": "part of a pattern can never match",
    "first-line-only": "a prohibition only reads the first line",
    "matches-prompt": "repeating the question would satisfy the check",
    "matches-refusal": "a refusal would satisfy the check",
    "matches-anything": "almost any text, or an empty one, would satisfy the check",
    "contradicts-expected-action": "the check forbids what the file's own expected action does",
    "expected-action-fails": "the file's own expected action does not satisfy the check",
    "rejects-good-answers": "none of the file's own good answers would pass",
    "trips-on-negation": '"do not X" would fail a check that forbids X',
    "negation-passes": '"do not X" would pass a check that asks for X',
    "long-pattern": "a pattern is too long to be read, so nobody can tell what it accepts",
    "never-offered": "a check names a tool or service that the agent is not offered",
    "ambiguous-name": "a check asks for a tool by a name that several have",
    "no-examples": "there are no example answers to try the checks on",
    "few-examples": "there are too few example answers to try the checks on",
    "echo-passes": "repeating the question passes the whole scenario",
    "silence-passes": "an empty reply passes the whole scenario",
    "cases-alike": "a good answer to one case passes every check of another",
    "no-judge-criterion": "a meaning check has nothing to ask a judge where the reader is not sure",
    "unfilled-placeholder": "a check has a placeholder, and the scenario no cases",
    "unused-mock": "another mock always answers in place of this one",
    "unused-persona": "a simulated user never speaks",
    "unknown-lint-code": "`x-lint-ignore` names a code that does not exist",
    "no-invariants": "a decision scenario has no invariants",
    "duplicate-name": "two invariants have the same name",
    "unused-key": "a key has no effect where it is",
    "matches-empty": "an empty reply satisfies an invariant",
    "id-convention": "an id does not follow the convention",
    "never-applies": "a termination condition can never apply",
    "no-evaluations": "a scenario evaluates nothing",
    "refusal-passes": "a refusal passes the whole scenario",
    "unused-column": "no text uses a column of a table of cases",
    "duplicate-case": "two cases have the same values",
    "unused-part": "no scenario uses a part of a file with shared parts",
    "replaces-checks": "a list with checks replaces that of the file that a scenario extends",
}
"""What each code means. The last twelve are loader warnings, which lint repeats."""
_PART = re.compile(r"\[(\d+)\]|\['([^']*)'\]|([^.\[\]]+)")


def unknown_code(code: str) -> str | None:
    """Why a code cannot be ignored, or None if it can."""
    if code in CODES:
        return None
    near = nearest(code, CODES)
    return f"unknown code `{code}`; " + (f"did you mean `{near}`?" if near else f"expected one of {', '.join(CODES)}")


class FileIgnores:
    """What the files themselves switch off. Each file is read once, when it is first asked about."""

    def __init__(self, tables: Mapping[str, str] | None = None) -> None:
        """`tables` are files with cases, which switch nothing off, and the scenario that does it for them."""
        self._tables: Mapping[str, str] = tables or {}
        self._documents: dict[str, Document | None] = {}

    def covers(self, problem: Problem) -> bool:
        """Whether the problem's file switches its code off, as a whole or for the check in question."""
        document, path = self._document(problem.place.file), problem.place.path
        data: Any = None if document is None else document.data
        if not isinstance(data, dict):
            document, path = self._document(self._tables.get(problem.place.file, "")), ""
        return document is not None and problem.code in _ignored(document.data, path)

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
