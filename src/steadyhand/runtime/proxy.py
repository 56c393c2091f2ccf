"""A service as its callers hold it: every attribute is a method, every method a coroutine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Call = Callable[[str, str, list[Any], dict[str, Any]], Awaitable[Any]]


class ServiceProxy:
    """Stands for a service that may be mocked, real, or not there at all; which of them is settled at each call."""

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
