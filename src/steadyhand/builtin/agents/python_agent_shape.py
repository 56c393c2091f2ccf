"""What kind of thing was named: a function, a coroutine function, an async generator, or a class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from steadyhand.builtin.agents.python_agent_offer import OF_A_TURN, OF_THE_TRIAL, Wanted, wanted_by
from steadyhand.errors import SetupError


class Callee(msgspec.Struct, frozen=True, kw_only=True):
    """Something of the agent's to be called. `on_loop` is whether its code runs on the event loop."""

    wanted: Wanted
    on_loop: bool
    streams: bool = False


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How to use what was named. `made` is how a class is instantiated, None when it is not a class."""

    respond: Callee
    made: Wanted | None = None
    open: Callee | None = None
    close: Callee | None = None

    @property
    def wants_workspace(self) -> bool:
        callees = (self.respond, self.open, self.close)
        asked = [callee.wanted for callee in callees if callee is not None] + ([self.made] if self.made else [])
        return any("workspace" in wanted.names for wanted in asked)


def shape_of(found: Any, where: str) -> Shape:
    """Raises `SetupError` for something that cannot be an agent, or asks for what is not offered."""
    if inspect.isclass(found):
        return _class_shape(found, where)
    if not callable(found):
        if hasattr(found, "respond"):
            raise SetupError(f"{where} is one object for all trials; name its class, so that each trial has its own")
        raise SetupError(f"{where} is a {type(found).__name__}; expected a function, or a class with `respond`")
    return Shape(respond=_callee(found, OF_A_TURN, where))


def _class_shape(found: type[Any], where: str) -> Shape:
    if not callable(getattr(found, "respond", None)):
        raise SetupError(f"{where} is a class without a method `respond`")

    def method(name: str, offered: tuple[str, ...]) -> Callee | None:
        function = getattr(found, name, None)
        if function is None:
            return None
        bound = inspect.isfunction(inspect.getattr_static(found, name))
        return _callee(function, offered, f"{where}.{name}", bound=bound)

    respond = method("respond", OF_A_TURN)
    assert respond is not None
    return Shape(
        respond=respond,
        made=wanted_by(found, offered=OF_THE_TRIAL, where=where),
        open=method("open", OF_THE_TRIAL),
        close=method("close", OF_THE_TRIAL),
    )


def _callee(function: Callable[..., Any], offered: tuple[str, ...], where: str, *, bound: bool = False) -> Callee:
    code = function if inspect.isroutine(function) or hasattr(function, "func") else type(function).__call__
    if inspect.isgeneratorfunction(code):
        raise SetupError(f"{where} is a plain generator; to say a reply piece by piece, make it `async def`")
    streams = inspect.isasyncgenfunction(code)
    return Callee(
        wanted=wanted_by(function, offered=offered, where=where, bound=bound),
        on_loop=streams or inspect.iscoroutinefunction(code),
        streams=streams,
    )
