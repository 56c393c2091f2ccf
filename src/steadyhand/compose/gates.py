"""The gate of a run: what configuration says of each provider's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steadyhand.batch.limits import SPACING_S
from steadyhand.batch.provider import ProviderGate, ProviderLimits
from steadyhand.compose.settings import Settings
from steadyhand.engine.lag import SystemClock
from steadyhand.engine.model_call import OpenGate
from steadyhand.records.scenario import Scenario

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
