"""Matrix files, and the scenarios they expand to, each checked like a scenario file."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os.path
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, cast

import msgspec
from pydantic import BeforeValidator, Field, WithJsonSchema

from steadyhand.records.location import Place, Problem
from steadyhand.records.scenario import Matrix, MatrixAxis, MatrixCell, MatrixSetting, Scenario
from steadyhand.spec.agent import Extend, Vocabulary, default_id
from steadyhand.spec.discovery import discover
from steadyhand.spec.load import Identified, ScenarioReader, misspelt, recognise, settle_ids
from steadyhand.spec.matrix_axes import OVERRIDES, Axis, read_axes
from steadyhand.spec.parts import with_base
from steadyhand.spec.validation import FieldPath, Findings, Name, Shape, Trials, mappings, validate, with_value
from steadyhand.spec.yaml import Document, read_document

MAX_TRIALS = 100_000
_CLASHES = 20


class MatrixAxisShape(Shape):
    """One field of the base scenario, and the values it takes."""

    parameter: Name = Field(description="Path of a field of the base scenario, such as run[0].input")
    values: list[Any] = Field(min_length=1, description="The values it takes; any that the field may have")


def _one_or_several(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


_PATH = {"type": "string", "minLength": 1}
Bases = Annotated[
    list[Name],
    Field(min_length=1),
    BeforeValidator(_one_or_several),
    WithJsonSchema({"anyOf": [_PATH, {"type": "array", "items": _PATH, "minItems": 1}]}),
]


class MatrixShape(Shape):
    """Scenarios to run in every combination of some values."""

    name: Name | None = Field(default=None, description="Default: made from the file's name")
    description: str = Field(default="", description="What the matrix is for")
    base_scenario: Bases = Field(description="A scenario, a folder of them, or a list; paths are relative to this file")
    runs_per_combination: Trials | None = Field(
        default=None, description="Default: the base scenario's trials, or 1. --trials overrides it"
    )
    matrix: list[MatrixAxisShape] = Field(min_length=1, description="The fields that vary; every combination is run")


def read_matrix(document: Document, findings: Findings) -> Matrix | None:
    """The matrix, or None when `findings` holds an error."""
    data = cast("dict[str, Any]", document.data)
    shape = validate(MatrixShape, data, (), findings)
    bases = _check_bases(data.get("base_scenario"), document, findings)
    _check_axes(data.get("matrix"), findings)
    if shape is None or findings.failed:
        return None
    return Matrix(
        name=shape.name or default_id(document.file),
        place=document.locate(()),
        digest=document.digest,
        base_scenarios=bases,
        axes=tuple(
            MatrixAxis(parameter=axis.parameter, values=tuple(axis.values), place=document.locate(("matrix", index)))
            for index, axis in enumerate(shape.matrix)
        ),
        description=shape.description,
        runs_per_combination=shape.runs_per_combination,
    )


def _check_bases(given: Any, document: Document, findings: Findings) -> tuple[str, ...]:
    several = isinstance(given, list)
    bases = cast("list[Any]", given if several else [given])
    paths: dict[str, None] = {}
    for index, base in enumerate(bases):
        if not isinstance(base, str) or not base:
            continue
        at: FieldPath = ("base_scenario", index) if several else ("base_scenario",)
        path = os.path.normpath(os.path.join(document.folder, base))  # noqa: PTH118  # `..` must go without following links
        if not os.path.exists(path):  # noqa: PTH110
            message = f"expected a scenario file or a folder, relative to the matrix file; found none at `{path}`"
            findings.error(at, message, "missing-file")
        if path in paths:
            findings.error(at, f"`{base}` is listed twice", "duplicate-value")
        paths[path] = None
    return tuple(paths)


def _check_axes(axes: Any, findings: Findings) -> None:
    seen: dict[str, int] = {}
    for index, axis in mappings(axes):
        parameter = axis.get("parameter")
        if not isinstance(parameter, str):
            continue
        if parameter in seen:
            line = findings.document.locate(("matrix", seen[parameter])).line
            message = f"`{parameter}` is already varied on line {line}; put all values there"
            findings.error(("matrix", index, "parameter"), message, "duplicate-parameter")
        seen.setdefault(parameter, index)


class Expanded(NamedTuple):
    """The scenarios in file order, or the errors that keep all of them from running."""

    scenarios: list[Scenario]
    problems: list[Problem]


def expand(
    matrix: Matrix, vocabulary: Vocabulary, extend: Extend | None = None, defaults: Document | None = None
) -> Expanded:
    """Every combination of every base, with the last axis varying fastest.

    Their ids are `<base id>[parameter=value,...]`. `vocabulary`, `extend` and `defaults` are as for `load`. Problems
    are located in the matrix file, or in a base scenario when that is wrong by itself.
    """
    own, problems = read_document(matrix.place.file, matrix.place.file)
    if own is None:
        return Expanded([], problems)
    reader = ScenarioReader(vocabulary, extend, defaults)
    bases, problems = _read_bases(matrix, own, reader)
    if problems:
        return Expanded([], problems)
    many = sum(len(scenarios) for _, scenarios in bases)
    count = many * (matrix.runs_per_combination or 1) * math.prod(len(axis.values) for axis in matrix.axes)
    if count > MAX_TRIALS:
        message = f"found {count} trials, expected at most {MAX_TRIALS}; vary fewer values"
        return Expanded([], [Problem(place=own.locate(("matrix",)), message=message, code="too-many")])
    scenarios: list[Scenario] = []
    found: dict[Problem, None] = {}
    for base, originals in bases:
        axes, problems = read_axes(matrix, own, base)
        expanded = _Expansion(matrix, axes, base, originals, reader).run(own.locate(("matrix",)))
        scenarios += expanded.scenarios
        for problem in (*problems, *expanded.problems):
            message = f"{problem.message} ({base.file})" if len(bases) > 1 else problem.message
            found[msgspec.structs.replace(problem, message=message)] = None
    if found:
        return Expanded([], sorted(found, key=lambda problem: (problem.place.line, problem.place.column)))
    return Expanded(scenarios, [])


def _read_bases(
    matrix: Matrix, own: Document, reader: ScenarioReader
) -> tuple[list[tuple[Document, list[Scenario]]], list[Problem]]:
    """The base scenarios with distinct ids, or what is wrong. In a folder, matrices, rubrics and other YAML are left
    out."""
    place = own.locate(("base_scenario",))
    found, problems, _ = discover(matrix.base_scenarios)
    documents: list[Document] = []
    entries: list[Identified] = []
    for file in found:
        document, faults = read_document(file.path, file.file)
        problems += faults
        if document is None:
            continue
        findings = Findings(document)
        document = with_base(document, findings)
        if findings.failed:
            problems += [problem for problem in findings.problems if problem.level == "error"]
            continue
        dialect = recognise(document.data)
        if dialect not in ("agent", "decision"):
            if file.named or (dialect is None and (file.must_load or misspelt(document.data))):
                message = f"expected a scenario as the base, but {file.file} is not one"
                problems.append(Problem(place=place, message=message, code="not-a-scenario"))
            continue
        scenarios, errors = _read(reader, document)
        problems += errors
        if scenarios:
            documents.append(document)
            entries.append(Identified.of(scenarios, file.path, document))
    if not entries and not problems:
        message = f"found no scenario in {', '.join(matrix.base_scenarios)}"
        problems.append(Problem(place=place, message=message, code="no-scenarios"))
    settled, clashes = settle_ids(entries)
    problems += clashes
    return ([] if problems else list(zip(documents, settled, strict=True))), problems


def _read(reader: ScenarioReader, document: Document) -> tuple[list[Scenario], list[Problem]]:
    """Its scenarios, one for each case if it has cases, as loading its file would; and the errors."""
    findings = Findings(document)
    scenarios = reader.read(document, findings)
    return scenarios, [problem for problem in findings.problems if problem.level == "error"]


class _Expansion:
    def __init__(
        self, matrix: Matrix, axes: Sequence[Axis], base: Document, originals: list[Scenario], reader: ScenarioReader
    ) -> None:
        self._matrix: Matrix = matrix
        self._axes: Sequence[Axis] = axes
        self._base: Document = base
        self._ids: dict[str | None, str] = {_case_of(each): each.id for each in originals}
        """The settled ids of the base scenario, by case."""
        self._reader: ScenarioReader = reader
        self._alone: dict[Place, list[Problem]] = {}
        self._rejected: dict[Problem, None] = {}
        self._clashes: list[str] = []

    def run(self, place: Place) -> Expanded:
        """`place` is where a clash is reported: a combination of values, none of which is wrong alone."""
        product = itertools.product(*(axis.settings for axis in self._axes))
        scenarios = [scenario for settings in product for scenario in self._combine(settings)]
        problems = [*self._rejected]
        problems += [Problem(place=place, message=message, code="clash") for message in self._clashes[:_CLASHES]]
        if len(self._clashes) > _CLASHES:
            more = f"and {len(self._clashes) - _CLASHES} more combinations are not valid scenarios"
            problems.append(Problem(place=place, message=more, code="clash"))
        return Expanded([] if problems else scenarios, problems)

    def _combine(self, settings: tuple[MatrixSetting, ...]) -> list[Scenario]:
        data = self._base.data
        for axis, setting in zip(self._axes, settings, strict=True):
            if axis.path is not None:
                data = with_value(data, axis.path, setting.value)
        scenarios, errors = _read(self._reader, self._base.with_data(data))
        named = ",".join(f"{setting.parameter}={setting.shown}" for setting in settings)
        if not scenarios:
            self._refuse(named, settings, errors)
        # Model, agent and judge are not part of the scenario: it is the same for all of them, so that runs can be
        # compared.
        varied = [[setting.parameter, setting.value] for setting in settings if setting.parameter not in OVERRIDES]
        values = json.dumps(varied, sort_keys=True, default=str)
        overrides = {setting.parameter: setting.value for setting in settings if setting.parameter in OVERRIDES}
        return [self._cell(scenario, settings, named, values, overrides) for scenario in scenarios]

    def _cell(
        self,
        scenario: Scenario,
        settings: tuple[MatrixSetting, ...],
        named: str,
        values: str,
        overrides: dict[str, Any],
    ) -> Scenario:
        base_id = self._ids[_case_of(scenario)]
        return msgspec.structs.replace(
            scenario,
            id=f"{base_id}[{named}]",
            digest=hashlib.sha256(f"{scenario.digest}/{values}".encode()).hexdigest()[:16],
            trials=self._matrix.runs_per_combination or scenario.trials,
            overrides=overrides,
            cell=MatrixCell(matrix=self._matrix.name, file=self._matrix.place.file, base_id=base_id, settings=settings),
        )

    def _refuse(self, named: str, settings: Sequence[MatrixSetting], errors: Sequence[Problem]) -> None:
        """Reports each error at the value that causes it alone, or else at the combination."""
        for error in errors:
            reason = f"{error.place.path}: {error.message}" if error.place.path else error.message
            found = False
            for axis, setting in zip(self._axes, settings, strict=True):
                if axis.path is not None and _same(error, self._errors_alone(axis.path, setting)):
                    message = f"the scenario cannot have this value: {reason}"
                    self._rejected[Problem(place=setting.place, message=message, code=error.code)] = None
                    found = True
            if not found:
                self._clashes.append(f"the combination {named} is not a valid scenario: {reason}")

    def _errors_alone(self, path: FieldPath, setting: MatrixSetting) -> list[Problem]:
        if setting.place not in self._alone:
            data = with_value(self._base.data, path, setting.value)
            self._alone[setting.place] = _read(self._reader, self._base.with_data(data))[1]
        return self._alone[setting.place]


def _case_of(scenario: Scenario) -> str | None:
    return None if scenario.case is None else scenario.case.name


def _same(error: Problem, others: Sequence[Problem]) -> bool:
    return any((error.place.path, error.message) == (other.place.path, other.message) for other in others)
