"""What an agent acts through: the services, actions and mocks of its trial."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from steadyhand.ports.agent import TrialContext
from steadyhand.ports.environment import TrialDatabase
from steadyhand.records.base import Record
from steadyhand.records.event import ActionStatus
from steadyhand.records.location import Place


class ActionContext:
    """What an action may use: the trial it runs in, its services, and its plugin's `config`."""

    def __init__(self, *, trial: TrialContext, services: Services, config: Mapping[str, Any]) -> None:
        self.trial: TrialContext = trial
        self.config: Mapping[str, Any] = config
        self._services: Services = services

    def get_service(self, name: str) -> Any:
        """An object with the service's methods as coroutines. Every call, mocked or real, is an event."""
        return self._services.get_service(name)


ActionHandler = Callable[[dict[str, Any], ActionContext], Any | Awaitable[Any]]


class Action(Record):
    """An action that agents can run. `parameters` is a JSON Schema of an object, empty for any object; arguments are
    checked against it before `handler` runs.

    The handler is a coroutine function or a plain function (run in a thread), and returns a value that JSON can hold.
    To refuse, it raises `ServiceFault`, which is shown to the agent; any other exception is the plugin's fault and ends
    the trial as an error. The registry fills in `plugin` and `config`.
    """

    name: str
    handler: ActionHandler
    description: str = ""
    parameters: dict[str, Any] = {}
    plugin: str = ""
    config: Mapping[str, Any] = {}


MockFunction = Callable[..., Any | Awaitable[Any]]


class ServiceFault(Exception):
    """A service answered with an error, real or simulated. The agent has to handle it; it is never an error of the
    trial.

    `mock` is the mock that simulated it, or None. `outcome` is how the call counts, other than `error` if it never
    reached a method of the service.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        mock: Place | None = None,
        outcome: ActionStatus = "error",
    ) -> None:
        super().__init__(message)
        self.code: str | None = code
        self.status: int | None = status
        self.mock: Place | None = mock
        self.outcome: ActionStatus = outcome


class ProvidedService(Record):
    """A service from a plugin. `build` creates it for each trial, when it is first called.

    With `tools`, its public methods are offered to the built-in agent. A service with `at_once` is started before the
    agent, so that its start is not part of the agent's time.
    """

    build: Callable[[], Any]
    plugin: str
    tools: bool = False
    at_once: bool = False


class ServiceMethod(Record):
    """A service's method that an agent may call directly. `service` is empty for a mock that covers every service."""

    service: str
    method: str
    description: str = ""
    parameters: dict[str, Any] = {}


class ServiceAnswer(Record):
    """What a service's method returned. An MCP server's own `content`, and its structured content, are kept next to the
    `value`, for an agent that speaks MCP."""

    value: Any
    content: tuple[dict[str, Any], ...] | None = None
    structured: dict[str, Any] | None = None


@runtime_checkable
class ToolServer(Protocol):
    """A service that lists its own methods, such as an MCP server. Others have Python methods."""

    async def tools(self) -> Sequence[ServiceMethod]:
        """Raises `ServiceError`."""
        ...

    async def call_tool(self, method: str, args: list[Any], named: dict[str, Any]) -> ServiceAnswer:
        """Raises `ServiceFault` if the service answers with an error, and `ServiceError` if it fails to answer."""
        ...

    async def settle(self) -> Exception | None:
        """Wait, for a limited time, for abandoned calls. Returns the first failure of the service, or None."""
        ...


class Services(Protocol):
    """The services and actions of one trial; opened in set-up and closed in tear-down."""

    async def open(self, trial: TrialContext) -> None: ...

    @property
    def actions(self) -> Mapping[str, Action]:
        """The plugins' actions, by name."""
        ...

    async def perform(self, action: str, params: dict[str, Any], *, recorded: bool = False) -> Any:
        """Run an action with `params` that match its schema. Emits an event, unless the caller `recorded` it.

        Raises `ServiceFault` or `TrialError`.
        """
        ...

    async def offered(self) -> Sequence[ServiceMethod]:
        """The methods that an agent may call without an action: mocked ones without a real service, and those of
        services that their plugin offers as tools."""
        ...

    def get_service(self, name: str) -> Any:
        """An object with the service's methods as coroutines. It exists even for an unknown name: each call is matched
        against the mocks, and raises `ServiceFault` if none matches."""
        ...

    def register_mock(self, key: str, function: MockFunction) -> None:
        """Answer calls of `service.method` with the function."""
        ...

    async def call(self, service: str, method: str, args: list[Any], named: dict[str, Any]) -> Any:
        """Call a method: mocks first, then the real service. Raises `ServiceFault`, `MockError`, `ServiceError` or
        `PluginError`."""
        ...

    async def answer(
        self, service: str, method: str, args: list[Any], named: dict[str, Any], *, action_id: str | None = None
    ) -> ServiceAnswer:
        """The same, with an MCP server's own content next to the value. `action_id` is the action that consists in this
        call, if there is one, so that the two count as one."""
        ...

    async def broken(self) -> Exception | None:
        """The first failure of a mock or plugin in this trial, even if the caller caught it.

        It is an error of the trial; a `ServiceFault` is not. Waits for a mock's JavaScript whose caller was cancelled.
        """
        ...

    async def close(self) -> None: ...


class OfferedDatabase(TrialDatabase, Protocol):
    """A trial's database that is also offered to the agent as a service."""

    def service(self) -> ProvidedService: ...


class ScriptSandbox(Protocol):
    """Runs JavaScript without I/O or access to Python, within limits of time and memory. Values are passed as JSON."""

    async def evaluate(
        self, expression: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        """The value of an expression over read-only variables.

        `seed` makes `Math.random` repeatable, `now_ms` freezes the clock. Raises `MockError` if it throws or exceeds a
        limit.
        """
        ...

    async def call(
        self, function: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        """The result of a function called with the variables' values, in their order. Raises `MockError`."""
        ...

    def check(self, source: str) -> str | None:
        """The syntax error in the source, or None."""
        ...

    def close(self) -> None: ...
