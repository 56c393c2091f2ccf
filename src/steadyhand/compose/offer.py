"""What an agent will be offered, as far as the files say, and the checks that name something else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from steadyhand.compose.cast import Casts, Choice
from steadyhand.errors import SetupError
from steadyhand.lint.offered import lint_names
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.evaluator import named_deeds
from steadyhand.records.deed_name import NamedDeed, OfferedTool, ToolOffer
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Problem
from steadyhand.records.scenario import Scenario, leaf_specs


def check_offers(scenarios: Iterable[Scenario], casts: Casts) -> Iterator[Problem]:
    """Warnings. A scenario whose plugins are not all known is left out: they may offer anything."""
    for scenario in scenarios:
        plugins = casts.registries.plugins(scenario)
        named = list(_checks_on_deeds(scenario, plugins.registry))
        if not named or plugins.unloaded or plugins.missing:
            continue
        offer = _offer(scenario, casts.agent(scenario), plugins.registry)
        if offer is not None:
            for evaluation, deeds in named:
                yield from lint_names(evaluation, deeds, offer)


def _checks_on_deeds(scenario: Scenario, registry: Registry) -> Iterator[tuple[EvaluationSpec, tuple[NamedDeed, ...]]]:
    for evaluation in leaf_specs(scenario):
        try:
            evaluator = registry.evaluator(evaluation.type)
            if not hasattr(evaluator, "names_deeds"):
                continue
            deeds = named_deeds(evaluator, evaluator.params.model_validate(evaluation.params))
        except (SetupError, ValidationError):
            continue  # the loader reports these
        if deeds:
            yield evaluation, deeds


def _offer(scenario: Scenario, agent: Choice, registry: Registry) -> ToolOffer | None:
    """None if the agent is not known."""
    kind = agent.kind
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
