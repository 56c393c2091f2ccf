"""Running an author's JavaScript, without giving it anything but its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class ScriptSandbox(Protocol):
    """No I/O, no access to Python, bounded time and memory. Values go in and out as JSON."""

    async def evaluate(
        self, expression: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        """The value of an expression over the variables, which it can read but not change.

        `seed` makes `Math.random` repeatable, `now_ms` stops the clock at that moment. Raises `MockError` when it
        throws or exceeds a limit.
        """
        ...

    async def call(
        self, function: str, variables: Mapping[str, Any], *, seed: int | None = None, now_ms: int | None = None
    ) -> Any:
        """The result of a function called with the variables' values, in their order. Raises `MockError`."""
        ...

    def check(self, source: str) -> str | None:
        """What is wrong with the source's syntax, or None."""
        ...
