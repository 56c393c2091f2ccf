"""Chat models by name, each built once for a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steadyhand.batch.limits import SPACING_S
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.compose.loading import ScenarioRegistries
from steadyhand.compose.settings import ModelRef, RunOptions, Settings
from steadyhand.engine.lag import SystemClock
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import SetupError, StoreError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.ports.model import ChatModel
from steadyhand.records.config import ProviderConfig
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor

if TYPE_CHECKING:
    from steadyhand.builtin.models.cassette import CassetteWriter
    from steadyhand.builtin.models.replay import Cassette


class Tape:
    """Wraps or replaces models, as `--record` and `--replay` say; without them it does neither."""

    def __init__(self, options: RunOptions, redactor: Redactor, *, add: bool = False) -> None:
        """With `add` an existing recording is carried on. Raises `SetupError` when it cannot be made or read."""
        self._writer: CassetteWriter | None = None
        self._cassette: Cassette | None = None
        if options.record is not None and options.replay is not None:
            raise SetupError("--record and --replay exclude each other: give one of them")
        if options.record is not None:
            from steadyhand.builtin.models.cassette import CassetteWriter

            self._writer = CassetteWriter(options.record, redactor, add=add)
        if options.replay is not None:
            from steadyhand.builtin.models.replay import Cassette

            self._cassette = Cassette(options.replay, redactor, time=options.replay_time)

    def model(self, name: str, build: Callable[[], ChatModel]) -> ChatModel:
        """The model to use under this name. A replayed one is never built, so it needs no key."""
        if self._cassette is not None:
            from steadyhand.builtin.models.replay import ReplayedModel

            return ReplayedModel(name, self._cassette)
        if self._writer is not None:
            from steadyhand.builtin.models.cassette import RecordingModel

            return RecordingModel(build(), self._writer)
        return build()

    @property
    def broken(self) -> StoreError | None:
        """Why nothing more can be recorded; None while all is well."""
        return None if self._writer is None else self._writer.broken

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


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


OFFLINE = frozenset(("scripted", "replay"))
"""Providers without a network: there is nothing to pace, and their answers are no latency of anybody."""

_OVER_HTTP = frozenset(("http", "elizaos"))


def build_gate(
    scenarios: Iterable[Scenario], settings: Settings, note: Callable[[str], None]
) -> ProviderGate | OpenGate:
    """A provider that several configuration files limit has one account, so the lowest limit holds.

    A replay asks nobody, whatever the names of its models: nothing is limited, and no outage waited out.
    """
    if settings.options.replay is not None:
        return OpenGate()
    limits = {name: ProviderLimits(spacing_s=0.0) for name in OFFLINE}
    configs = {id(config): config for config in (settings.config(scenario) for scenario in scenarios)}
    for config in configs.values():
        for name, provider in config.providers.items():
            known = limits.get(name, ProviderLimits())
            limits[name] = ProviderLimits(
                requests_per_minute=_lowest(known.requests_per_minute, provider.requests_per_minute),
                tokens_per_minute=_lowest(known.tokens_per_minute, provider.tokens_per_minute),
                spacing_s=0.0 if name in OFFLINE else SPACING_S,
            )
    return ProviderGate(clock=SystemClock(), limits=limits, note=note)


def _lowest(*limits: float | None) -> float | None:
    return min((limit for limit in limits if limit is not None), default=None)


def needs_network(scenarios: Iterable[Scenario], settings: Settings) -> bool:
    """Whether any model or agent of the run is reached over the network, as far as names tell."""
    for scenario in scenarios:
        if settings.agent(scenario).partition(":")[0] in _OVER_HTTP:
            return True
        for ref in (settings.model(scenario), settings.judge(scenario), settings.user_model(scenario)):
            if ref is not None and ref.name.partition("/")[0] not in OFFLINE:
                return True
    return False
