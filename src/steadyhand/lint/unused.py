"""Lint: what is set up and can never be used, or has no effect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from steadyhand.records.location import Problem
from steadyhand.records.scenario import Converse, Mock, Scenario, Step, leaf_specs


def lint_unused(scenario: Scenario) -> Iterator[Problem]:
    """Mocks that another one always answers for, and simulated users that never speak."""
    for index, mock in enumerate(scenario.setup.mocks):
        covering = next((each for each in scenario.setup.mocks[:index] if _covers(each, mock)), None)
        if covering is not None:
            name = f"{mock.service}.{mock.method}" if mock.service else mock.method
            message = f"the mock at {covering.place} always answers for {name} in place of this one; give one a `when`"
            yield Problem(place=mock.place, message=message, code="unused-mock", level="warning")
    if scenario.case is None:
        yield from _unfilled(scenario)
    for step in scenario.steps:
        if (problem := _persona(step)) is not None:
            yield problem


def _unfilled(scenario: Scenario) -> Iterator[Problem]:
    """Placeholders in checks of a scenario without cases, such as those of a part that others use with cases."""
    for spec in leaf_specs(scenario):
        if (found := _PLACEHOLDER.search(repr(spec.params))) is not None:
            message = f"`{found[0]}` is plain text here: a placeholder has a value only in a scenario with `cases`"
            yield Problem(place=spec.place, message=message, code="unfilled-placeholder", level="warning")


_PLACEHOLDER = re.compile(r"(?<!\$)\{\{ *[\w.]+ *(?:\| *raw *)?\}\}")


def _covers(first: Mock, other: Mock) -> bool:
    """Whether the first of two mocks is always chosen: of equal conditions, the first counts."""
    return first.method == other.method and first.service in (None, other.service) and first.when == other.when


def _persona(step: Step) -> Problem | None:
    if not isinstance(step.task, Converse):
        return None
    config = step.task.config
    if config.user_simulator is None or any(entry.say is None for entry in config.script):
        return None
    if config.max_turns > len(config.script) + bool(step.task.opening):
        return None
    message = (
        f"the script has a line for each of the {config.max_turns} turns, so the simulated user never speaks; raise"
        " `max_turns`, or drop `user_simulator`"
    )
    return Problem(place=step.place, message=message, code="unused-persona", level="warning")
