"""The registry of a run: the built-in parts and what installed plugins bring."""

from __future__ import annotations

from holdfast.builtin.plugin import builtin_plugin
from holdfast.plugins.registry import Registry


def build_registry() -> Registry:
    return Registry([builtin_plugin()])
