"""The models, judges and agents that matrices name, and options that would undo what a matrix varies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steadyhand.compose.options import RunOptions
from steadyhand.compose.plugins import ScenarioRegistries
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.records.location import Problem
from steadyhand.records.scenario import MatrixSetting, Scenario

CHARACTER_MODEL = "character.llm.model"


def check_names(scenarios: Sequence[Scenario], settings: Settings, registries: ScenarioRegistries) -> list[Problem]:
    """A problem at its place for every name that leads to no provider or no kind of agent."""
    problems: dict[Problem, None] = {}
    seen: set[tuple[str, str, str]] = set()
    for scenario in scenarios:
        for setting in scenario.cell.settings if scenario.cell else ():
            key = (setting.place.file, setting.parameter, setting.shown)
            if key in seen:
                continue
            seen.add(key)
            try:
                _check_name(setting, scenario, settings, registries)
            except SetupError as error:
                problems[Problem(place=setting.place, message=str(error), code="unknown-name")] = None
    return sorted(problems, key=lambda problem: (problem.place.file, problem.place.line, problem.place.column))


def _check_name(setting: MatrixSetting, scenario: Scenario, settings: Settings, registries: ScenarioRegistries) -> None:
    """Raises `SetupError`."""
    registry = registries.registry(scenario)
    if setting.parameter == "agent":
        registry.require("agents", str(setting.value).partition(":")[0])
    elif setting.parameter in ("model", "judge", CHARACTER_MODEL):
        ref = settings.judge(scenario) if setting.parameter == "judge" else settings.model(scenario)
        if ref is not None:
            registry.require("models", ref.name.partition("/")[0])


def check_options(scenarios: Sequence[Scenario], options: RunOptions) -> None:
    """Raises `SetupError` for an option that a matrix leaves without effect, or that leaves an axis without one."""
    for option in ("model", "agent", "judge"):
        if getattr(options, option) is not None and all(option in scenario.overrides for scenario in scenarios):
            raise SetupError(
                f"--{option} changes nothing here: every combination sets {option} itself; "
                f"choose among them with --filter {option}=..."
            )
    for scenario in scenarios:
        for setting in scenario.cell.settings if scenario.cell else ():
            for option in _undoing(setting.parameter, options):
                raise SetupError(
                    f"{option} would make all values of {setting.parameter!r}, which {setting.place} varies, the same; "
                    "leave out one of the two"
                )


def _undoing(parameter: str, options: RunOptions) -> Iterator[str]:
    """The options given that go before a field of the scenario."""
    if parameter == CHARACTER_MODEL and options.model is not None:
        yield "--model"
    if parameter == "environment.type" and options.environment is not None:
        yield "--environment"
    if parameter == "trials" and options.trials is not None:
        yield "--trials"
    if parameter == "pass_rate" and options.pass_rate is not None:
        yield "--pass-rate"
    if options.live and parameter.startswith(("setup.mocks", "setup.database")):
        yield "--live"
