"""The real services of a trial: built when first called, stopped at the end, and their methods as an agent is shown
them."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from steadyhand.errors import PluginError, TrialError
from steadyhand.ports.agent import TrialContext
from steadyhand.ports.services import ProvidedService, ServiceMethod, ToolServer
from steadyhand.records.scenario import Mock
from steadyhand.runtime.values import run_either
from steadyhand.user_file import raised

_LIFE_CYCLE = frozenset({"start", "stop"})
_ARGS: dict[str, Any] = {"type": "array", "description": "Positional arguments, in order."}
_READS_ARGS = re.compile(r"\bargs\s*(\?\.)?[\[.]")


class LiveServices:
    def __init__(self, provided: Mapping[str, ProvidedService]) -> None:
        self.provided: Mapping[str, ProvidedService] = provided
        self._built: dict[str, Any] = {}
        self._locks: dict[str, asyncio.Lock] = {name: asyncio.Lock() for name in provided}

    async def get(self, name: str, trial: TrialContext) -> Any:
        """The service, started. Raises `PluginError` if it cannot be built or started."""
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

    def known(self, name: str) -> Any:
        """The service if it has been built, else None."""
        return self._built.get(name)

    async def start_at_once(self, trial: TrialContext) -> None:
        """Start the services that must be ready before the agent. Raises the first failure."""
        names = [name for name, provided in self.provided.items() if provided.at_once]
        if not names:
            return
        tasks = [asyncio.create_task(self.get(name, trial)) for name in names]
        try:
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            for task in tasks:
                _ = task.cancelled() or task.exception()  # the first failure is raised; the others need no traceback

    async def settle(self) -> Exception | None:
        """The first failure of a service that tracks its own failures."""
        for service in tuple(self._built.values()):
            if isinstance(service, ToolServer) and (failure := await service.settle()) is not None:
                return failure
        return None

    async def stop(self) -> None:
        """Stop the services in reverse order. Raises `PluginError` after trying all. Safe to call twice."""
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
    """The public methods, without those for starting and stopping.

    Properties are not evaluated, because they may have side effects.
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


def mocked_method(service: str | None, method: str, mocks: Iterable[Mock]) -> ServiceMethod:
    """A mocked method as a tool. Its schema names the parameters that the mocks match, never their values.

    `args` is required if any mock matches positional arguments, so that an agent that omits them gets an error instead
    of missing every mock. A single object can be passed by name, so it needs no `args`. The first schema and the first
    description that a mock of the method gives replace ours.
    """
    named: dict[str, Any] = {}
    positional = False
    described = ""
    given_schema: dict[str, Any] | None = None
    for mock in mocks:
        if mock.method != method or (mock.service is not None and service is not None and mock.service != service):
            continue
        described = described or mock.description
        given_schema = mock.parameters if given_schema is None else given_schema
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
        description=described
        or f"Call {method}{owner}. Named parameters are passed as they are, positional ones in `args`.",
        parameters=schema if given_schema is None else given_schema,
    )


def described_by_mocks(real: ServiceMethod, mocks: Iterable[Mock]) -> ServiceMethod:
    """The method with the first description and the first schema that a mock of it gives, if any does."""
    own = [mock for mock in mocks if mock.method == real.method and mock.service in (None, real.service)]
    description = next((mock.description for mock in own if mock.description), real.description)
    parameters = next((mock.parameters for mock in own if mock.parameters is not None), real.parameters)
    return ServiceMethod(service=real.service, method=real.method, description=description, parameters=parameters)


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
    """The keys of the object if the mock matches a single object; None if it matches other arguments."""
    found: dict[str, Any] = {}
    for choice in args:
        inner = cast("list[Any]", choice) if isinstance(choice, list) else [choice]
        if len(inner) != 1 or not isinstance(inner[0], dict):
            return None
        found |= cast("dict[str, Any]", inner[0])
    return found if len(args) == 1 or all(isinstance(choice, list) for choice in args) else None
