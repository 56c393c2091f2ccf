"""Services as the parts of a trial see them: called by name, mocked or real, every call an event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from steadyhand.ports.action import Action
from steadyhand.ports.agent import TrialContext
from steadyhand.records.base import Record
from steadyhand.records.location import Place

MockFunction = Callable[..., Any | Awaitable[Any]]


class ServiceFault(Exception):
    """A service answered with an error, real or simulated. It is the agent's to deal with, never a trial error.

    `mock` is the mock that simulated it, None when it is real.
    """

    def __init__(
        self, message: str, *, code: str | None = None, status: int | None = None, mock: Place | None = None
    ) -> None:
        super().__init__(message)
        self.code: str | None = code
        self.status: int | None = status
        self.mock: Place | None = mock


class ProvidedService(Record):
    """A service that somebody provides: `build` makes it, anew for each trial, when it is first called.

    With `tools`, its public methods are offered to the built-in agent.
    """

    build: Callable[[], Any]
    plugin: str
    tools: bool = False


class ServiceMethod(Record):
    """A service's method that an agent may call directly. `service` is empty for a mock that covers every service."""

    service: str
    method: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Services(Protocol):
    """One per trial; opened in the set-up phase and closed in tear-down."""

    async def open(self, trial: TrialContext) -> None: ...

    @property
    def actions(self) -> Mapping[str, Action]:
        """The plugins' actions, by name."""
        ...

    async def perform(self, action: str, params: dict[str, Any], *, recorded: bool = False) -> Any:
        """Run an action. `params` already fit its schema. It is an event, unless the caller has it `recorded` itself.

        Raises `ServiceFault`, or the `TrialError` it ended in.
        """
        ...

    async def offered(self) -> Sequence[ServiceMethod]:
        """The methods an agent may call without an action: mocked ones that nobody provides, and those of services
        whose plugin says so."""
        ...

    def get_service(self, name: str) -> Any:
        """An object whose methods are the service's, as coroutines. A name that nobody provides still answers: each
        call is matched against the mocks, and what none matches raises `ServiceFault`."""
        ...

    def register_mock(self, key: str, function: MockFunction) -> None:
        """Answer calls of `service.method` with the function."""
        ...

    async def call(self, service: str, method: str, args: list[Any], named: dict[str, Any]) -> Any:
        """Call a method: mocks first, then the real service. Raises `ServiceFault`, `MockError` or `PluginError`."""
        ...

    async def broken(self) -> Exception | None:
        """The first failure of a mock or plugin in this trial, also one that its caller caught.

        It is an error of the trial; a `ServiceFault` is not. Waits for a mock's JavaScript that its caller gave up on.
        """
        ...

    async def close(self) -> None: ...
