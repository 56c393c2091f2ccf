"""The registry of a run: the built-in parts and what installed plugins bring."""

from __future__ import annotations

from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.plugins.registry import Registry


def build_registry() -> Registry:
    return Registry([builtin_plugin()])
