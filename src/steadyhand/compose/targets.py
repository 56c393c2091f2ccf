"""What is under test: the target of a scenario, and a run of several."""

from __future__ import annotations

from steadyhand.compose.loading import needs_agent
from steadyhand.compose.settings import Settings
from steadyhand.records.run import Target
from steadyhand.records.scenario import Scenario

CHARACTER_MODEL = "character.llm.model"
_NOT_OF_THE_CELL = frozenset(("model", "agent", CHARACTER_MODEL))


def target_of(scenario: Scenario, settings: Settings) -> Target:
    """Raises `SetupError` for a model without a provider."""
    cell = scenario.cell
    asked = needs_agent(scenario)
    model = settings.model(scenario) if asked else None
    return Target(
        scenario=cell.base_id if cell is not None else scenario.id,
        model=model.name if model is not None else None,
        agent=settings.agent(scenario) if asked else None,
        cell={each.parameter: each.value for each in cell.settings if each.parameter not in _NOT_OF_THE_CELL}
        if cell is not None
        else {},
    )
