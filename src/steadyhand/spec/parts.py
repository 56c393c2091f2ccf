"""Scenarios that extend another file: two documents merged into one, in which every value knows where it is written."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any, cast

from steadyhand.records.location import Place, Problem
from steadyhand.spec.discovery import show_file
from steadyhand.spec.validation import FieldPath, Findings, advice, describe, show_path
from steadyhand.spec.yaml import Document, read_document

EXTENDS = "extends"
_CHECKS = frozenset(("run", "evaluations", "turn_evaluations", "final_evaluations", "safety_invariants"))
_Origins = dict[FieldPath, tuple[Document, FieldPath]]


class MergedDocument(Document):
    """A document that was merged from two. `origins` say where the values at some paths, and all below them, are."""

    __slots__ = ("_origins", "_own")

    def __init__(self, own: Document, data: Any, origins: _Origins, base: Document) -> None:
        digest = hashlib.sha256(f"{own.digest}/{base.digest}".encode()).hexdigest()[:16]
        super().__init__(own.file, own.folder, data, root=None, digest=digest)
        self._own: Document = own
        self._origins: _Origins = origins
        self.sources = (base.file,)

    def with_data(self, data: Any, *, digest: str | None = None) -> Document:
        made = MergedDocument(self._own, data, self._origins, self._own)
        made.digest, made.sources = digest or self.digest, self.sources
        return made

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        document, inner = self._origin(path)
        place = document.locate(inner, key=key)
        return Place(file=place.file, line=place.line, column=place.column, path=show_path(path))

    def written(self, path: FieldPath) -> str | None:
        document, inner = self._origin(path)
        return document.written(inner)

    def _origin(self, path: FieldPath) -> tuple[Document, FieldPath]:
        for count in range(len(path), -1, -1):
            found = self._origins.get(path[:count])
            if found is not None:
                return found[0], (*found[1], *path[count:])
        return self._own, path


def with_base(document: Document, findings: Findings) -> Document:
    """The document merged with the one that it extends, if any. What is wrong with either is a finding."""
    own: Any = document.data
    if not isinstance(own, dict) or EXTENDS not in own:
        return document
    written = cast("dict[str, Any]", own)
    given = written[EXTENDS]
    if not isinstance(given, str) or not given:
        findings.error((EXTENDS,), f"expected the name of a file, found {describe(given)}", "wrong-type")
        return document
    path = os.path.normpath(os.path.join(document.folder, given))  # noqa: PTH118
    base, problems = read_document(path, show_file(path, os.getcwd()))  # noqa: PTH109
    for problem in problems:
        findings.add(problem)
    if base is None or problems:
        return document
    found: Any = base.data
    if not isinstance(found, dict):
        findings.error((EXTENDS,), f"expected a scenario in `{given}`, found {describe(found)}", "wrong-type")
        return document
    extended = cast("dict[str, Any]", found)
    if EXTENDS in extended:
        findings.error((EXTENDS,), f"`{given}` extends another file itself; only one level is allowed", "bad-value")
        return document
    merge = _Merge(document, base, findings)
    kept = {key: value for key, value in written.items() if key != EXTENDS}
    merged = merge.mappings(kept, extended, ())
    findings.document = made = MergedDocument(document, merged, merge.origins, base)
    return made


class _Merge:
    def __init__(self, own: Document, base: Document, findings: Findings) -> None:
        self._own: Document = own
        self._base: Document = base
        self._findings: Findings = findings
        self.origins: _Origins = {}

    def mappings(self, own: dict[str, Any], base: dict[str, Any], path: FieldPath) -> dict[str, Any]:
        """Keys of `own` replace those of `base`; mappings are merged, and `+key` adds to a list."""
        merged = dict(base)
        for key in base:
            self.origins[*path, key] = (self._base, (*path, key))
        for key, value in own.items():
            name = key.removeprefix("+")
            at = (*path, name)
            if key != name:
                self._add(value, base, own, path, key)
                if isinstance(value, list) and isinstance(base.get(name), list):
                    merged[name] = [*base[name], *value]
            elif isinstance(value, dict) and isinstance(base.get(key), dict):
                merged[key] = self.mappings(cast("dict[str, Any]", value), base[key], at)
            else:
                merged[key] = value
                self.origins[at] = (self._own, at)
                self._warn_of_lost(value, base.get(key), at)
        return merged

    def _add(self, value: Any, base: dict[str, Any], own: dict[str, Any], path: FieldPath, key: str) -> None:
        name = key[1:]
        if name in own:
            self._error((*path, key), f"found `{name}` too; keep one of them", "conflict")
        elif not isinstance(value, list) or not isinstance(base.get(name), list):
            found = describe(base[name]) if name in base else f"none{advice(name, base)}"
            message = f"adds to a list of {self._base.file}, which must have a list `{name}`; found {found}"
            self._error((*path, key), message, "bad-value")
        else:
            before = len(base[name])
            for index in range(len(cast("list[Any]", value))):
                self.origins[*path, name, before + index] = (self._own, (*path, key, index))

    def _warn_of_lost(self, value: Any, before: Any, at: FieldPath) -> None:
        if at[-1] in _CHECKS and isinstance(before, list) and value != before:
            count = len(cast("list[Any]", before))
            message = f"replaces {count} of {self._base.file}, checks included; write `+{at[-1]}` to add to them"
            self._findings.add(
                Problem(place=self._own.locate(at, key=True), message=message, code="replaces-checks", level="warning")
            )

    def _error(self, path: FieldPath, message: str, code: str) -> None:
        self._findings.add(Problem(place=self._own.locate(path, key=True), message=message, code=code))


def resolved_lines(document: Document) -> Iterator[tuple[str, Place]]:
    """A merged document as YAML, line by line, with the place that each line is from."""
    yield from _lines(document, document.data, (), "")


def _lines(document: Document, value: Any, path: FieldPath, indent: str) -> Iterator[tuple[str, Place]]:
    entries: list[tuple[str, str | int, Any]] = []
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value).items()
        entries = [(f"{key if key.isidentifier() else json.dumps(key)}:", key, each) for key, each in named]
    elif isinstance(value, list):
        entries = [("-", index, each) for index, each in enumerate(cast("list[Any]", value))]
    for label, part, each in entries:
        place = document.locate((*path, part))
        if isinstance(each, dict | list) and each:
            yield f"{indent}{label}", place
            yield from _lines(document, each, (*path, part), f"{indent}  ")
        else:
            yield f"{indent}{label} {json.dumps(each, ensure_ascii=False)}", place
