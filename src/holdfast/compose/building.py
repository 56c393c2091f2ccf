"""Scenario and settings -> the parts of a trial."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.batch.plan import PlannedTrial
from holdfast.compose.judges import Judges, needs_judge
from holdfast.compose.models import Models
from holdfast.compose.plugins import ScenarioRegistries
from holdfast.compose.settings import Settings
from holdfast.compose.tape import Tape
from holdfast.engine.budget import Budget
from holdfast.engine.calling import RetryPolicy
from holdfast.engine.clock import SystemClock
from holdfast.engine.context import TrialParts
from holdfast.engine.lag import LagMonitor
from holdfast.plugins.factories import AgentSettings, EnvironmentSettings
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
        self,
        *,
        registries: ScenarioRegistries,
        settings: Settings,
        workspaces: Path,
        lag: LagMonitor,
        gate: Gate,
        tape: Tape,
        budget: Budget,
    ) -> None:
        self._registries = registries
        self._settings = settings
        self._workspaces = workspaces
        self._lag = lag
        self._gate = gate
        self._budget = budget
        self._models = Models(registries, settings, tape)
        self._judges = Judges(self._models, settings)
        self._services: TrialServices | None = None
        self._notes: dict[str, tuple[str, ...]] = {}

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
        self._budget.check(self._models.names)

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
            environment=self._environment(scenario, f"{planned.key.index}-{secrets.token_hex(4)}"),
            evaluator=registry.evaluator,
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
            sinks=(self._budget,),
            notes=self._notes.get(scenario.id, ()),
        )

    async def close(self) -> None:
        if self._services is not None:
            self._services.close()
        await self._models.close()

    def _environment(self, scenario: Scenario, trial_id: str) -> EnvironmentProvider:
        factory = self._registries.registry(scenario).environment(self._settings.environment(scenario))
        return factory(
            EnvironmentSettings(
                root=self._workspaces,
                trial_id=trial_id,
                variables=self._settings.variables(scenario),
                options={"sandbox": self._settings.sandbox(scenario)},
            )
        )

    def _agent(self, scenario: Scenario) -> Agent | None:
        if not needs_agent(scenario):
            return None
        kind, _, target = self._settings.agent(scenario).partition(":")
        return self._registries.registry(scenario).agent(kind)(
            AgentSettings(
                target=target,
                model=self._model(scenario),
                folder=Path(scenario.place.file).absolute().parent,
                variables=self._settings.variables(scenario),
                options={"allow_commands": self._settings.allow_commands(scenario)},
            )
        )

    def _model(self, scenario: Scenario) -> ChatModel | None:
        """The model under test, or None when the scenario asks nobody or nobody named one."""
        ref = self._settings.model(scenario) if needs_agent(scenario) else None
        return self._models.get(ref, scenario) if ref else None


def needs_agent(scenario: Scenario) -> bool:
    """Whether any step asks an agent; a scenario of code alone needs none."""
    return any(not isinstance(step.task, RunCode) for step in scenario.steps)


def needs_services(scenario: Scenario) -> bool:
    """A plain question to a plain model has no use for them."""
    return bool(scenario.setup.mocks or scenario.plugins or scenario.default_agent != "model")
