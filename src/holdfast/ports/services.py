"""Services as the parts of a trial see them: called by name, mocked or real, every call an event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from holdfast.ports.agent import TrialContext
from holdfast.records.place import Place

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


class Services(Protocol):
    """One per trial; opened in the set-up phase and closed in tear-down."""

    async def open(self, trial: TrialContext) -> None: ...

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

    async def close(self) -> None: ...
