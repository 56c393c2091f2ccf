"""Recognises the format of files, and loads them as scenarios, matrices and rubrics with all their problems.

Ids are unique across everything loaded in one run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from steadyhand.records.base import Record
from steadyhand.records.evaluation import Rubric
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Matrix, Scenario
from steadyhand.spec.agent import Catalogue, Extend, Vocabulary, read_agent, slug, vocabulary_of
from steadyhand.spec.discovery import NOT_OURS, Found, discover, skip_notes
from steadyhand.spec.patterns import PatternFinding, inspect_pattern
from steadyhand.spec.validation import FieldPath, Findings, describe, mappings, show_path
from steadyhand.spec.yaml import MAX_DEPTH, Document, read_document
from steadyhand.suggestion import nearest

SHAPES = (
    "an agent scenario has `run`, a decision scenario `messages`, a matrix `matrix` and `base_scenario`, "
    "a rubric `dimensions`"
)
Dialect = Literal["agent", "decision", "matrix", "rubric"]
DECIDING: tuple[tuple[str, Dialect], ...] = (
    ("matrix", "matrix"),
    ("base_scenario", "matrix"),
    ("run", "agent"),
    ("messages", "decision"),
    ("dimensions", "rubric"),
)
# Keys that only our formats have; `name`, `description`, `id` and `tags` are in many other YAML files.
_ENTRIES = {
    "run": frozenset({"input", "code", "conversation", "evaluations"}),
    "messages": frozenset({"role", "content"}),
}
_TYPICAL: dict[Dialect, frozenset[str]] = {
    "agent": frozenset({"environment", "setup", "judgment", "plugins", "character"}),
    "decision": frozenset({"domain", "latency_budget", "safety_invariants", "constraint", "rubric", "expected_action"}),
    "matrix": frozenset({"runs_per_combination"}),
    "rubric": frozenset(),
}
_REPLIES = frozenset({"reply", "replies", "tool_calls", "json", "echo", "fail"})


class Loaded(Record):
    """What could be read, and in `problems` every error and warning, file by file in order. `notes` say what was passed
    over in folders."""

    scenarios: tuple[Scenario, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    rubrics: tuple[Rubric, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.level == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.level == "warning")


def load(
    paths: Sequence[str | os.PathLike[str]],
    *,
    catalogue: Catalogue,
    environments: Collection[str] | None = None,
    extend: Extend | None = None,
    given: Sequence[Mapping[str, Any]] = (),
) -> Loaded:
    """Read files, folders and globs, then the `given` data with the structure of a file. Never raises for their
    content: one invalid file does not hide others.

    `catalogue` maps each evaluation type to the model of its parameters; `environments` are the values that
    `environment.type` may have, None if it may have any. `extend` returns what a scenario's own plugins add to both.
    """
    found, problems, skipped = discover(paths)
    reader = _Reader(Vocabulary(catalogue, environments), extend)
    for file in found:
        reader.read(file, *read_document(file.path, file.file))
    for number, data in enumerate(given, start=1):
        name = f"<scenario {number}>"
        found.append(Found(name, name, named=True))
        reader.read(found[-1], *given_document(data, name))
    scenarios, clashes = settle_ids(reader.scenarios)
    if found and not (reader.recognised or reader.problems or problems):
        message = f"none of the {len(found)} YAML files is a scenario; {SHAPES}"
        problems.append(Problem(place=Place(file=os.fspath(paths[0])), message=message, code="no-scenarios"))
    return Loaded(
        scenarios=tuple(scenarios),
        matrices=tuple(reader.matrices),
        rubrics=tuple(reader.rubrics),
        problems=(*problems, *_merge(reader.problems, clashes, found)),
        notes=tuple(skip_notes({NOT_OURS: reader.other, **skipped})),
    )


def _merge(problems: list[Problem], clashes: list[Problem], found: list[Found]) -> list[Problem]:
    """Both, in the order of the files."""
    if not clashes:
        return problems
    order = {file.file: index for index, file in enumerate(found)}
    return sorted([*problems, *clashes], key=lambda problem: order.get(problem.place.file, -1))


class _Reader:
    """Reads file after file. A pattern that several files share is inspected once."""

    def __init__(self, vocabulary: Vocabulary, extend: Extend | None) -> None:
        self._vocabulary: Vocabulary = vocabulary
        self._extend: Extend | None = extend
        self._patterns: dict[str, PatternFinding] = {}
        self.scenarios: list[Identified] = []
        self.matrices: list[Matrix] = []
        self.rubrics: list[Rubric] = []
        self.problems: list[Problem] = []
        self.other: list[str] = []
        self.recognised: int = 0

    def read(self, file: Found, document: Document | None, faults: list[Problem]) -> None:
        if document is None:
            self.problems.extend(faults)
            return
        dialect = recognise(document.data)
        findings = Findings(document, faults)
        if dialect is None:
            self._pass_over(file, document, findings)
        elif dialect == "agent":
            self._keep(read_agent(document, findings, self._extended(document, findings)), file, document)
        elif dialect == "decision":
            from steadyhand.spec.decision import read_decision

            scenario = read_decision(document, findings, self._inspect, lambda: self._extended(document, findings))
            self._keep(scenario, file, document)
        elif dialect == "matrix":
            from steadyhand.spec.matrix import read_matrix

            matrix = read_matrix(document, findings)
            self.matrices.extend([matrix] if matrix else [])
        else:
            from steadyhand.spec.rubric import read_rubric

            rubric = read_rubric(document, findings)
            self.rubrics.extend([rubric] if rubric else [])
        self.recognised += dialect is not None
        self.problems.extend(findings.problems)

    def _extended(self, document: Document, findings: Findings) -> Vocabulary:
        return vocabulary_of(document, findings, self._vocabulary, self._extend)

    def _keep(self, scenario: Scenario | None, file: Found, document: Document) -> None:
        if scenario is not None:
            defaulted = "id" not in document.data
            place = scenario.place if defaulted else document.locate(("id",))
            self.scenarios.append(Identified(scenario, file.path, place, defaulted))

    def _pass_over(self, file: Found, document: Document, findings: Findings) -> None:
        """A folder may contain other YAML files, but one that was meant as ours is never skipped silently."""
        meant = misspelt(document.data)
        if meant is not None:
            found, key = meant
            findings.error((found,), f"unknown key `{found}`; did you mean `{key}`? {SHAPES}", "unknown-key", key=True)
        elif file.must_load:
            self._refuse(document, findings)
        elif not _is_script(document.data):
            self.other.append(file.file)

    def _refuse(self, document: Document, findings: Findings) -> None:
        if isinstance(document.data, dict):
            message = f"unknown file format; {SHAPES}"
        else:
            message = f"expected a mapping, found {describe(document.data)}; {SHAPES}"
        findings.error((), message, "unknown-format")

    def _inspect(self, pattern: str) -> PatternFinding:
        known = self._patterns.get(pattern)
        if known is None:
            known = self._patterns[pattern] = inspect_pattern(pattern)
        return known


def given_document(data: Any, name: str) -> tuple[Document | None, list[Problem]]:
    """A document of data that was made in Python, called `name` in messages; its paths are relative to the current
    folder."""
    try:
        plain = _plain_data(data, ())
    except _NotPlain as error:
        place = Place(file=name, path=show_path(error.path))
        return None, [Problem(place=place, message=str(error), code="wrong-type")]
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
    return Document(name, "", plain, root=None, digest=digest), []


class _NotPlain(Exception):
    def __init__(self, message: str, path: FieldPath) -> None:
        super().__init__(message)
        self.path: FieldPath = path


def _plain_data(value: Any, path: FieldPath) -> Any:
    """A copy, if a file could contain this data. Raises `_NotPlain`."""
    if len(path) > MAX_DEPTH:
        raise _NotPlain(f"nested more than {MAX_DEPTH} levels deep", path)
    if type(value) is str:
        return _whole(value, path)
    if value is None or type(value) in (int, float, bool):
        return value
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, Any]", value)
        for key in entries:
            if not isinstance(key, str):
                raise _NotPlain(f"expected text as key, found {type(key).__name__} {key!r}", path)
            _whole(key, path)
        return {str(key): _plain_data(each, (*path, str(key))) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        return [_plain_data(each, (*path, index)) for index, each in enumerate(items)]
    raise _NotPlain(
        f"expected text, a number, true or false, None, a list or a mapping, found a {type(value).__name__}", path
    )


def _whole(text: str, path: FieldPath) -> str:
    """Raises `_NotPlain` for text that UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _NotPlain(
            f"found half a surrogate pair, {text[error.start]!a}; expected whole characters", path
        ) from None
    return text


def recognise(data: Any) -> Dialect | None:
    """The format that the keys point to, or None."""
    if not isinstance(data, dict):
        return None
    keys = cast("dict[str, Any]", data)
    for key, dialect in DECIDING:
        if key in keys:
            return dialect
    best: Dialect | None = None
    most = 0
    for dialect, typical in _TYPICAL.items():
        votes = len(typical & keys.keys())
        if votes > most:
            best, most = dialect, votes
    return best


def _is_script(data: Any) -> bool:
    """Whether it has the replies of a scripted model, which often are next to the scenarios."""
    rules = cast("dict[str, Any]", data).get("rules") if isinstance(data, dict) else None
    return isinstance(rules, list) and any(_REPLIES & entry.keys() for _, entry in mappings(rules))


def misspelt(data: Any) -> tuple[str, str] | None:
    """A key that was meant to be `run` or `messages`, with the right one, or None.

    The name alone is not enough: `images` in a Kubernetes file is close to `messages`. Its value must fit, too.
    """
    if not isinstance(data, dict):
        return None
    for key, value in cast("dict[str, Any]", data).items():
        meant = nearest(key, _ENTRIES)
        entries = cast("list[Any]", value) if isinstance(value, list) else []
        keys = {name for entry in entries if isinstance(entry, dict) for name in cast("dict[str, Any]", entry)}
        if meant is not None and keys & _ENTRIES[meant]:
            return key, meant
    return None


class Identified(msgspec.Struct):
    """A scenario, its file, and whether its id was made from the file's name."""

    scenario: Scenario
    path: str
    id_place: Place
    defaulted: bool


def settle_ids(entries: Sequence[Identified]) -> tuple[list[Scenario], list[Problem]]:
    """The scenarios with distinct ids, and a problem for each id written twice.

    Duplicate ids made from file names get a folder prefix. Of two scenarios with the same id the first is kept.
    """
    counts = Counter(entry.scenario.id for entry in entries)
    first: dict[str, Place] = {}
    kept: list[Scenario] = []
    problems: list[Problem] = []
    for entry in entries:
        scenario = entry.scenario
        if entry.defaulted and counts[scenario.id] > 1:
            id_ = _distinct(entry, entries)
            scenario = msgspec.structs.replace(scenario, id=id_)
        earlier = first.get(scenario.id)
        if earlier is None:
            first[scenario.id] = entry.id_place
            kept.append(scenario)
            continue
        remedy = "give one of them an `id`" if entry.defaulted else "ids must be unique across all files of a run"
        message = f"id `{scenario.id}` is already used at {earlier}; {remedy}"
        problems.append(Problem(place=entry.id_place, message=message, code="duplicate-id"))
    return kept, problems


def _distinct(entry: Identified, entries: Sequence[Identified]) -> str:
    """The id prefixed with as many parent folders as it takes to make it unique."""
    taken = {other.scenario.id for other in entries if not other.defaulted}
    rivals = [
        other.path
        for other in entries
        if other is not entry and other.defaulted and other.scenario.id == entry.scenario.id
    ]
    parents = _parents(entry.path)
    id_ = entry.scenario.id
    for count in range(1, len(parents) + 1):
        prefix = parents[-count:]
        id_ = "-".join([*map(slug, prefix), entry.scenario.id])
        if id_ not in taken and all(_parents(path)[-count:] != prefix for path in rivals):
            break
    return id_


def _parents(path: str) -> list[str]:
    return list(Path(path).absolute().parent.parts[1:])
