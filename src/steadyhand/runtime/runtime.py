"""The services and actions of a trial, with the mocks in front of them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

from steadyhand.errors import AgentError, PluginError, SteadyhandError
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
from steadyhand.records.base import UnreadableValue, counted, plain, plain_object
from steadyhand.records.deed_name import OfferedTool
from steadyhand.records.event import ActionStatus, ActionTaken, Noted, Observed, ServiceCalled, ToolsOffered
from steadyhand.runtime.mocks import MockAnswer, MockCall, MockRegistry, MockSource, NoMocks
from steadyhand.runtime.services import LiveServices, described_by_mocks, methods_of, mocked_method, real_method
from steadyhand.runtime.values import bounded, run_either
from steadyhand.user_file import raised

Call = Callable[[str, str, list[Any], dict[str, Any]], Awaitable[Any]]


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
        ignored. What can be called is recorded."""
        self._trial = trial
        ignored = len(trial.scenario.setup.mocks)
        if trial.live and ignored:
            message = f"live: {counted(ignored, 'mock')} of the scenario ignored"
            trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message))
        await self._live.start_at_once(trial)
        if not trial.shows.acts:
            return
        tools = [*self._tools()]
        if trial.shows.served_only:  # all that is seen of such an agent, so it has to be known one by one
            methods = await self.offered()
            tools += [OfferedTool(name=each.method, service=each.service, method=each.method) for each in methods]
        trial.emit(ToolsOffered(at_ms=trial.elapsed_ms(), tools=tuple(tools)))

    def _tools(self) -> Iterator[OfferedTool]:
        """Actions, mocked methods, and real services, whose methods are not known until they are built."""
        yield from (OfferedTool(name=name) for name in self._actions)
        if not self._opened().live:
            yield from (OfferedTool(service=service or "", method=method) for service, method in self._mocked())
        yield from (OfferedTool(service=name) for name in self._live.provided)

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
        status: ActionStatus = "error" if action in self._actions else "rejected"
        content: Any = None
        try:
            content = await self._perform(action, params)
            status = "success"
        except ServiceFault as fault:
            content = {"error": str(fault)}
            raise
        except asyncio.CancelledError:
            status = "interrupted"
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
        found = self._actions.get(action)
        if found is None:
            known = ", ".join(self._actions) or "none"
            raise ServiceFault(f"there is no action {action!r} (actions: {known})", code="ACTION_NOT_FOUND")
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
        service, _, method = key.rpartition(".")
        if (trial := self._trial) is not None:
            trial.emit(ToolsOffered(at_ms=trial.elapsed_ms(), tools=(OfferedTool(service=service, method=method),)))

    async def call(self, service: str, method: str, args: list[Any], named: dict[str, Any]) -> Any:
        return (await self.answer(service, method, args, named)).value

    async def answer(
        self, service: str, method: str, args: list[Any], named: dict[str, Any], *, action_id: str | None = None
    ) -> ServiceAnswer:
        trial = self._opened()
        call = MockCall(service=service, method=method, args=args, input=named, context=dict(trial.variables))
        at_ms, began = trial.elapsed_ms(), trial.clock.now()
        mock: str | None = None
        result = ServiceAnswer(value=None)
        error: str | None = None
        status: ActionStatus = "error"
        passed_args: list[Any] = []
        passed_named: dict[str, Any] = {}
        try:
            passed_args, passed_named = plain(args), plain_object(named)
            answered = None if trial.live else await self._mocked_answer(call)
            if answered is not None:
                result, mock = ServiceAnswer(value=answered.value), str(answered.place)
            else:
                result = await self._real_answer(call)
            status = "success"
        except ServiceFault as fault:
            error, mock, status = str(fault), str(fault.mock) if fault.mock else mock, fault.outcome
            raise
        except UnreadableValue as unreadable:
            passed_args, error, status = [f"[{unreadable}]"], str(unreadable), "invalid"
            raise AgentError(
                f"{call.name} was called with values that cannot be recorded: {unreadable}"
            ) from unreadable
        except asyncio.CancelledError:
            error, status = "interrupted before it answered", "interrupted"
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
                    action_id=action_id,
                    status=None if status in ("success", "error") else status,
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
            offered = not self._opened().live and self._mocks.covers(call.service, call.method)
            outcome: ActionStatus = "error" if offered else "rejected"
            raise ServiceFault(self._nobody(call), code="SERVICE_NOT_FOUND", outcome=outcome)
        service = await self._live.get(call.service, self._opened())
        if isinstance(service, ToolServer):
            return await service.call_tool(call.method, call.args, call.input)
        methods = methods_of(service)
        function = methods.get(call.method)
        if function is None:
            known = ", ".join(methods) or "none"
            message = f"the service {call.service!r} has no method {call.method!r} (it has: {known})"
            raise ServiceFault(message, code="METHOD_NOT_FOUND", outcome="rejected")
        if (misfit := _misfit(function, call)) is not None:
            message = f"{call.name} cannot be called like this: {misfit}"
            raise ServiceFault(message, code="BAD_ARGUMENTS", outcome="invalid")
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
