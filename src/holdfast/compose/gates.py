"""The gate of a run: what configuration says of each provider's limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.batch.gate import SPACING_S, ProviderGate, ProviderLimits
from holdfast.compose.settings import Settings
from holdfast.engine.clock import SystemClock
from holdfast.records.scenario import Scenario

OFFLINE = frozenset(("scripted", "replay"))
"""Providers without a network: there is nothing to pace, and their answers are no latency of anybody."""


def build_gate(scenarios: Iterable[Scenario], settings: Settings, note: Callable[[str], None]) -> ProviderGate:
    limits = {name: ProviderLimits(spacing_s=0.0) for name in OFFLINE}
    configs = {id(config): config for config in (settings.config(scenario) for scenario in scenarios)}
    for config in configs.values():
        for name, provider in config.providers.items():
            limits[name] = ProviderLimits(
                requests_per_minute=provider.requests_per_minute,
                tokens_per_minute=provider.tokens_per_minute,
                spacing_s=0.0 if name in OFFLINE else SPACING_S,
            )
    return ProviderGate(clock=SystemClock(), limits=limits, note=note)


def needs_network(scenarios: Iterable[Scenario], settings: Settings) -> bool:
    """Whether any model of the run is reached over the network, as far as its name tells."""
    for scenario in scenarios:
        for ref in (settings.model(scenario), settings.judge(scenario)):
            if ref is not None and ref.name.partition("/")[0] not in OFFLINE:
                return True
    return False
