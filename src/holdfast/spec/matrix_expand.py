"""A matrix to the scenarios it stands for, each checked as if it were a file of its own."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.records.matrix import Matrix
from holdfast.records.place import Place
from holdfast.records.problem import Problem
from holdfast.records.scenario import Scenario
from holdfast.spec.agent_dialect import read_agent
from holdfast.spec.agent_plugins import vocabulary_of
from holdfast.spec.decision_dialect import read_decision
from holdfast.spec.dialects import recognise
from holdfast.spec.document import Document, read_document
from holdfast.spec.findings import Findings, describe
from holdfast.spec.matrix_path import WrongPath, check_path, parse_path, with_value
from holdfast.spec.naming import Path
from holdfast.spec.vocabulary import Extend, Vocabulary

OVERRIDES = ("model", "agent", "judge")
MOST = 100_000
_SHOWN = 40


class Setting(NamedTuple):
    """One value of one axis. `path` is None for what overrides the settings of the run."""

    parameter: str
    path: Path | None
    value: Any
    shown: str
    place: Place


class Expanded(NamedTuple):
    """The scenarios in the order of the file, or the errors that keep all of them from running."""

    scenarios: list[Scenario]
    problems: list[Problem]


def expand(matrix: Matrix, vocabulary: Vocabulary, extend: Extend | None = None) -> Expanded:
    """Every combination, the last axis turning fastest. The id of one is `<base id>[parameter=value,...]`.

    `vocabulary` and `extend` are as for `load`. Problems stand at their place in the matrix file, or in the base
    scenario's when it is wrong by itself.
    """
    return _Expansion(matrix, vocabulary, extend).run()


class _Expansion:
    def __init__(self, matrix: Matrix, vocabulary: Vocabulary, extend: Extend | None) -> None:
        self._matrix: Matrix = matrix
        self._vocabulary: Vocabulary = vocabulary
        self._extend: Extend | None = extend
        self._problems: list[Problem] = []

    def run(self) -> Expanded:
        matrix = self._matrix
        base, problems = read_document(matrix.base_scenario, matrix.base_scenario)
        own, _ = read_document(matrix.place.file, matrix.place.file)
        if base is None or own is None:
            return Expanded([], problems)
        if recognise(base.data) not in ("agent", "decision"):
            message = f"expected a scenario as the base, and {matrix.base_scenario} is none"
            self._problem(own.locate(("base_scenario",)), message, "not-a-scenario")
            return Expanded([], self._problems)
        scenario, errors = self._read(base)
        if scenario is None:
            return Expanded([], [*problems, *errors])
        axes = [self._axis(index, own, base) for index in range(len(matrix.axes))]
        if self._problems:
            return Expanded([], self._problems)
        count = matrix.runs_per_combination
        for axis in axes:
            count *= len(axis)
        if count > MOST:
            message = f"{count} trials are more than the {MOST} that a matrix may have; vary fewer values"
            self._problem(own.locate(("matrix",)), message, "too-many")
            return Expanded([], self._problems)
        scenarios = [self._combine(base, scenario, settings, own) for settings in itertools.product(*axes)]
        return Expanded([] if self._problems else [each for each in scenarios if each is not None], self._problems)

    def _axis(self, index: int, own: Document, base: Document) -> list[Setting]:
        """The settings of one axis, each tried by itself."""
        axis = self._matrix.axes[index]
        path: Path | None = None
        if axis.parameter not in OVERRIDES:
            try:
                path = parse_path(axis.parameter)
                check_path(base.data, path)
            except WrongPath as error:
                self._problem(own.locate(("matrix", index, "parameter")), str(error), "no-such-parameter")
                return []
        settings: list[Setting] = []
        shown: dict[str, int] = {}
        for number, value in enumerate(axis.values):
            place = own.locate(("matrix", index, "values", number))
            setting = Setting(axis.parameter, path, value, show_value(value), place)
            if setting.shown in shown:
                self._problem(place, f"{describe(value)} is already among the values", "duplicate-value")
            shown[setting.shown] = number
            self._try(setting, base)
            settings.append(setting)
        return settings

    def _try(self, setting: Setting, base: Document) -> None:
        if setting.path is None:
            if not isinstance(setting.value, str) or not setting.value:
                message = f"expected the name of a {setting.parameter}, found {describe(setting.value)}"
                self._problem(setting.place, message, "wrong-type")
            return
        scenario, errors = self._read(base.with_data(with_value(base.data, setting.path, setting.value)))
        if scenario is None:
            for error in errors:
                at = f"{error.place.path}: " if error.place.path else ""
                self._problem(setting.place, f"the scenario cannot have this value: {at}{error.message}", error.code)

    def _combine(
        self, base: Document, original: Scenario, settings: Sequence[Setting], own: Document
    ) -> Scenario | None:
        data = base.data
        for setting in settings:
            if setting.path is not None:
                data = with_value(data, setting.path, setting.value)
        scenario, errors = self._read(base.with_data(data))
        named = ",".join(f"{setting.parameter}={setting.shown}" for setting in settings)
        if scenario is None:
            for error in errors:
                message = f"the combination {named} is not a valid scenario: {error.place.path}: {error.message}"
                self._problem(own.locate(("matrix",)), message, error.code)
            return None
        values = json.dumps([[setting.parameter, setting.value] for setting in settings], sort_keys=True, default=str)
        return msgspec.structs.replace(
            scenario,
            id=f"{original.id}[{named}]",
            digest=hashlib.sha256(f"{scenario.digest}/{values}".encode()).hexdigest()[:16],
            trials=self._matrix.runs_per_combination,
            overrides={setting.parameter: setting.value for setting in settings if setting.path is None},
        )

    def _read(self, document: Document) -> tuple[Scenario | None, list[Problem]]:
        findings = Findings(document)
        if recognise(document.data) == "decision":
            scenario = read_decision(document, findings)
        else:
            catalogue, environments = vocabulary_of(document, findings, self._vocabulary, self._extend)
            scenario = read_agent(document, findings, catalogue=catalogue, environments=environments)
        return scenario, [problem for problem in findings.problems if problem.level == "error"]

    def _problem(self, place: Place, message: str, code: str) -> None:
        problem = Problem(place=place, message=message, code=code)
        if problem not in self._problems:
            self._problems.append(problem)


def show_value(value: Any) -> str:
    """A value in an id, on one line; a long one is cut and told apart by a hash."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    short = " ".join(text.split())
    if len(short) <= _SHOWN and short == text:
        return text
    return f"{short[: _SHOWN - 9]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"
