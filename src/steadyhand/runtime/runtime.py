"""The services and actions of a trial, with the mocks in front of them.

A real service is built and started when first called, and stopped at the end.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from steadyhand.errors import AgentError, PluginError, SteadyhandError, TrialError
from steadyhand.ports.agent import TrialContext
from steadyhand.ports.services import (
    Action,
    ActionContext,
    MockFunction,
    ProvidedService,
    ServiceAnswer,
    ServiceFault,
    ServiceMethod,
    ToolServer,
)
from steadyhand.records.base import UnreadableValue, plain, plain_object
from steadyhand.records.event import ActionStatus, ActionTaken, Noted, Observed, ServiceCalled
from steadyhand.records.scenario import Mock
from steadyhand.runtime.mocks import MockAnswer, MockCall, MockRegistry, MockSource, NoMocks
from steadyhand.runtime.values import bounded, raised, run_either

Call = Callable[[str, str, list[Any], dict[str, Any]], Awaitable[Any]]
_LIFE_CYCLE = frozenset({"start", "stop"})
_ARGS: dict[str, Any] = {"type": "array", "description": "Positional arguments, in order."}
_READS_ARGS = re.compile(r"\bargs\s*(\?\.)?[\[.]")


class ServiceProxy:
    """A service by name. Each call decides whether it is mocked, real, or missing."""

    __slots__ = ("_call", "_name")

    def __init__(self, name: str, call: Call) -> None:
        self._name: str = name
        self._call: Call = call

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        if method.startswith("_"):
            raise AttributeError(f"service {self._name!r} has no public method {method!r}")
        name, call = self._name, self._call

        async def invoke(*args: Any, **named: Any) -> Any:
            return await call(name, method, list(args), named)

        invoke.__name__ = method
        return invoke

    def __repr__(self) -> str:
        return f"<service {self._name!r}>"


class AgentRuntime:
    """Implements `ports.agent.Services`."""

    def __init__(
        self,
        *,
        mocks: MockSource | None = None,
        actions: Mapping[str, Action] | None = None,
        services: Mapping[str, ProvidedService] | None = None,
    ) -> None:
        self._mocks: MockSource = mocks or NoMocks()
        self._actions: Mapping[str, Action] = actions or {}
        self._live: LiveServices = LiveServices(services or {})
        self._registered: MockRegistry = MockRegistry()
        self._trial: TrialContext | None = None
        self._broken: Exception | None = None
        self._performed: int = 0

    async def open(self, trial: TrialContext) -> None:
        """Start the trial, and the services that are started at once; a live trial notes that the scenario's mocks are
        ignored."""
        self._trial = trial
        ignored = len(trial.scenario.setup.mocks)
        if trial.live and ignored:
            message = f"live: {ignored} mock{'s' if ignored > 1 else ''} of the scenario ignored"
            trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message))
        await self._live.start_at_once(trial)

    @property
    def actions(self) -> Mapping[str, Action]:
        return self._actions

    async def perform(self, action: str, params: dict[str, Any], *, recorded: bool = False) -> Any:
        if recorded:
            return await self._perform(action, params)
        trial = self._opened()
        at_ms, began = trial.elapsed_ms(), trial.clock.now()
        try:
            passed = plain_object(params)
        except UnreadableValue as unreadable:
            raise AgentError(f"{action} was called with values that cannot be recorded: {unreadable}") from unreadable
        self._performed += 1
        action_id = f"performed-{self._performed}"
        status: ActionStatus = "error"
        content: Any = None
        try:
            content = await self._perform(action, params)
            status = "success"
        except ServiceFault as fault:
            content = {"error": str(fault)}
            raise
        finally:
            took_ms = round((trial.clock.now() - began) * 1000.0, 3)
            trial.emit(
                ActionTaken(
                    at_ms=at_ms,
                    id=action_id,
                    name=action,
                    params=passed,
                    status=status,
                    duration_ms=took_ms,
                    witnessed=True,
                )
            )
            trial.emit(Observed(at_ms=trial.elapsed_ms(), action_id=action_id, name=action, content=bounded(content)))
        return content

    async def _perform(self, action: str, params: dict[str, Any]) -> Any:
        found = self._actions[action]
        context = ActionContext(trial=self._opened(), services=self, config=found.config)
        try:
            return await run_either(found.handler, params, context)
        except ServiceFault:
            raise
        except SteadyhandError as error:
            self._noted(error)
            raise
        except (Exception, SystemExit) as error:
            message = f"action {action!r} of plugin {found.plugin!r} raised {raised(error)}"
            raise self._noted(PluginError(message)) from error

    async def offered(self) -> Sequence[ServiceMethod]:
        trial = self._opened()
        methods: list[ServiceMethod] = []
        for name, provided in self._live.provided.items():
            if provided.tools:
                service = await self._live.get(name, trial)
                if isinstance(service, ToolServer):
                    methods += await service.tools()
                else:
                    methods += [real_method(name, method, call) for method, call in methods_of(service).items()]
        return methods if trial.live else self._with_mocked(methods)

    def _with_mocked(self, methods: list[ServiceMethod]) -> list[ServiceMethod]:
        """The real methods and the mocked ones. A mock's description of an MCP server's method replaces the
        server's."""
        trial = self._opened()
        mocks = trial.scenario.setup.mocks
        mocked = self._mocked()
        servers = [name for name in self._live.provided if isinstance(self._live.known(name), ToolServer)]
        with_service = {method for service, method in mocked if service is not None}
        with_service |= {method.method for method in methods if method.service in servers}
        offered = [described_by_mocks(each, mocks) if each.service in servers else each for each in methods]
        known = {(each.service, each.method) for each in methods}
        for service, method in mocked:
            if service in self._live.provided and (service not in servers or (service, method) in known):
                continue
            if service is not None or method not in with_service:
                offered.append(mocked_method(service, method, mocks))
        return offered

    def get_service(self, name: str) -> Any:
        return ServiceProxy(name, self.call)

    def register_mock(self, key: str, function: MockFunction) -> None:
        """Answer `service.method` with a function, which takes precedence over the scenario's mocks and earlier
        functions.

        Raises `PluginError` unless the key names a service and a method.
        """
        self._registered.register(key, function)

    async def call(self, service: str, method: str, args: list[Any], named: dict[str, Any]) -> Any:
        return (await self.answer(service, method, args, named)).value

    async def answer(self, service: str, method: str, args: list[Any], named: dict[str, Any]) -> ServiceAnswer:
        trial = self._opened()
        call = MockCall(service=service, method=method, args=args, input=named, context=dict(trial.variables))
        at_ms, began = trial.elapsed_ms(), trial.clock.now()
        mock: str | None = None
        result = ServiceAnswer(value=None)
        error: str | None = None
        passed_args: list[Any] = []
        passed_named: dict[str, Any] = {}
        try:
            passed_args, passed_named = plain(args), plain_object(named)
            answered = None if trial.live else await self._mocked_answer(call)
            if answered is not None:
                result, mock = ServiceAnswer(value=answered.value), str(answered.place)
            else:
                result = await self._real_answer(call)
        except ServiceFault as fault:
            error, mock = str(fault), str(fault.mock) if fault.mock else mock
            raise
        except UnreadableValue as unreadable:
            passed_args, error = [f"[{unreadable}]"], str(unreadable)
            raise AgentError(
                f"{call.name} was called with values that cannot be recorded: {unreadable}"
            ) from unreadable
        except asyncio.CancelledError:
            error = "interrupted before it answered"
            raise
        except Exception as failure:
            error = str(self._noted(failure))
            raise
        finally:
            trial.emit(
                ServiceCalled(
                    at_ms=at_ms,
                    service=service,
                    method=method,
                    args=passed_args,
                    input=passed_named,
                    mock=mock,
                    result=bounded(result.value),
                    error=error,
                    duration_ms=round((trial.clock.now() - began) * 1000.0, 3),
                )
            )
        return result

    async def broken(self) -> Exception | None:
        return self._broken or await self._mocks.settle() or await self._live.settle()

    async def close(self) -> None:
        await self._live.stop()

    def _opened(self) -> TrialContext:
        assert self._trial is not None, "used before open"
        return self._trial

    def _noted(self, failure: Exception) -> Exception:
        self._broken = self._broken or failure
        return failure

    async def _mocked_answer(self, call: MockCall) -> MockAnswer | None:
        return await self._registered.answer(call) or await self._mocks.answer(call)

    async def _real_answer(self, call: MockCall) -> ServiceAnswer:
        provided = self._live.provided.get(call.service)
        if provided is None:
            raise ServiceFault(self._nobody(call), code="SERVICE_NOT_FOUND")
        service = await self._live.get(call.service, self._opened())
        if isinstance(service, ToolServer):
            return await service.call_tool(call.method, call.args, call.input)
        methods = methods_of(service)
        function = methods.get(call.method)
        if function is None:
            known = ", ".join(methods) or "none"
            message = f"the service {call.service!r} has no method {call.method!r} (it has: {known})"
            raise ServiceFault(message, code="METHOD_NOT_FOUND")
        if (misfit := _misfit(function, call)) is not None:
            raise ServiceFault(f"{call.name} cannot be called like this: {misfit}", code="BAD_ARGUMENTS")
        try:
            return ServiceAnswer(value=await run_either(function, *call.args, **call.input))
        except (ServiceFault, SteadyhandError):
            raise
        except (Exception, SystemExit) as error:
            message = f"{call.service}.{call.method} of plugin {provided.plugin!r} raised {raised(error)}"
            raise PluginError(message) from error

    def _mocked(self) -> list[tuple[str | None, str]]:
        """Every mocked method once: those of the scenario, then registered ones."""
        return list(dict.fromkeys([*self._mocks.methods(), *self._registered.methods()]))

    def _nobody(self, call: MockCall) -> str:
        what = call.name if call.service else call.method
        if self._opened().live:
            return (
                f"cannot call {what}: no plugin provides the service {call.service!r}, and mocks are off in live mode"
            )
        mocked = ", ".join(f"{service}.{method}" if service else method for service, method in self._mocked())
        why = "no mock matches these arguments" if self._mocks.covers(call.service, call.method) else "it is not mocked"
        return (
            f"cannot call {what}: {why}, and no plugin provides the service {call.service!r} "
            f"(mocked here: {mocked or 'nothing'})"
        )


def _misfit(function: Callable[..., Any], call: MockCall) -> str | None:
    """Why the method cannot be called with these arguments, or None. That is the caller's mistake, not the plugin's."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*call.args, **call.input)
    except TypeError as error:
        return str(error)
    return None


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
