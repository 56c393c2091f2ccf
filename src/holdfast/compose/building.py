"""Scenario and settings -> the parts of a trial."""

from __future__ import annotations

import importlib
import itertools
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.batch.plan import PlannedTrial
from holdfast.compose.judges import Judges, needs_judge
from holdfast.compose.models import Models
from holdfast.compose.plugins import ScenarioRegistries
from holdfast.compose.settings import Settings
from holdfast.engine.calling import RetryPolicy
from holdfast.engine.clock import SystemClock
from holdfast.engine.context import TrialParts
from holdfast.engine.lag import LagMonitor
from holdfast.plugins.factories import AgentFactory, AgentSettings, EnvironmentFactory, EnvironmentSettings
from holdfast.ports.agent import Agent
from holdfast.ports.environment import EnvironmentProvider
from holdfast.ports.gate import Gate
from holdfast.ports.model import ChatModel
from holdfast.records.scenario import RunCode, Scenario, evaluation_specs

if TYPE_CHECKING:
    from holdfast.compose.services import TrialServices


class Builder:
    """Builds trials. Models, judges and the script sandbox are shared by a run; everything else is made anew."""

    def __init__(
        self, *, registries: ScenarioRegistries, settings: Settings, workspaces: Path, lag: LagMonitor, gate: Gate
    ) -> None:
        self._registries = registries
        self._settings = settings
        self._workspaces = workspaces
        self._lag = lag
        self._gate = gate
        self._models = Models(registries, settings)
        self._judges = Judges(self._models, settings)
        self._services: TrialServices | None = None
        self._notes: dict[str, tuple[str, ...]] = {}
        # A mark of the run and a count tell workspaces apart; asking the system for chance is slow.
        self._checked: dict[int, Any] = {}
        self._mark: str = secrets.token_hex(4)
        self._count = itertools.count()
        # By scenario, because a run builds thousands of trials of the same one.
        self._tested: dict[str, ChatModel | None] = {}
        self._agents: dict[str, tuple[AgentFactory, AgentSettings]] = {}
        self._environments: dict[str, tuple[EnvironmentFactory, EnvironmentSettings]] = {}

    def prepare(self, scenarios: Sequence[Scenario]) -> None:
        """Build once what every trial will need, so that a missing key, package or file is found before anything runs.

        Raises `UsageError`.
        """
        if any(needs_services(scenario) for scenario in scenarios):
            from holdfast.compose.services import TrialServices  # most decisions need none of it

            self._services = TrialServices()
            self._services.check(scenarios)
        if self._services is not None or any(needs_judge(scenario) for scenario in scenarios):
            # An import in the middle of a run holds up the event loop, and spoils what is being timed.
            importlib.import_module("jsonschema")
        for scenario in scenarios:
            warnings = [*self._registries.warnings(scenario), *self._judges.warnings(scenario)]
            self._notes[scenario.id] = tuple(warnings)
            self._agent(scenario)
            if needs_judge(scenario):
                self._judges.get(scenario)
            self._environment(scenario, "prepare")
            for spec in evaluation_specs(scenario):
                self._registries.registry(scenario).evaluator(spec.type)

    def build(self, planned: PlannedTrial) -> TrialParts:
        scenario = planned.scenario
        settings = self._settings
        registry = self._registries.registry(scenario)
        model = self._model(scenario)
        clock = SystemClock()
        services = None
        if self._services is not None and needs_services(scenario):
            services = self._services.build(scenario, registry, seed=planned.seed, clock=clock)
        return TrialParts(
            scenario=scenario,
            key=planned.key,
            environment=self._environment(scenario, f"{planned.key.index}-{self._mark}-{next(self._count)}"),
            evaluator=registry.evaluator,
            checked=self._checked,
            agent=self._agent(scenario),
            judge=self._judges.get(scenario) if needs_judge(scenario) else None,
            services=services,
            model_name=model.name if model else None,
            seed=planned.seed,
            live=settings.options.live,
            clock=clock,
            lag=self._lag,
            gate=self._gate,
            retry=RetryPolicy(retries=settings.retries(scenario)),
            notes=self._notes.get(scenario.id, ()),
        )

    async def close(self) -> None:
        if self._services is not None:
            self._services.close()
        await self._models.close()

    def _environment(self, scenario: Scenario, trial_id: str) -> EnvironmentProvider:
        known = self._environments.get(scenario.id)
        if known is None:
            factory = self._registries.registry(scenario).environment(self._settings.environment(scenario))
            settings = EnvironmentSettings(
                root=self._workspaces,
                trial_id="",
                variables=self._settings.variables(scenario),
                options={"sandbox": self._settings.sandbox(scenario)},
            )
            known = self._environments[scenario.id] = (factory, settings)
        return known[0](msgspec.structs.replace(known[1], trial_id=trial_id))

    def _agent(self, scenario: Scenario) -> Agent | None:
        known = self._agents.get(scenario.id)
        if known is None:
            if not needs_agent(scenario):
                return None
            kind, _, target = self._settings.agent(scenario).partition(":")
            settings = AgentSettings(
                target=target,
                model=self._model(scenario),
                folder=Path(scenario.place.file).absolute().parent,
                variables=self._settings.variables(scenario),
                options={"allow_commands": self._settings.allow_commands(scenario)},
            )
            known = self._agents[scenario.id] = (self._registries.registry(scenario).agent(kind), settings)
        return known[0](known[1])

    def _model(self, scenario: Scenario) -> ChatModel | None:
        """The model under test, or None when the scenario asks nobody or nobody named one."""
        if scenario.id not in self._tested:
            ref = self._settings.model(scenario) if needs_agent(scenario) else None
            self._tested[scenario.id] = self._models.get(ref, scenario) if ref else None
        return self._tested[scenario.id]


def needs_agent(scenario: Scenario) -> bool:
    """Whether any step asks an agent; a scenario of code alone needs none."""
    return any(not isinstance(step.task, RunCode) for step in scenario.steps)


def needs_services(scenario: Scenario) -> bool:
    """A plain question to a plain model has no use for them."""
    return bool(scenario.setup.mocks or scenario.plugins or scenario.default_agent != "model")
