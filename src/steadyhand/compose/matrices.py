"""Scenarios that differ in a setting: the combinations of matrices, optionally filtered, and the targets of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from steadyhand.compose.cast import CHARACTER_MODEL, Casts, Choice, needs_agent, resolve_model
from steadyhand.compose.scenarios import ScenarioRegistries
from steadyhand.compose.settings import provider_part
from steadyhand.errors import SetupError
from steadyhand.plugins.registry import EnvironmentNames, EvaluationCatalogue
from steadyhand.records.config import RunOptions
from steadyhand.records.location import Place, Problem
from steadyhand.records.run import RunAxis, RunMatrix
from steadyhand.records.scenario import MatrixSetting, PluginRef, Scenario, TargetChoice
from steadyhand.spec.agent import UNLOADED, Vocabulary, not_checked
from steadyhand.spec.load import Loaded
from steadyhand.spec.matrix import expand
from steadyhand.spec.matrix_axes import show_value


def expand_matrices(loaded: Loaded, registries: ScenarioRegistries) -> tuple[list[Scenario], list[Problem]]:
    """All combinations of all matrices, in order, and all new problems in them."""
    vocabulary = Vocabulary(EvaluationCatalogue(registries.base), EnvironmentNames(registries.base))
    scenarios: list[Scenario] = []
    problems: list[Problem] = []
    ids = {scenario.id for scenario in loaded.scenarios}
    for matrix in loaded.matrices:
        found = expand(matrix, vocabulary, partial(_extended, registries, matrix.place.file), registries.defaults)
        problems.extend(found.problems)
        scenarios.extend(found.scenarios)
        twice = [scenario.id for scenario in found.scenarios if scenario.id in ids]
        if twice:
            message = f"the combination {twice[0]} is in this run twice; run this matrix separately"
            problems.append(Problem(place=matrix.place, message=message, code="duplicate-id"))
        ids.update(scenario.id for scenario in found.scenarios)
    # A base scenario that is among the files has had its own problems reported.
    return scenarios, [problem for problem in problems if problem not in loaded.problems]


def _extended(
    registries: ScenarioRegistries, matrix: str, refs: Sequence[PluginRef], files: Sequence[str]
) -> Vocabulary:
    """The known types for the base scenario, including plugins that the matrix may add."""
    return registries.vocabulary(refs, (*files, matrix))


def filter_combinations(scenarios: Sequence[Scenario], filters: Sequence[str]) -> list[Scenario]:
    """The combinations in which every filter `parameter=value` holds; several on one parameter allow several values.

    Of several targets, `model` and `agent` are parameters too. Raises `SetupError` for a filter that no combination
    satisfies, and when no combination satisfies all.
    """
    wanted: dict[str, set[str]] = {}
    for text in filters:
        parameter, equals, value = text.partition("=")
        if not equals:
            raise SetupError(f"--filter {text!r}: expected parameter=value, such as model=openai/gpt-4o")
        wanted.setdefault(parameter, set()).add(_check(text, parameter, value, scenarios))
    chosen = [scenario for scenario in scenarios if _matches(scenario, wanted)]
    if not chosen:
        raise SetupError(f"no combination matches all of {' '.join(f'--filter {text}' for text in filters)}")
    return chosen


def _check(text: str, parameter: str, value: str, scenarios: Sequence[Scenario]) -> str:
    """The value as shown in ids; quoted text may be given without the quotes."""
    varied: dict[str, dict[str, None]] = {}
    for scenario in scenarios:
        for name, shown in chosen_settings(scenario).items():
            varied.setdefault(name, {})[shown] = None
    if not varied:
        raise SetupError("--filter selects combinations of a matrix, but no matrix was given")
    if parameter not in varied:
        raise SetupError(f"--filter {text!r}: no matrix varies {parameter!r}; varied parameters: {', '.join(varied)}")
    for shown in (value, show_value(value)):
        if shown in varied[parameter]:
            return shown
    raise SetupError(
        f"--filter {text!r}: {parameter} never has that value; its values are {', '.join(varied[parameter])}"
    )


def _matches(scenario: Scenario, wanted: dict[str, set[str]]) -> bool:
    settings = chosen_settings(scenario)
    return all(settings.get(parameter) in values for parameter, values in wanted.items())


def run_matrices(scenarios: Sequence[Scenario]) -> tuple[RunMatrix, ...]:
    """The run header's data about the matrices that its scenarios come from."""
    by_matrix: dict[tuple[str, str], list[Scenario]] = {}
    for scenario in scenarios:
        if scenario.cell is not None and scenario.variant is None:
            by_matrix.setdefault((scenario.cell.matrix, scenario.cell.file), []).append(scenario)
    return tuple(_run_matrix(name, file, cells) for (name, file), cells in by_matrix.items())


def _run_matrix(name: str, file: str, scenarios: Sequence[Scenario]) -> RunMatrix:
    axes: dict[str, dict[str, int]] = {}
    values: dict[str, list[object]] = {}
    combinations: dict[str, tuple[int, ...]] = {}
    for scenario in scenarios:
        at: list[int] = []
        for setting in scenario.cell.settings if scenario.cell else ():
            known = axes.setdefault(setting.parameter, {})
            if setting.shown not in known:
                known[setting.shown] = len(known)
                values.setdefault(setting.parameter, []).append(setting.value)
            at.append(known[setting.shown])
        combinations[scenario.id] = tuple(at)
    return RunMatrix(
        name=name,
        file=file,
        axes=tuple(RunAxis(parameter=parameter, values=tuple(values[parameter])) for parameter in axes),
        combinations=combinations,
    )


def check_names(scenarios: Sequence[Scenario], casts: Casts) -> list[Problem]:
    """A located problem for every name that is not a known provider or kind of agent."""
    problems: dict[Problem, None] = {}
    seen: set[tuple[str, str, str]] = set()
    for scenario in scenarios:
        for setting in scenario.cell.settings if scenario.cell else ():
            key = (setting.place.file, setting.parameter, setting.shown)
            if key in seen:
                continue
            seen.add(key)
            try:
                _check_name(setting, scenario, casts)
            except SetupError as error:
                unloaded = casts.registries.plugins(scenario).unloaded
                problems[_unknown(setting.place, str(error), unloaded)] = None
    return sorted(problems, key=lambda problem: (problem.place.file, problem.place.line, problem.place.column))


def _unknown(place: Place, message: str, unloaded: Sequence[str]) -> Problem:
    """An error, or a warning when a plugin that was not loaded may know the name."""
    if not unloaded:
        return Problem(place=place, message=message, code="unknown-name")
    return Problem(place=place, message=f"{message}; {not_checked(unloaded)}", code=UNLOADED, level="warning")


def _check_name(setting: MatrixSetting, scenario: Scenario, casts: Casts) -> None:
    """Raises `SetupError`."""
    registry, config = casts.registries.registry(scenario), casts.settings.config
    if setting.parameter == "agent":
        registry.require("agents", str(setting.value).partition(":")[0])
    elif setting.parameter in ("model", "judge", CHARACTER_MODEL):
        character = scenario.character.model if scenario.character is not None else None
        is_judge = setting.parameter == "judge"
        name = scenario.overrides.get("judge") if is_judge else scenario.overrides.get("model", character)
        if name is not None:
            model = resolve_model(Choice(name, "matrix", Path()), config)
            provider_part(model.provider, config, registry)


def check_options(scenarios: Sequence[Scenario], options: RunOptions) -> None:
    """Raises `SetupError` for an option that a matrix overrides, or that overrides an axis."""
    for option in ("model", "agent", "judge"):
        given = getattr(options, option) is not None or getattr(options, f"{option}s", ())
        if given and all(option in scenario.overrides for scenario in scenarios):
            raise SetupError(
                f"--{option} has no effect here: every combination sets {option} itself; "
                f"choose among them with --filter {option}=..."
            )
    for scenario in scenarios:
        for setting in scenario.cell.settings if scenario.cell else ():
            for option in _undoing(setting.parameter, options):
                raise SetupError(
                    f"{option} would override {setting.parameter!r}, which {setting.place} varies; "
                    "leave out one of the two"
                )


def _undoing(parameter: str, options: RunOptions) -> Iterator[str]:
    """The given options that override a field of the scenario."""
    if parameter == CHARACTER_MODEL and (options.model is not None or options.models):
        yield "--model"
    if parameter == "environment.type" and options.environment is not None:
        yield "--environment"
    if parameter == "trials" and options.trials is not None:
        yield "--trials"
    if parameter == "pass_rate" and options.pass_rate is not None:
        yield "--pass-rate"
    if options.live and parameter.startswith(("setup.mocks", "setup.database")):
        yield "--live"


def for_each_target(scenarios: Sequence[Scenario], models: Sequence[str], agents: Sequence[str]) -> list[Scenario]:
    """Every scenario once for every combination of the two, named `<id>[agent=...,model=...]`.

    Values that a matrix sets are not varied, and a scenario that uses no agent is not duplicated.
    """
    return [each for scenario in scenarios for each in _targets(scenario, models, agents)]


def _targets(scenario: Scenario, models: Sequence[str], agents: Sequence[str]) -> list[Scenario]:
    asked = needs_agent(scenario)
    varied = {
        option: names
        for option, names in (("agent", agents), ("model", models))
        if names and asked and option not in scenario.overrides
    }
    if not varied:
        return [scenario]
    base_id = scenario.cell.base_id if scenario.cell is not None else scenario.id
    choices = [
        TargetChoice(base_id=base_id, agent=agent, model=model)
        for agent in varied.get("agent", (None,))
        for model in varied.get("model", (None,))
    ]
    return [msgspec.structs.replace(scenario, id=_target_id(scenario, choice), target=choice) for choice in choices]


def _target_id(scenario: Scenario, choice: TargetChoice) -> str:
    settings = ",".join(f"{name}={shown}" for name, shown in _target_settings(choice).items())
    return f"{scenario.id[:-1]},{settings}]" if scenario.cell is not None else f"{scenario.id}[{settings}]"


def _target_settings(choice: TargetChoice) -> dict[str, str]:
    chosen = {"agent": choice.agent, "model": choice.model}
    return {name: show_value(value) for name, value in chosen.items() if value is not None}


def chosen_settings(scenario: Scenario) -> dict[str, str]:
    """What its matrix and its target set, as ids show it."""
    cell = {each.parameter: each.shown for each in scenario.cell.settings} if scenario.cell is not None else {}
    return cell | (_target_settings(scenario.target) if scenario.target is not None else {})
