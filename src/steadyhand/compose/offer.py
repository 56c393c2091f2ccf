"""What an agent will be offered, as far as the files say, and the checks that name something else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from steadyhand.compose.scenarios import ScenarioRegistries
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.lint.offered import lint_names
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.evaluator import named_deeds
from steadyhand.records.deed_name import NamedDeed, OfferedTool, ToolOffer
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Scenario, evaluation_specs


def check_offers(
    scenarios: Iterable[Scenario], settings: Settings, registries: ScenarioRegistries
) -> Iterator[Problem]:
    """Warnings. A scenario whose plugins are not all known is left out: they may offer anything."""
    for scenario in scenarios:
        registry = registries.registry(scenario)
        named = list(_named(scenario, registry))
        if not named or registries.unloaded(scenario) or registries.missing(scenario):
            continue
        offer = _offer(scenario, settings, registry)
        if offer is not None:
            for evaluation, deeds in named:
                yield from lint_names(evaluation, deeds, offer)


def _named(scenario: Scenario, registry: Registry) -> Iterator[tuple[EvaluationSpec, tuple[NamedDeed, ...]]]:
    for evaluation in evaluation_specs(scenario):
        try:
            evaluator = registry.evaluator(evaluation.type)
            deeds = named_deeds(evaluator, evaluator.params.model_validate(evaluation.params))
        except (SetupError, ValidationError):
            continue  # the loader reports these
        if deeds:
            yield evaluation, deeds


def _offer(scenario: Scenario, settings: Settings, registry: Registry) -> ToolOffer | None:
    """None if the agent is not known."""
    kind = settings.agent(scenario).partition(":")[0]
    if kind not in registry.names("agents"):
        return None  # it may come from an installed plugin, which is not imported for this
    own = agent_facts(registry.agent(kind)).own_tools
    setup = scenario.setup
    services = [*registry.names("services"), *(service.name for service in setup.services)]
    if setup.database is not None:
        services.append("database")
    tools = [
        *(OfferedTool(name=name) for name in (*registry.names("actions"), *(own or ()))),
        *(OfferedTool(service=mock.service or "", method=mock.method) for mock in setup.mocks),
        *(OfferedTool(service=name) for name in services),
    ]
    return ToolOffer(tools=tuple(tools), complete=own is not None)
