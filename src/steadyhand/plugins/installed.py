"""Plugins that came with an installed package, by entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "steadyhand.plugins"


class InstalledPlugins:
    """The entry points of the group `steadyhand.plugins`, read when first asked for and then kept.

    Make one per run: reading them looks at every installed package.
    """

    def __init__(self) -> None:
        self._found: dict[str, EntryPoint] | None = None

    def _entries(self) -> dict[str, EntryPoint]:
        if self._found is None:
            from importlib.metadata import entry_points

            self._found = {entry.name: entry for entry in entry_points(group=GROUP)}
        return self._found

    def get(self, name: str) -> EntryPoint | None:
        return self._entries().get(name)

    def names(self) -> list[str]:
        return sorted(self._entries())
