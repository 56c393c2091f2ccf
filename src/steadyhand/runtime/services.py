"""The real services of one trial: built when first called, started, and stopped at the end."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from steadyhand.errors import PluginError, TrialError
from steadyhand.ports.agent import ProvidedService, ServiceMethod, TrialContext
from steadyhand.records.scenario import Mock
from steadyhand.runtime.values import raised, run_either

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


_ARGS: dict[str, Any] = {"type": "array", "description": "Positional arguments, in order."}
_READS_ARGS = re.compile(r"\bargs\s*(\?\.)?[\[.]")


def mocked_method(service: str | None, method: str, mocks: Iterable[Mock]) -> ServiceMethod:
    """A mocked method. Its schema names the parameters that the mocks ask about, never their values.

    `args` is required when any of the mocks looks at positional arguments, so that an agent that leaves them out is
    told so instead of missing every mock. One object alone may be passed by name, so it asks for no `args`.
    """
    named: dict[str, Any] = {}
    positional = False
    for mock in mocks:
        if mock.method != method or (mock.service is not None and service is not None and mock.service != service):
            continue
        alone = [_lone_object(given) for given in (mock.when.args, mock.when.partial_args) if given]
        for known in (mock.when.input, *alone):
            named |= {name: {} for name in known or {}}
        scripts = f"{mock.when.matcher or ''} {mock.response_fn or ''}"
        positional |= None in alone or bool(_READS_ARGS.search(scripts))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {**named, "args": _ARGS},
        "additionalProperties": True,
    }
    if positional:
        schema["required"] = ["args"]
    owner = f" of the service {service}" if service else ""
    return ServiceMethod(
        service=service or "",
        method=method,
        description=f"Call {method}{owner}. Named parameters are passed as they are, positional ones in `args`.",
        parameters=schema,
    )


def real_method(service: str, method: str, function: Callable[..., Any]) -> ServiceMethod:
    """A method of a plugin's service, described by its docstring."""
    described = (inspect.getdoc(function) or f"Call {method} of the service {service}.").split("\n\n")[0]
    parameters: dict[str, Any] = {"type": "object", "properties": {"args": _ARGS}, "additionalProperties": True}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ServiceMethod(service=service, method=method, description=described, parameters=parameters)
    names = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    parameters["properties"] = {**{name: {} for name in names}, "args": _ARGS}
    return ServiceMethod(service=service, method=method, description=described, parameters=parameters)


def _lone_object(args: list[Any]) -> dict[str, Any] | None:
    """The keys to name when the mock asks for one object and nothing else; None when it asks for other arguments."""
    found: dict[str, Any] = {}
    for choice in args:
        inner = cast("list[Any]", choice) if isinstance(choice, list) else [choice]
        if len(inner) != 1 or not isinstance(inner[0], dict):
            return None
        found |= cast("dict[str, Any]", inner[0])
    return found if len(args) == 1 or all(isinstance(choice, list) for choice in args) else None
