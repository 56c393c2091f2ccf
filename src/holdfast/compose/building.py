"""Scenario and settings -> the parts of a trial."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.batch.plan import PlannedTrial
from holdfast.compose.settings import ModelRef, Settings
from holdfast.engine.calling import RetryPolicy
from holdfast.engine.context import TrialParts
from holdfast.engine.lag import LagMonitor
from holdfast.plugins.factories import AgentSettings, EnvironmentSettings, ModelSettings
from holdfast.plugins.registry import Registry
from holdfast.ports.agent import Agent
from holdfast.ports.gate import Gate
from holdfast.ports.model import ChatModel
from holdfast.records.config import ProviderConfig
from holdfast.records.scenario import RunCode, Scenario


class Builder:
    """Builds trials. Models are shared by all trials of a run; everything else is made anew for each."""

    def __init__(
        self, *, registry: Registry, settings: Settings, workspaces: Path, lag: LagMonitor, gate: Gate
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._workspaces = workspaces
        self._lag = lag
        self._gate = gate
        self._models: dict[tuple[str, Path, float], ChatModel] = {}

    def prepare(self, scenarios: Sequence[Scenario]) -> None:
        """Build once what every trial will need, so that a missing key or file is found before anything runs.

        Raises `SetupError`.
        """
        for scenario in scenarios:
            self._agent(scenario)
            self._registry.environment(self._settings.environment(scenario))

    def build(self, planned: PlannedTrial) -> TrialParts:
        scenario = planned.scenario
        settings = self._settings
        model = self._model(settings.model(scenario), scenario) if needs_agent(scenario) else None
        return TrialParts(
            scenario=scenario,
            key=planned.key,
            environment=self._registry.environment(settings.environment(scenario))(
                EnvironmentSettings(
                    root=self._workspaces,
                    trial_id=f"{planned.key.index}-{secrets.token_hex(4)}",
                    variables=settings.variables(scenario),
                )
            ),
            evaluator=self._registry.evaluator,
            agent=self._agent(scenario),
            model_name=model.name if model else None,
            seed=planned.seed,
            live=settings.options.live,
            lag=self._lag,
            gate=self._gate,
            retry=RetryPolicy(retries=settings.retries(scenario)),
        )

    async def close(self) -> None:
        for model in self._models.values():
            await model.close()

    def _agent(self, scenario: Scenario) -> Agent | None:
        if not needs_agent(scenario):
            return None
        kind, _, target = self._settings.agent(scenario).partition(":")
        ref = self._settings.model(scenario)
        return self._registry.agent(kind)(
            AgentSettings(
                target=target,
                model=self._model(ref, scenario),
                folder=Path(scenario.place.file).absolute().parent,
                variables=self._settings.variables(scenario),
            )
        )

    def _model(self, ref: ModelRef | None, scenario: Scenario) -> ChatModel | None:
        if ref is None:
            return None
        timeout_s = self._settings.timeout_s(scenario)
        key = (ref.name, ref.folder, timeout_s)
        if key not in self._models:
            provider, _, name = ref.name.partition("/")
            provided = self._settings.config(scenario).providers.get(provider)
            self._models[key] = self._registry.model(provider)(
                ModelSettings(
                    name=name,
                    folder=ref.folder,
                    variables=self._settings.variables(scenario),
                    timeout_s=timeout_s,
                    options=provider_options(provided),
                )
            )
        return self._models[key]


def provider_options(config: ProviderConfig | None) -> dict[str, Any]:
    """What configuration says of a provider, as the options its factory reads."""
    if config is None:
        return {}
    own = {"base_url": config.base_url, "api_key_env": config.api_key_env, "stream": config.stream}
    return {**config.options, **{key: value for key, value in own.items() if value is not None}}


def needs_agent(scenario: Scenario) -> bool:
    """Whether any step asks an agent; a scenario of code alone needs none."""
    return any(not isinstance(step.task, RunCode) for step in scenario.steps)
