"""A call as the mocks see it, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from steadyhand.records.base import Record
from steadyhand.records.location import Place


class MockCall(Record):
    """One call of a service's method: positional `args`, named parameters as `input`, and the trial's `context`.

    One object is the same whether it is passed as the named parameters or as the only argument: agents differ in this,
    and a mock must not have to know.
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


class MockAnswer(Record):
    """What a mock gave, and which mock it was."""

    value: Any
    place: Place
