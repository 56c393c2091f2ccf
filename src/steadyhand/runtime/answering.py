"""What the runtime asks of the mocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from steadyhand.errors import MockError
from steadyhand.runtime.mock_call import MockAnswer, MockCall


class MockSource(Protocol):
    """The scenario's mocks."""

    async def answer(self, call: MockCall) -> MockAnswer | None:
        """The answer of the mock that matches best, or None. Raises `ServiceFault` for a simulated error and
        `MockError` when a mock's JavaScript fails."""
        ...

    def methods(self) -> Sequence[tuple[str | None, str]]:
        """The mocked methods as (service, method); no service means every service."""
        ...

    def covers(self, service: str, method: str) -> bool:
        """Whether any mock may answer this method."""
        ...

    async def settle(self) -> MockError | None:
        """Wait for JavaScript whose caller gave up on it. The first failure among it, or None."""
        ...


class NoMocks:
    async def answer(self, call: MockCall) -> MockAnswer | None:
        return None

    def methods(self) -> Sequence[tuple[str | None, str]]:
        return ()

    def covers(self, service: str, method: str) -> bool:
        return False

    async def settle(self) -> MockError | None:
        return None
