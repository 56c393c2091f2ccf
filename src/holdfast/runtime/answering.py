"""What the runtime asks of the mocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from holdfast.records.base import Record
from holdfast.records.place import Place


class ServiceCall(Record):
    """A call as the mocks match it: `args` positional, `input` named, `context` the trial's variables.

    One object is the same whether it is passed as the named parameters or as the only argument: agents differ in
    this, and a mock must not have to know.
    """

    service: str
    method: str
    args: list[Any] = []
    input: dict[str, Any] = {}
    context: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return f"{self.service}.{self.method}"

    @property
    def named(self) -> Mapping[str, Any]:
        """The named parameters, or the only argument if that is an object."""
        if not self.input and len(self.args) == 1 and isinstance(self.args[0], Mapping):
            return cast("Mapping[str, Any]", self.args[0])
        return self.input

    @property
    def positional(self) -> list[Any]:
        """The arguments, or the named parameters as the only one."""
        return [self.input] if self.input and not self.args else self.args


class Answer(Protocol):
    """What a mock answered, and where it stands."""

    @property
    def value(self) -> Any: ...

    @property
    def place(self) -> Place: ...


class MockSource(Protocol):
    """The scenario's mocks. `answer` is handed a `ServiceCall`."""

    async def answer(self, call: Any) -> Answer | None:
        """The answer of the mock that matches best, or None. Raises `ServiceFault` for a simulated error and
        `MockError` when a mock's JavaScript fails."""
        ...

    def methods(self) -> Sequence[tuple[str | None, str]]:
        """The mocked methods as (service, method); no service means every service."""
        ...

    def covers(self, service: str, method: str) -> bool:
        """Whether any mock may answer this method."""
        ...


class NoMocks:
    async def answer(self, call: Any) -> Answer | None:
        return None

    def methods(self) -> Sequence[tuple[str | None, str]]:
        return ()

    def covers(self, service: str, method: str) -> bool:
        return False
