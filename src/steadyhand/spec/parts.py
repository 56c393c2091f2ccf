"""The parts that a scenario is put together from: the file that it extends, the defaults of its project, and shared
mocks, personas, checks and rubrics. The result is one document in which every value knows where it is written.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from steadyhand.records.evaluation import GROUPS
from steadyhand.records.location import Place, Problem
from steadyhand.spec.agent import evaluation_lists
from steadyhand.spec.discovery import nearest_file, show_file
from steadyhand.spec.validation import FieldPath, Findings, advice, describe, mappings, with_value
from steadyhand.spec.yaml import Document, read_document

EXTENDS = "extends"
USE = "use"
SECTIONS = ("mocks", "personas", "evaluations", "invariants", "rubrics")
"""The keys of a file with shared parts; below each, parts by name."""
_CHECKS = frozenset(("run", "evaluations", "turn_evaluations", "final_evaluations", "safety_invariants"))
_OF_ITS_OWN = _CHECKS.union(
    ("id", "name", "description", "messages", "pressure", "expected_action", "examples"),
    (EXTENDS, "cases", "variants", "plugins", "agent"),
)
"""What no default can say for a scenario."""
_OF_THE_GROUP = frozenset(("weight", "severity"))
"""What a check does not have in a group."""
_Origins = dict[FieldPath, tuple[Document, FieldPath]]


class MergedDocument(Document):
    """A document that was merged from several. `origins` say where the values at some paths, and below them, are."""

    __slots__ = ("_origins", "_own")

    def __init__(self, own: Document, data: Any, origins: _Origins, *parts: Document) -> None:
        digest = hashlib.sha256("/".join(each.digest for each in (own, *parts)).encode()).hexdigest()[:16]
        super().__init__(own.file, own.folder, data, root=None, digest=digest)
        self._own: Document = own
        self._origins: _Origins = origins
        self.sources = tuple(dict.fromkeys([*own.sources, *(file for each in parts for file in each.sources)]))

    def with_data(self, data: Any, *, digest: str | None = None) -> Document:
        made = MergedDocument(self._own, data, self._origins)
        made.digest, made.sources = digest or self.digest, self.sources
        return made

    def locate(self, path: FieldPath, *, key: bool = False) -> Place:
        document, inner = self._origin(path)
        return document.locate(inner, key=key)

    def written(self, path: FieldPath) -> str | None:
        document, inner = self._origin(path)
        return document.written(inner)

    def written_in(self, path: FieldPath) -> Document:
        document, inner = self._origin(path)
        return document.written_in(inner)

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
    if not os.path.exists(path):  # noqa: PTH110
        findings.error((EXTENDS,), f"expected a file, found none at `{path}`{nearest_file(path)}", "missing-file")
        return document
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
    merged = merge.mappings(kept, extended)
    base.sources = (base.file,)
    findings.document = made = MergedDocument(document, merged, merge.origins, base)
    return made


def check_defaults(defaults: Document | None, allowed: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the keys of a project's defaults, where scenarios may have the `allowed` ones."""
    if defaults is None:
        return []
    findings, keys = Findings(defaults), [name for name in allowed if name not in _OF_ITS_OWN]
    for name, value in cast("dict[str, Any]", defaults.data).items():
        if name not in keys:
            message = f"unknown default `{name}`{advice(name, keys)}"
            if name in allowed:
                message = f"`{name}` cannot be a default: scenarios say it themselves, or extend a file that does"
            findings.error((name,), message, "unknown-key", key=True)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            message = "expected what YAML has too: text, finite numbers, true, false, lists and tables"
            findings.error((name,), message, "wrong-type")
    return findings.problems


def with_defaults(
    document: Document, defaults: Document | None, allowed: Mapping[str, Any], findings: Findings
) -> Document:
    """The document with the project's defaults for the `allowed` keys, as if it extended them."""
    if defaults is None:
        return document
    known = {key: each for key, each in defaults.data.items() if key in allowed and key not in _OF_ITS_OWN}
    if not known:
        return document
    merge = _Merge(document, defaults, findings)
    merged = merge.mappings(document.data, known)
    used = defaults.with_data(known, digest=_digest(known))
    findings.document = made = MergedDocument(document, merged, merge.origins, used)
    return made


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


class PartFiles:
    """The files with shared parts that scenarios use. Each is read once; `used` are the parts by file, section and
    name."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[Document | None, list[Problem]]] = {}
        self.used: set[tuple[str, str, str]] = set()
        self.files: set[str] = set()

    def applied(self, document: Document, findings: Findings) -> Document:
        """The document with the parts in place of every `use`. What is wrong with either is a finding."""
        data, origins, parts = document.data, _Origins(), list[Document]()
        for path, section in _uses(data):
            entry: dict[str, Any] = data
            for step in path:
                entry = cast("Any", entry)[step]
            part = self._part(entry[USE], section, document, (*path, USE), findings)
            if part is None:
                continue
            parts.append(part)
            own = {key: value for key, value in entry.items() if key != USE}
            if section == "rubrics":
                for key in own:
                    findings.error(
                        (*path, key), f"unknown key `{key}` beside `use` of a rubric", "unknown-key", key=True
                    )
                # As it is found from the scenario's own folder.
                file, _, name = entry[USE].partition("#")
                there = os.path.join(document.written_in((*path, USE)).folder, file)  # noqa: PTH118
                data = with_value(data, path, f"{os.path.relpath(there, document.folder or '.')}#{name}")
                continue
            merge = _Merge(document, part, findings)
            given = part.data
            if not set(GROUPS).isdisjoint(path):
                given = {key: value for key, value in given.items() if key not in _OF_THE_GROUP}
            data = with_value(data, path, merge.mappings(own, given, path))
            origins |= {path: (part, ()), **merge.origins}
        if not parts:
            return document
        findings.document = made = MergedDocument(document, data, origins, *parts)
        return made

    def _part(
        self, given: Any, section: str, document: Document, path: FieldPath, findings: Findings
    ) -> Document | None:
        name, hash_, part = given.partition("#") if isinstance(given, str) else ("", "", "")
        if not (name and hash_ and part):
            findings.error(path, f"expected FILE#NAME, found {describe(given)}", "wrong-type")
            return None
        file = os.path.normpath(os.path.join(document.written_in(path).folder, name))  # noqa: PTH118
        self.files.add(os.path.realpath(file))
        found, problems = self._document(file)
        for problem in problems:
            findings.add(problem)
        if found is None or problems:
            if not os.path.exists(file):  # noqa: PTH110
                findings.error(
                    path, f"expected a file with {section}, found none at `{file}`{nearest_file(file)}", "missing-file"
                )
            return None
        known = cast("dict[str, Any]", found.data.get(section) or {})
        if part not in known:
            other = next((each for each in SECTIONS if part in (found.data.get(each) or {})), None)
            hint = f"; `{part}` is among its {other}" if other is not None else advice(part, known)
            findings.error(path, f"`{name}` has no `{part}` among its {section}{hint}", "unknown-name")
            return None
        self.used.add((os.path.realpath(file), section, part))
        return _view(found, section, part)

    def _document(self, file: str) -> tuple[Document | None, list[Problem]]:
        if file not in self._read:
            if os.path.exists(file):  # noqa: PTH110
                document, problems = read_document(file, show_file(file, os.getcwd()))  # noqa: PTH109
            else:
                document, problems = None, []
            self._read[file] = document, problems or ([] if document is None else check_part_file(document))
        return self._read[file]


def part_of(document: Document, section: str, name: str) -> Document | None:
    """One part of a file with shared parts."""
    return _view(document, section, name) if name in (document.data.get(section) or {}) else None


def _view(document: Document, section: str, name: str) -> Document:
    part = document.data[section][name]
    made = MergedDocument(document, part, {(): (document, (section, name))})
    made.digest = _digest(part)
    made.sources = (document.file,)
    return made


def is_part_file(data: Any) -> bool:
    """Whether it has no keys but those of a file with shared parts."""
    keys = [key for key in cast("dict[str, Any]", data) if not key.startswith("x-")] if isinstance(data, dict) else []
    return bool(keys) and all(key in SECTIONS for key in keys)


def check_part_file(document: Document) -> list[Problem]:
    """What is wrong with a file with shared parts, apart from the parts themselves."""
    findings, data = Findings(document), document.data
    if not isinstance(data, dict):
        findings.error((), f"expected a mapping with {', '.join(SECTIONS)}, found {describe(data)}", "wrong-type")
        return findings.problems
    for section, named in cast("dict[str, Any]", data).items():
        if section not in SECTIONS:
            if not section.startswith("x-"):
                message = f"unknown key `{section}`{advice(section, SECTIONS)}"
                findings.error((section,), message, "unknown-key", key=True)
        elif not isinstance(named, dict):
            findings.error((section,), f"expected {section} by name, found {describe(named)}", "wrong-type")
        else:
            for name, part in cast("dict[str, Any]", named).items():
                if not isinstance(part, dict):
                    findings.error((section, name), f"expected a mapping, found {describe(part)}", "wrong-type")
                elif USE in part or any(True for _ in _in_checks([part], (), section)):
                    findings.error((section, name), "a part cannot use another part", "bad-value")
    return findings.problems


def unused_parts(document: Document, used: set[tuple[str, str, str]], file: str) -> Iterator[Problem]:
    """A warning for each part of the file that is not among the `used` ones."""
    for section in document.data:
        for name in document.data[section] if section in SECTIONS else ():
            if (file, section, name) not in used:
                place = document.locate((section, name), key=True)
                message = f"no scenario uses `{name}`"
                yield Problem(place=place, message=message, code="unused-part", level="warning")


def _uses(data: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """Every place with `use`, and the section that it takes a part from."""
    setup: Any = data.get("setup")
    if isinstance(setup, dict):
        for index, mock in mappings(cast("dict[str, Any]", setup).get("mocks")):
            if USE in mock:
                yield ("setup", "mocks", index), "mocks"
    for index, step in mappings(data.get("run")):
        conversation: Any = step.get("conversation")
        user: Any = cast("dict[str, Any]", conversation).get("user_simulator") if isinstance(conversation, dict) else 0
        if isinstance(user, dict) and USE in user:
            yield ("run", index, "conversation", "user_simulator"), "personas"
    for _, _, path, entries in evaluation_lists(data):
        yield from _in_checks(entries, path, "evaluations")
    yield from _in_checks(data.get("safety_invariants"), ("safety_invariants",), "invariants")
    if isinstance(rubric := data.get("rubric"), dict) and USE in rubric:
        yield ("rubric",), "rubrics"


def _in_checks(entries: Any, path: FieldPath, section: str) -> Iterator[tuple[FieldPath, str]]:
    """Those among checks, and among the checks of groups."""
    for index, entry in mappings(entries):
        if USE in entry:
            yield (*path, index), section
            continue
        for group in GROUPS:
            inner: Any = entry.get(group)
            at = (*path, index, group)
            if isinstance(inner, dict):
                inner, at = cast("dict[str, Any]", inner).get("of"), (*at, "of")
            yield from _in_checks(inner, at, section)


class _Merge:
    def __init__(self, own: Document, base: Document, findings: Findings) -> None:
        self._own: Document = own
        self._base: Document = base
        self._findings: Findings = findings
        self.origins: _Origins = {}

    def mappings(
        self, own: dict[str, Any], base: dict[str, Any], path: FieldPath = (), base_path: FieldPath = ()
    ) -> dict[str, Any]:
        """Keys of `own`, at `path`, replace those of `base`; mappings are merged, and `+key` adds to a list."""
        merged = dict(base)
        for key in base:
            self.origins[*path, key] = (self._base, (*base_path, key))
        for key, value in own.items():
            name = key.removeprefix("+")
            at = (*path, name)
            if key != name:
                self._add(value, base, own, path, key)
                if isinstance(value, list) and isinstance(base.get(name), list):
                    merged[name] = [*base[name], *value]
            elif isinstance(value, dict) and isinstance(base.get(key), dict):
                merged[key] = self.mappings(cast("dict[str, Any]", value), base[key], at, (*base_path, key))
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
