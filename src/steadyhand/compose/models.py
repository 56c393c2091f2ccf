"""Chat models by name, each built once for a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from steadyhand.compose.plugins import ScenarioRegistries
from steadyhand.compose.settings import ModelRef, Settings
from steadyhand.compose.tape import Tape
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.ports.model import ChatModel
from steadyhand.records.config import ProviderConfig
from steadyhand.records.scenario import Scenario


class Models:
    def __init__(self, registries: ScenarioRegistries, settings: Settings, tape: Tape) -> None:
        self._registries = registries
        self._settings = settings
        self._tape = tape
        self._built: dict[tuple[str, Path, float], ChatModel] = {}

    def get(self, ref: ModelRef, scenario: Scenario) -> ChatModel:
        """Raises `SetupError` for an unknown provider, a missing key or a missing file."""
        timeout_s = self._settings.timeout_s(scenario)
        key = (ref.name, ref.folder, timeout_s)
        if key not in self._built:
            provider, _, name = ref.name.partition("/")
            factory = self._registries.registry(scenario).model(provider)
            settings = ModelSettings(
                name=name,
                folder=ref.folder,
                variables=self._settings.variables(scenario),
                timeout_s=timeout_s,
                options=provider_options(self._settings.config(scenario).providers.get(provider)),
            )
            self._built[key] = self._tape.model(ref.name, lambda: factory(settings))
        return self._built[key]

    def chooser(self, default: ModelRef, scenario: Scenario, *, fixed: bool) -> Callable[[str | None], ChatModel]:
        """From a scenario's `model_type` to a model: an alias of the configuration, a full name, or the default.

        `fixed` is for a model that the command line names, which wins over what a scenario asks for.
        """

        def choose(model_type: str | None) -> ChatModel:
            return self.get(default if fixed else self._settings.of_type(model_type, default, scenario), scenario)

        return choose

    async def close(self) -> None:
        for model in self._built.values():
            await model.close()

    @property
    def names(self) -> list[str]:
        """The models built so far."""
        return [model.name for model in self._built.values()]


def provider_options(config: ProviderConfig | None) -> dict[str, Any]:
    """What configuration says of a provider, as the options its factory reads."""
    if config is None:
        return {}
    own = {"base_url": config.base_url, "api_key_env": config.api_key_env, "stream": config.stream}
    return {**config.options, **{key: value for key, value in own.items() if value is not None}}
