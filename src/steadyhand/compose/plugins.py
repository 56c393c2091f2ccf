"""The registry that holds for a scenario: the built-in parts and what its own plugins bring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from steadyhand.plugins.registry import EvaluationCatalogue, Registry
from steadyhand.records.scenario import PluginRef, Scenario
from steadyhand.spec.agent import Vocabulary

if TYPE_CHECKING:
    from steadyhand.plugins.discovery import InstalledPlugins


class _Found(NamedTuple):
    registry: Registry
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class ScenarioRegistries:
    """Plugins are found once for all scenarios of a folder that name the same ones."""

    def __init__(self, base: Registry, *, live: bool = False) -> None:
        self.base: Registry = base
        self._live: bool = live
        self._installed: InstalledPlugins | None = None
        self._known: dict[tuple[Path, bytes], _Found] = {}

    def registry(self, scenario: Scenario) -> Registry:
        """Raises `SetupError` for a plugin that cannot be had."""
        return self._resolved(scenario.plugins, scenario.place.file).registry

    def warnings(self, scenario: Scenario) -> tuple[str, ...]:
        return self._resolved(scenario.plugins, scenario.place.file).warnings

    def missing(self, scenario: Scenario) -> tuple[str, ...]:
        """The plugins that it names and nobody has."""
        return self._resolved(scenario.plugins, scenario.place.file).missing

    def vocabulary(self, refs: Sequence[PluginRef], file: str) -> Vocabulary:
        """What a file that names these plugins may say."""
        registry = self._resolved(refs, file).registry
        return Vocabulary(EvaluationCatalogue(registry), environments_of(registry))

    def _resolved(self, refs: Sequence[PluginRef], file: str) -> _Found:
        if not refs:
            return _Found(self.base)
        folder = Path(file).absolute().parent
        key = (folder, msgspec.json.encode([(ref.name, ref.version, ref.enabled, ref.config) for ref in refs]))
        if key not in self._known:
            from steadyhand.plugins.discovery import InstalledPlugins
            from steadyhand.plugins.resolve import resolve_plugins

            self._installed = self._installed or InstalledPlugins()
            resolved = resolve_plugins(refs, folder=folder, live=self._live, installed=self._installed)
            self._known[key] = _Found(self.base.extended(resolved.plugins), resolved.warnings, resolved.missing)
        return self._known[key]


def environments_of(registry: Registry) -> list[str]:
    return registry.names("environments")
