"""From what a plugin says of a service to something that can be built for each trial."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import Plugin, Service
from steadyhand.ports.agent import ProvidedService


def provided_service(name: str, part: Any, plugin: Plugin) -> ProvidedService:
    """A factory is called with the plugin's `config`; any other object is the service itself, shared by all trials.

    Raises `SetupError` for a shared object that wants to be started or stopped: trials run side by side.
    """
    tools = False
    if isinstance(part, Service):
        part, tools = part.factory, part.tools
    if part is None:
        raise SetupError(f"plugin {plugin.name!r}: service {name!r} is None")
    if inspect.isclass(part) or inspect.isroutine(part) or isinstance(part, functools.partial):
        build = functools.partial(cast("Callable[..., Any]", part), plugin.config)
        return ProvidedService(build=build, plugin=plugin.name, tools=tools)
    if hasattr(part, "start") or hasattr(part, "stop"):
        raise SetupError(
            f"plugin {plugin.name!r}: service {name!r} has `start` or `stop` and is one object for all trials; "
            "give a class or a function of the configuration, so that each trial gets its own"
        )
    return ProvidedService(build=lambda: part, plugin=plugin.name, tools=tools)
