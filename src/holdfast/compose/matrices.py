"""Matrices -> the scenarios they stand for, some of them chosen with --filter."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.compose.plugins import ScenarioRegistries, environments_of
from holdfast.errors import FileError, SetupError
from holdfast.plugins.registry import EvaluationCatalogue
from holdfast.records.matrix import Matrix
from holdfast.records.problem import Problem
from holdfast.records.scenario import Scenario
from holdfast.spec.matrix_expand import expand, show_value
from holdfast.spec.vocabulary import Vocabulary


def expand_matrices(
    matrices: Sequence[Matrix], registries: ScenarioRegistries, *, filters: Sequence[str] = ()
) -> list[Scenario]:
    """All combinations of all matrices, in order. Raises `FileError` with everything that is wrong with any.

    A filter `parameter=value` keeps the combinations in which that parameter has that value; several filters on one
    parameter allow several values. Raises `SetupError` for one that no matrix could satisfy.
    """
    wanted = _parse(filters, matrices)
    vocabulary = Vocabulary(EvaluationCatalogue(registries.base), environments_of(registries.base))
    scenarios: list[Scenario] = []
    problems: list[Problem] = []
    for matrix in matrices:
        found = expand(matrix, vocabulary, registries.vocabulary)
        problems.extend(found.problems)
        scenarios.extend(found.scenarios)
    taken: set[str] = set()
    for scenario in scenarios:
        if scenario.id in taken:
            message = f"the combination {scenario.id} is in two matrices of this run; run them one by one"
            problems.append(Problem(place=scenario.place, message=message, code="duplicate-id"))
        taken.add(scenario.id)
    if problems:
        raise FileError(problems)
    return [scenario for scenario in scenarios if _matches(scenario.id, wanted)]


def _parse(filters: Sequence[str], matrices: Sequence[Matrix]) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = {}
    values = {axis.parameter: [show_value(value) for value in axis.values] for m in matrices for axis in m.axes}
    for text in filters:
        parameter, equals, value = text.partition("=")
        if not equals:
            raise SetupError(f"--filter {text!r}: expected parameter=value, such as model=openai/gpt-4o")
        if parameter not in values:
            raise SetupError(f"--filter {text!r}: no matrix varies {parameter!r}; varied are {', '.join(values)}")
        if value not in values[parameter]:
            raise SetupError(f"--filter {text!r}: {parameter} is never that; it is {', '.join(values[parameter])}")
        wanted.setdefault(parameter, set()).add(f"{parameter}={value}")
    return wanted


def _matches(scenario_id: str, wanted: dict[str, set[str]]) -> bool:
    inside = f",{scenario_id.partition('[')[2].removesuffix(']')},"
    return all(any(f",{setting}," in inside for setting in settings) for settings in wanted.values())
