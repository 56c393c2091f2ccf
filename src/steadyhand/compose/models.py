"""Chat models by name, each built once for a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from steadyhand.batch.limits import SPACING_S
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.builtin.plugin import Recording, recording, replaying
from steadyhand.compose.loading import ScenarioRegistries, model_types, needs_agent, needs_user
from steadyhand.compose.parts import provider_part
from steadyhand.compose.settings import ModelRef, RunOptions, Settings
from steadyhand.engine.lag import SystemClock
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import SetupError, StoreError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import agent_facts
from steadyhand.ports.model import ChatModel, ModelFacts, model_facts
from steadyhand.records.config import ProviderConfig
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor


class Tape:
    """Wraps or replaces models, as `--record` and `--replay` say; without them it does neither."""

    def __init__(self, options: RunOptions, redactor: Redactor, *, add: bool = False) -> None:
        """With `add` an existing recording is carried on. Raises `SetupError` when it cannot be made or read."""
        if options.record is not None and options.replay is not None:
            raise SetupError("--record and --replay exclude each other: give one of them")
        self._recording: Recording | None = None
        self._replayed: Callable[[str], ChatModel] | None = None
        if options.record is not None:
            self._recording = recording(options.record, redactor, add=add)
        if options.replay is not None:
            self._replayed = replaying(options.replay, redactor, time=options.replay_time)

    def model(self, name: str, build: Callable[[], ChatModel]) -> ChatModel:
        """The model to use under this name. A replayed one is never built, so it needs no key."""
        if self._replayed is not None:
            return self._replayed(name)
        return build() if self._recording is None else self._recording.wrap(build())

    @property
    def broken(self) -> StoreError | None:
        """Why nothing more can be recorded; None while all is well."""
        return None if self._recording is None else self._recording.broken()

    def close(self) -> None:
        if self._recording is not None:
            self._recording.close()


class Models:
    def __init__(self, registries: ScenarioRegistries, settings: Settings, tape: Tape) -> None:
        self._registries = registries
        self._settings = settings
        self._tape = tape
        self._built: dict[tuple[str, Path, float], ChatModel] = {}

    def get(self, ref: ModelRef, scenario: Scenario) -> ChatModel:
        """Raises `SetupError` for an unknown provider, a missing key or a missing file."""
        timeout_s = self._settings.timeout_s
        key = (ref.name, ref.folder, timeout_s)
        if key not in self._built:
            provider, _, name = ref.name.partition("/")
            config = self._settings.config
            factory = provider_part(provider, config, self._registries.registry(scenario))
            settings = ModelSettings(
                name=name,
                provider=provider,
                folder=ref.folder,
                variables=self._settings.variables,
                timeout_s=timeout_s,
                options=config.providers[provider].options if provider in config.providers else {},
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


def providers_of(
    scenarios: Iterable[Scenario], settings: Settings, registries: ScenarioRegistries
) -> dict[str, ModelFacts]:
    """Every provider that the scenarios' models, judges and users come from, with what it declares.

    Raises `SetupError` for one that nobody knows, unless a plugin that was not loaded may know it.
    """
    found: dict[str, ModelFacts] = {}
    for scenario in scenarios:
        refs = [settings.judge(scenario), settings.user_model(scenario) if needs_user(scenario) else None]
        refs.append(settings.model(scenario) if needs_agent(scenario) else None)
        for name in model_types(scenario):
            with suppress(SetupError):  # one that stands for nothing is its check's to report
                refs.append(settings.of_type(name, ModelRef(name=name, folder=Path()), scenario))
        for ref in refs:
            provider = ref.name.partition("/")[0] if ref is not None and "/" in ref.name else None
            if provider is not None and provider not in found:
                if not _is_known(provider, settings, registries.registry(scenario)) and registries.unloaded(scenario):
                    continue
                factory = provider_part(provider, settings.config, registries.registry(scenario))
                found[provider] = model_facts(factory)
    return found


def _is_known(provider: str, settings: Settings, registry: Registry) -> bool:
    return provider in settings.config.providers or registry.has("models", provider)


def build_gate(
    providers: Mapping[str, ModelFacts], settings: Settings, note: Callable[[str], None]
) -> ProviderGate | OpenGate:
    """A replay asks nobody, whatever the names of its models: nothing is limited, and no outage waited out."""
    if settings.options.replay is not None:
        return OpenGate()
    configured = settings.config.providers
    limits: dict[str, ProviderLimits] = {}
    for name in {**providers, **configured}:
        config = configured.get(name, ProviderConfig())
        limits[name] = ProviderLimits(
            requests_per_minute=config.requests_per_minute,
            tokens_per_minute=config.tokens_per_minute,
            spacing_s=SPACING_S if providers.get(name, ModelFacts()).uses_network else 0.0,
        )
    return ProviderGate(clock=SystemClock(), limits=limits, note=note)


def needs_network(
    scenarios: Iterable[Scenario],
    providers: Mapping[str, ModelFacts],
    settings: Settings,
    registries: ScenarioRegistries,
) -> bool:
    """Whether our event loop talks to any model or agent of the run over the network, as their factories declare."""
    if any(facts.uses_network for facts in providers.values()):
        return True
    kinds = {(settings.agent(each).partition(":")[0], registries.registry(each)) for each in scenarios}
    return any(agent_facts(registry.agent(kind)).uses_network for kind, registry in kinds)
