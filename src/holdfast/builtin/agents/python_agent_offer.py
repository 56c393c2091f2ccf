"""What a Python agent can ask for, by the names of its parameters."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from holdfast.builtin.agents.latest import latest_user_text
from holdfast.builtin.agents.python_agent_bridge import Bridge, Done
from holdfast.builtin.agents.reporting import TrajectoryReporter
from holdfast.errors import SetupError
from holdfast.ports.agent import TrialContext, Turn
from holdfast.records.event import AnyEvent
from holdfast.records.trajectory import ActionStatus

OF_THE_TRIAL = (
    "action", "emit", "environment", "get_service", "seed", "services", "thought", "trial", "workspace",
)  # fmt: skip
OF_A_TURN = ("message", "input", "text", "messages", "turn", "deadline", "remaining", *OF_THE_TRIAL)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The offered parameters that a function has, by how they are passed."""

    positional: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.positional, *self.named)


def wanted_by(function: Callable[..., Any], *, offered: tuple[str, ...], where: str, bound: bool = False) -> Wanted:
    """Raises `SetupError` for a parameter that must be given and is not offered.

    `bound` says that the first parameter is `self` and will be there.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    except (TypeError, ValueError) as error:
        raise SetupError(f"{where}: its parameters cannot be read: {error}") from error
    positional: list[str] = []
    named: list[str] = []
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name in offered:
            (positional if parameter.kind is parameter.POSITIONAL_ONLY else named).append(parameter.name)
        elif parameter.default is parameter.empty:
            raise SetupError(
                f"{where}: nothing is offered under the name of its parameter {parameter.name!r}; "
                f"offered are: {', '.join(offered)}"
            )
    return Wanted(positional=tuple(positional), named=tuple(named))


class Offer:
    """The values for one call of the agent. In a thread, what would be awaited is called plainly instead."""

    def __init__(
        self,
        trial: TrialContext,
        reporter: TrajectoryReporter,
        *,
        workspace: Path | None,
        turn: Turn | None = None,
        in_thread: bool = False,
    ) -> None:
        self._trial = trial
        self._reporter = reporter
        self._workspace = workspace
        self._turn = turn
        self._in_thread = in_thread
        self._bridge = Bridge(asyncio.get_running_loop())
        self._ended = False

    def bind(self, function: Callable[..., Any], wanted: Wanted) -> Callable[[], Any]:
        """The function with its arguments, ready to be called."""
        positional = [self._value(name) for name in wanted.positional]
        named = {name: self._value(name) for name in wanted.named}
        return lambda: function(*positional, **named)

    def end(self) -> None:
        """What the agent still reports is dropped: it would count for another turn."""
        self._ended = True
        self._bridge.end()

    def _value(self, name: str) -> Any:
        if name not in OF_THE_TRIAL:
            assert self._turn is not None, f"{name} is not offered outside a turn"
            return self._of_turn(name, self._turn)
        if name in ("action", "thought", "emit", "get_service"):
            return getattr(self, name)
        if name == "workspace":
            return self._workspace
        if name == "seed":
            return self._trial.seed
        found = self._trial if name == "trial" else getattr(self._trial, name)
        return self._bridge.blocking(found) if self._in_thread else found

    def _of_turn(self, name: str, turn: Turn) -> Any:
        match name:
            case "turn":
                return turn
            case "messages":
                return list(turn.messages)
            case "deadline":
                return turn.deadline
            case "remaining":
                return math.inf if turn.deadline is None else max(0.0, turn.deadline - self._trial.clock.now())
            case _:
                return latest_user_text(turn)

    def action(
        self,
        name: str,
        params: dict[str, Any] | None = None,
        result: Any = None,
        *,
        status: ActionStatus = "success",
        duration_ms: float = 0.0,
    ) -> Done:
        """Report an action that has just ended, and what came back from it."""
        if not isinstance(name, str) or not isinstance(params or {}, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - called by untyped code
            raise TypeError("action(name, params, result): the name is a text and the parameters are a dict")
        if status not in ("success", "error"):
            raise ValueError(f"the status of an action is 'success' or 'error', not {status!r}")

        def report() -> None:
            self._reporter.action(name, params or {}, status=status, duration_ms=duration_ms)
            self._reporter.observation(name, result)

        self._post(report)
        return Done()

    def thought(self, text: str) -> Done:
        self._post(lambda: self._reporter.thought(str(text)))
        return Done()

    def emit(self, event: AnyEvent) -> None:
        self._post(lambda: self._trial.emit(event))

    def get_service(self, name: str) -> Any:
        services = self._trial.services
        if services is None:
            raise RuntimeError(f"this trial has no services, so there is no {name!r}: the scenario sets no mocks")
        service = services.get_service(name)
        return self._bridge.blocking(service) if self._in_thread else service

    def _post(self, function: Callable[[], None]) -> None:
        if self._in_thread:
            self._bridge.post(function)
        elif not self._ended:
            function()
