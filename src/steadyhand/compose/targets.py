"""A run of several targets: each scenario once for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steadyhand.compose.cast import needs_agent
from steadyhand.records.scenario import Scenario, TargetChoice
from steadyhand.spec.matrix_axes import show_value


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
    return [msgspec.structs.replace(scenario, id=_named(scenario, choice), target=choice) for choice in choices]


def _named(scenario: Scenario, choice: TargetChoice) -> str:
    settings = ",".join(f"{name}={shown}" for name, shown in _shown(choice).items())
    return f"{scenario.id[:-1]},{settings}]" if scenario.cell is not None else f"{scenario.id}[{settings}]"


def _shown(choice: TargetChoice) -> dict[str, str]:
    chosen = {"agent": choice.agent, "model": choice.model}
    return {name: show_value(value) for name, value in chosen.items() if value is not None}


def chosen_settings(scenario: Scenario) -> dict[str, str]:
    """What its matrix and its target set, as ids show it."""
    cell = {each.parameter: each.shown for each in scenario.cell.settings} if scenario.cell is not None else {}
    return cell | (_shown(scenario.target) if scenario.target is not None else {})
