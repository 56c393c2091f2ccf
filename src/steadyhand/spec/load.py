"""Recognises the format of files, and loads them as scenarios, matrices and rubrics with all their problems.

Ids are unique across everything loaded in one run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from steadyhand.errors import FileError
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Rubric
from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Matrix, Scenario
from steadyhand.spec.agent import Catalogue, Extend, Vocabulary, read_agent, slug, vocabulary_of
from steadyhand.spec.discovery import NOT_OURS, Found, discover, skip_notes
from steadyhand.spec.parts import (
    EXTENDS,
    PartFiles,
    check_defaults,
    check_part_file,
    is_part_file,
    resolved_lines,
    unused_parts,
    with_base,
    with_defaults,
)
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
    defaults: Document | None = None,
) -> Loaded:
    """Read files, folders and globs, then the `given` data with the structure of a file. Never raises for their
    content: one invalid file does not hide others.

    `catalogue` maps each evaluation type to the model of its parameters; `environments` are the values that
    `environment.type` may have, None if it may have any. `extend` returns what a scenario's own plugins add to both.
    `defaults` are what scenarios say that do not say otherwise.
    """
    found, problems, skipped = discover(paths)
    problems += check_defaults(defaults, _keys_of_scenarios()) if defaults is not None else []
    reader = _Reader(ScenarioReader(Vocabulary(catalogue, environments), extend, defaults))
    for file in found:
        reader.read(file, *read_document(file.path, file.file))
    for number, data in enumerate(given, start=1):
        name = f"<scenario {number}>"
        found.append(Found(name, name, named=True))
        reader.read(found[-1], *given_document(data, name))
    reader.finish()
    scenarios, clashes = settle_ids(reader.scenarios)
    if found and not (reader.recognised or any(reader.problems_of.values()) or problems):
        message = f"none of the {len(found)} YAML files is a scenario; {SHAPES}"
        problems.append(Problem(place=Place(file=os.fspath(paths[0])), message=message, code="no-scenarios"))
    return Loaded(
        scenarios=tuple(chain.from_iterable(scenarios)),
        matrices=tuple(reader.matrices),
        rubrics=tuple(reader.rubrics),
        problems=(*problems, *_merge(_without_bases(reader, found), clashes, found)),
        notes=tuple(skip_notes({NOT_OURS: reader.other, **skipped})),
    )


def _merge(problems: list[Problem], clashes: list[Problem], found: list[Found]) -> list[Problem]:
    """Both, in the order of the files."""
    if not clashes:
        return problems
    order = {file.file: index for index, file in enumerate(found)}
    return sorted([*problems, *clashes], key=lambda problem: order.get(problem.place.file, -1))


def resolved_files(paths: Sequence[str], defaults: Document | None = None) -> Iterator[tuple[str, Place]]:
    """The lines of files as they are after merging, with the place that each is from. Raises `FileError`."""
    found, problems, _ = discover(paths)
    problems += check_defaults(defaults, _keys_of_scenarios()) if defaults is not None else []
    reader = ScenarioReader(Vocabulary({}, None), None, defaults)
    for file in found:
        document, faults = read_document(file.path, file.file)
        problems += faults
        if document is None:
            continue
        findings = Findings(document)
        merged = reader.resolved(_merged(document, findings), findings)
        problems += [each for each in findings.problems if each.level == "error"]
        if not problems:
            yield from resolved_lines(merged)
    if problems:
        raise FileError(problems)


def _merged(document: Document, findings: Findings) -> Document:
    data: Any = document.data
    return with_base(document, findings) if isinstance(data, dict) and EXTENDS in data else document


def _without_bases(reader: _Reader, found: list[Found]) -> list[Problem]:
    """The problems but those of files that others extend, and that nobody named: alone, they need not be complete."""
    bases = {each.file for each in found if not each.named and os.path.realpath(each.path) in reader.bases}
    whole = {scenario.place.file for entry in reader.scenarios for scenario in entry.scenarios}
    kept = (problems for file, problems in reader.problems_of.items() if file not in bases - whole)
    return list(dict.fromkeys(chain.from_iterable(kept)))  # several files may use the same wrong one


class ScenarioReader:
    """Reads the documents of scenarios. A pattern that several of them share is inspected once."""

    def __init__(self, vocabulary: Vocabulary, extend: Extend | None, defaults: Document | None = None) -> None:
        self._vocabulary: Vocabulary = vocabulary
        self._extend: Extend | None = extend
        self._defaults: Document | None = defaults
        self.parts: PartFiles = PartFiles()
        self._patterns: dict[str, PatternFinding] = {}

    def read(self, document: Document, findings: Findings) -> list[Scenario]:
        """The scenario, or one for each of its cases; none when `findings` holds an error."""
        failed = findings.failed
        document = self.resolved(document, findings)
        if findings.failed and not failed:
            return []
        is_decision = recognise(document.data) == "decision"
        read = self._decision if is_decision else self._agent
        if "cases" not in document.data:
            scenario = read(document, findings)
            return [] if scenario is None else self._checked([scenario], document, findings)
        from steadyhand.spec.agent_shapes import AgentShape
        from steadyhand.spec.cases import read_cases
        from steadyhand.spec.decision import DecisionShape

        catalogue = self._extended(document, findings).catalogue
        shape = DecisionShape if is_decision else AgentShape
        return self._checked(read_cases(document, findings, shape, catalogue, read), document, findings)

    def resolved(self, document: Document, findings: Findings) -> Document:
        """The document of a scenario with the project's defaults, and with the shared parts that it uses."""
        dialect = recognise(document.data)
        if dialect not in ("agent", "decision"):
            return document
        if self._defaults is not None:
            document = with_defaults(document, self._defaults, _keys_of(dialect), findings)
        return self.parts.applied(document, findings)

    def _checked(self, scenarios: list[Scenario], document: Document, findings: Findings) -> list[Scenario]:
        if document.data.get("variants") is not None and not findings.failed:
            from steadyhand.spec.variants import check_variants

            check_variants(scenarios, findings)
        if not document.sources:
            return scenarios
        return [msgspec.structs.replace(each, sources=(*document.sources, *each.sources)) for each in scenarios]

    def _varied(self, scenario: Scenario | None, document: Document, findings: Findings) -> Scenario | None:
        if scenario is None or document.data.get("variants") is None or findings.failed:
            return scenario
        from steadyhand.spec.variants import read_variants

        return read_variants(document, scenario, self._extended(document, findings).catalogue, findings)

    def _agent(self, document: Document, findings: Findings) -> Scenario | None:
        return self._varied(read_agent(document, findings, self._extended(document, findings)), document, findings)

    def _decision(self, document: Document, findings: Findings) -> Scenario | None:
        from steadyhand.spec.decision import read_decision

        scenario = read_decision(document, findings, self._inspect, lambda: self._extended(document, findings))
        return self._varied(scenario, document, findings)

    def _extended(self, document: Document, findings: Findings) -> Vocabulary:
        return vocabulary_of(document, findings, self._vocabulary, self._extend)

    def _inspect(self, pattern: str) -> PatternFinding:
        known = self._patterns.get(pattern)
        if known is None:
            known = self._patterns[pattern] = inspect_pattern(pattern)
        return known


def _keys_of(dialect: Literal["agent", "decision"]) -> Mapping[str, Any]:
    from steadyhand.spec.agent_shapes import AgentShape
    from steadyhand.spec.decision import DecisionShape

    return DecisionShape.model_fields if dialect == "decision" else AgentShape.model_fields


def _keys_of_scenarios() -> Mapping[str, Any]:
    return {**_keys_of("agent"), **_keys_of("decision")}


class _Reader:
    """Reads file after file."""

    def __init__(self, reader: ScenarioReader) -> None:
        self._reader: ScenarioReader = reader
        self.scenarios: list[Identified] = []
        self.matrices: list[Matrix] = []
        self.rubrics: list[Rubric] = []
        self.problems_of: dict[str, list[Problem]] = {}
        """By the file that was read, which need not be the one that a problem is in."""
        self.bases: set[str] = set()
        self.other: list[str] = []
        self._part_files: list[tuple[Found, Document]] = []
        self.recognised: int = 0

    def read(self, file: Found, document: Document | None, faults: list[Problem]) -> None:
        if document is None:
            self.problems_of[file.file] = faults
            return
        findings = Findings(document, faults)
        merged = _merged(document, findings)
        self.bases.update(map(os.path.realpath, merged.sources))
        dialect = recognise(merged.data)
        if findings.failed and dialect is None and not file.must_load:  # another tool's `extends`
            self.other.append(file.file)
            return
        document = merged
        if dialect is None:
            self._pass_over(file, document, findings)
        elif dialect in ("agent", "decision"):
            is_merged = EXTENDS not in document.data and not (merged.sources and findings.failed)
            scenarios = self._reader.read(document, findings) if is_merged else []
            self.scenarios.extend([Identified.of(scenarios, file.path, document)] if scenarios else [])
        elif dialect == "matrix":
            from steadyhand.spec.matrix import read_matrix

            matrix = read_matrix(document, findings)
            self.matrices.extend([matrix] if matrix else [])
        else:
            from steadyhand.spec.rubric import read_rubric

            rubric = read_rubric(document, findings)
            self.rubrics.extend([rubric] if rubric else [])
        self.recognised += dialect is not None
        self.problems_of[file.file] = findings.problems

    def _pass_over(self, file: Found, document: Document, findings: Findings) -> None:
        """A folder may contain other YAML files, but one that was meant as ours is never skipped silently."""
        meant = misspelt(document.data)
        if meant is not None:
            found, key = meant
            findings.error((found,), f"unknown key `{found}`; did you mean `{key}`? {SHAPES}", "unknown-key", key=True)
        elif is_part_file(document.data):
            self._part_files.append((file, document))
        elif file.must_load:
            if not findings.failed:  # else what it extends is at fault
                self._refuse(document, findings)
        elif not _is_script(document.data):
            self.other.append(file.file)

    def finish(self) -> None:
        """Files with shared parts are known for what they are when all scenarios have been read."""
        parts = self._reader.parts
        wrong = any(each.level == "error" for problems in self.problems_of.values() for each in problems)
        for file, document in self._part_files:
            real = os.path.realpath(file.path)
            if real not in parts.files and not file.must_load:
                self.other.append(file.file)
                continue
            self.recognised += 1
            faults = check_part_file(document)
            unused = () if self.matrices or wrong or faults else unused_parts(document, parts.used, real)
            self.problems_of[file.file] = [*faults, *unused]

    def _refuse(self, document: Document, findings: Findings) -> None:
        if isinstance(document.data, dict):
            message = f"unknown file format; {SHAPES}"
        else:
            message = f"expected a mapping, found {describe(document.data)}; {SHAPES}"
        findings.error((), message, "unknown-format")


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
    """The scenarios of a file, their id without that of a case, and whether it was made from the file's name."""

    id: str
    scenarios: list[Scenario]
    path: str
    name: str
    id_place: Place
    defaulted: bool

    @classmethod
    def of(cls, scenarios: list[Scenario], path: str, document: Document) -> Identified:
        first, defaulted = scenarios[0], "id" not in document.data
        id_ = first.id if first.case is None else first.case.base_id
        place = first.place if defaulted else document.locate(("id",))
        return cls(id=id_, scenarios=scenarios, path=path, name=document.file, id_place=place, defaulted=defaulted)

    def under(self, id_: str) -> list[Scenario]:
        """The scenarios with this id instead."""
        return self.scenarios if id_ == self.id else [_renamed(scenario, self.id, id_) for scenario in self.scenarios]


def _renamed(scenario: Scenario, before: str, id_: str) -> Scenario:
    case = None if scenario.case is None else msgspec.structs.replace(scenario.case, base_id=id_)
    return msgspec.structs.replace(scenario, id=id_ + scenario.id.removeprefix(before), case=case)


def settle_ids(entries: Sequence[Identified]) -> tuple[list[list[Scenario]], list[Problem]]:
    """The scenarios of each entry with distinct ids, and a problem for each id written twice.

    Duplicate ids made from file names get a folder prefix. Of two files with the same id the first is kept.
    """
    counts = Counter(entry.id for entry in entries)
    first: dict[str, Identified] = {}
    kept: list[list[Scenario]] = []
    problems: list[Problem] = []
    for entry in entries:
        id_ = _distinct(entry, entries) if entry.defaulted and counts[entry.id] > 1 else entry.id
        scenarios = entry.under(id_)
        ids = dict.fromkeys([id_, *(scenario.id for scenario in scenarios)])
        taken = next((each for each in ids if each in first), None)
        if taken is None:
            first.update(dict.fromkeys(ids, entry))
            kept.append(scenarios)
            continue
        kept.append([])
        remedy = "give one of them an `id`" if entry.defaulted else "ids must be unique across all files of a run"
        other = first[taken]
        used = (
            f"at {other.id_place}"
            if other.id_place != entry.id_place
            else f"by {other.name}, as {entry.name} has it too"
        )
        message = f"id `{taken}` is already used {used}; {remedy}"
        problems.append(Problem(place=entry.id_place, message=message, code="duplicate-id"))
    return kept, problems


def _distinct(entry: Identified, entries: Sequence[Identified]) -> str:
    """The id prefixed with as many parent folders as it takes to make it unique."""
    taken = {other.id for other in entries if not other.defaulted}
    rivals = [other.path for other in entries if other is not entry and other.defaulted and other.id == entry.id]
    parents = _parents(entry.path)
    id_ = entry.id
    for count in range(1, len(parents) + 1):
        prefix = parents[-count:]
        id_ = "-".join([*map(slug, prefix), entry.id])
        if id_ not in taken and all(_parents(path)[-count:] != prefix for path in rivals):
            break
    return id_


def _parents(path: str) -> list[str]:
    return list(Path(path).absolute().parent.parts[1:])
