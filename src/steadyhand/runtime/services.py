"""The real services of one trial: built when first called, started, and stopped at the end."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from steadyhand.errors import PluginError, TrialError
from steadyhand.ports.agent import ProvidedService, TrialContext
from steadyhand.runtime.blame import raised
from steadyhand.runtime.running import run_either

_LIFE_CYCLE = frozenset({"start", "stop"})


class LiveServices:
    def __init__(self, provided: Mapping[str, ProvidedService]) -> None:
        self.provided: Mapping[str, ProvidedService] = provided
        self._built: dict[str, Any] = {}
        self._locks: dict[str, asyncio.Lock] = {name: asyncio.Lock() for name in provided}

    async def get(self, name: str, trial: TrialContext) -> Any:
        """The service, started. Raises `PluginError` when it cannot be built or started."""
        async with self._locks[name]:
            if name not in self._built:
                provided = self.provided[name]
                try:
                    service = provided.build()  # on the loop: clients made in a constructor look for it
                    self._built[name] = service
                    start = getattr(service, "start", None)
                    if callable(start):
                        await run_either(start, trial)
                except TrialError:
                    raise
                except Exception as error:
                    message = f"plugin {provided.plugin!r} could not start its service {name!r}: {raised(error)}"
                    raise PluginError(message) from error
            return self._built[name]

    async def method(self, name: str, method: str, trial: TrialContext) -> Callable[..., Any] | None:
        """A public method of the service, or None when it has no such method."""
        return methods_of(await self.get(name, trial)).get(method)

    async def stop(self) -> None:
        """Stop what was built, last first. Raises `PluginError` after all were asked to stop. Safe to call twice."""
        problems: list[str] = []
        while self._built:
            name, service = self._built.popitem()
            stop = getattr(service, "stop", None)
            if not callable(stop):
                continue
            try:
                await run_either(stop)
            except Exception as error:  # noqa: BLE001 - the other services must still be stopped
                problems.append(f"plugin {self.provided[name].plugin!r} could not stop {name!r}: {raised(error)}")
        if problems:
            raise PluginError("; ".join(problems))


def methods_of(service: Any) -> dict[str, Callable[..., Any]]:
    """The public methods that may be called from outside; starting and stopping is the trial's business.

    A property is never evaluated on the way: it may do something.
    """
    found: dict[str, Callable[..., Any]] = {}
    for name in dir(service):
        if name.startswith("_") or name in _LIFE_CYCLE:
            continue
        if isinstance(inspect.getattr_static(service, name, None), property):
            continue
        method = getattr(service, name, None)
        if callable(method) and not inspect.isclass(method):
            found[name] = method
    return found
