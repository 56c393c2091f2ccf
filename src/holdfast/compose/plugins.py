"""The registry that holds for a scenario: the built-in parts and what its own plugins bring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.plugins.registry import EvaluationCatalogue, Registry
from holdfast.records.scenario import PluginRef, Scenario
from holdfast.spec.vocabulary import Vocabulary

if TYPE_CHECKING:
    from holdfast.plugins.installed import InstalledPlugins


class ScenarioRegistries:
    """Plugins are found once for all scenarios of a folder that name the same ones."""

    def __init__(self, base: Registry, *, live: bool = False) -> None:
        self.base: Registry = base
        self._live: bool = live
        self._installed: InstalledPlugins | None = None
        self._known: dict[tuple[Path, bytes], tuple[Registry, tuple[str, ...]]] = {}

    def registry(self, scenario: Scenario) -> Registry:
        """Raises `SetupError` for a plugin that cannot be had."""
        return self._resolved(scenario.plugins, scenario.place.file)[0]

    def warnings(self, scenario: Scenario) -> tuple[str, ...]:
        return self._resolved(scenario.plugins, scenario.place.file)[1]

    def vocabulary(self, refs: Sequence[PluginRef], file: str) -> Vocabulary:
        """What a file that names these plugins may say."""
        registry = self._resolved(refs, file)[0]
        return Vocabulary(EvaluationCatalogue(registry), environments_of(registry))

    def _resolved(self, refs: Sequence[PluginRef], file: str) -> tuple[Registry, tuple[str, ...]]:
        if not refs:
            return self.base, ()
        folder = Path(file).absolute().parent
        key = (folder, msgspec.json.encode([(ref.name, ref.version, ref.enabled, ref.config) for ref in refs]))
        if key not in self._known:
            from holdfast.plugins.installed import InstalledPlugins
            from holdfast.plugins.resolve import resolve_plugins

            self._installed = self._installed or InstalledPlugins()
            resolved = resolve_plugins(refs, folder=folder, live=self._live, installed=self._installed)
            self._known[key] = (self.base.extended(resolved.plugins), resolved.warnings)
        return self._known[key]


def environments_of(registry: Registry) -> list[str]:
    return registry.names("environments")
