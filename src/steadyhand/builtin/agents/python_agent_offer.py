"""What a Python agent can ask for, by the names of its parameters."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, cast

import msgspec

from steadyhand.builtin.agents.latest import latest_user_text
from steadyhand.builtin.agents.python_agent_bridge import Bridge, Done
from steadyhand.builtin.agents.trajectory import TrajectoryReporter
from steadyhand.errors import AgentError, SetupError
from steadyhand.ports.agent import TrialContext, Turn
from steadyhand.records.event import ActionStatus, AnyEvent, Event
from steadyhand.runtime.values import plain, plain_object

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
        """What the agent still reports is not counted, since it would count for another turn; the trial notes it."""
        self._ended = True
        self._bridge.end()

    def check(self) -> None:
        """Raises `AgentError` when the agent reported something that cannot be read, also if its code went on: what it
        did is not known then."""
        if self._bridge.faults:
            fault = self._bridge.faults[0]
            self._bridge.faults.clear()
            raise AgentError(f"it reported what cannot be read: {fault}") from fault

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
        """Report an action that has just ended, and what came back from it. Raises `TypeError` or `ValueError` for
        what is not one."""
        with self._kept():
            given = _checked_action(name, params, status, duration_ms)
            came_back = plain(result)

        def report() -> None:
            self._reporter.action(name, given, status=status, duration_ms=duration_ms)
            self._reporter.observation(name, came_back)

        self._post(report, f"the action {name!r}")
        return Done()

    def thought(self, text: str) -> Done:
        with self._kept():
            said = str(text)
        self._post(lambda: self._reporter.thought(said), "a thought")
        return Done()

    def emit(self, event: AnyEvent) -> None:
        """Raises `TypeError` or `ValueError` for what is not an event, or does not hold what such an event holds."""
        with self._kept():
            checked = _checked_event(event)
        self._post(lambda: self._trial.emit(checked), f"an event ({type(event).__name__})")

    def get_service(self, name: str) -> Any:
        services = self._trial.services
        if services is None:
            raise RuntimeError(f"this trial has no services, so there is no {name!r}: the scenario sets no mocks")
        service = services.get_service(name)
        return self._bridge.blocking(service) if self._in_thread else service

    @contextlib.contextmanager
    def _kept(self) -> Generator[None]:
        """What is wrong with a report is kept: the agent may catch it and go on as if nothing had been done."""
        try:
            yield
        except Exception as error:
            self._bridge.faults.append(error)
            raise

    def _post(self, function: Callable[[], None], what: str) -> None:
        def late() -> None:
            self._reporter.note(f"the agent reported {what} after its turn, so it does not count", level="warning")

        if self._in_thread:
            self._bridge.post(function, late=late)
        elif self._ended:
            late()
        else:
            function()


def _checked_action(name: object, params: object, status: object, duration_ms: object) -> dict[str, Any]:
    """The parameters, as they are recorded. The agent's code is not typed, so nothing is taken for granted."""
    if not isinstance(name, str) or not isinstance(params, dict | None):
        raise TypeError("action(name, params, result): the name is a text and the parameters are a dict")
    if status not in ("success", "error"):
        raise ValueError(f"the status of an action is 'success' or 'error', not {status!r}")
    if isinstance(duration_ms, bool) or not isinstance(duration_ms, int | float) or not 0 <= duration_ms < math.inf:
        raise TypeError(f"the duration_ms of an action is a number of milliseconds, not {duration_ms!r}")
    return plain_object(cast("dict[str, Any]", params) or {})


def _checked_event(event: object) -> AnyEvent:
    if not isinstance(event, Event):
        raise TypeError(f"emit takes an event of steadyhand.records.event, not a {type(event).__name__}")
    copy = msgspec.to_builtins(event, str_keys=True, enc_hook=str)
    return cast("AnyEvent", msgspec.convert(copy, type(event)))
