"""Calling the user's code: a plain function in a thread, a coroutine on the event loop under guard."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import inspect
import math
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, cast, get_args

import msgspec

from steadyhand.builtin.agents.trajectory import TrajectoryReporter, latest_user_text
from steadyhand.errors import AgentError, SetupError
from steadyhand.ports.agent import TrialContext, Turn
from steadyhand.records.base import plain, plain_fields, plain_object
from steadyhand.records.event import ActionStatus, AnyEvent, Event, Visible, told_by_agent

_STATUSES: tuple[ActionStatus, ...] = get_args(ActionStatus)

BLOCK_LIMIT_S = 5.0


class FunctionThread:
    """Runs a plain function in its own daemon thread, so that one that never returns blocks neither the trial nor the
    exit.

    The threads of a pool are joined when the program ends.
    """

    def __init__(self, call: Callable[[], Any], name: str) -> None:
        self._call = call
        self._name = name
        self._thread: threading.Thread | None = None

    async def run(self) -> Any:
        """What the function returns. Raises what it raises. On cancellation the thread keeps running."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def settle(outcome: tuple[Any, BaseException | None]) -> None:
            if not done.done():
                done.set_result(outcome)

        def work() -> None:
            try:
                outcome = (context.run(self._call), None)
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                outcome = (None, error)
            with contextlib.suppress(RuntimeError):  # the run is over, its loop closed
                loop.call_soon_threadsafe(settle, outcome)

        self._thread = threading.Thread(target=work, name=self._name, daemon=True)
        self._thread.start()
        value, error = await done
        if error is not None:
            raise error
        return value

    def place(self, file: Path | None) -> str | None:
        """The `file:line` being executed, in the agent's own file if that is on the stack; None if the thread has
        ended."""
        thread = self._thread
        if thread is None or thread.ident is None or not thread.is_alive():
            return None
        frame = sys._current_frames().get(thread.ident)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented, and the only way to another thread's stack
        return None if frame is None else place_of(frame, file)


def place_of(frame: FrameType, file: Path | None) -> str:
    """The `file:line` of the innermost frame in `file`, or of the innermost frame."""
    look: FrameType | None = frame
    while look is not None:
        if file is not None and look.f_code.co_filename == str(file):
            return f"{file}:{look.f_lineno}"
        look = look.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class _Blocked(BaseException):
    """Raised by the alarm inside code that blocks the loop. Not an `Exception`, so that it is not swallowed."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place: str = place


class Guarded:
    """Awaits a coroutine, and stops it if it blocks the event loop for longer than `limit_s`.

    Each stretch between two awaits runs under a system alarm, which interrupts even `time.sleep` or a blocking read. It
    works on the main thread only, and does not cover tasks that the coroutine starts.
    """

    def __init__(self, work: Awaitable[Any], *, limit_s: float, file: Path | None) -> None:
        self._work = work
        self._limit_s = limit_s
        self._file = file
        self._armed = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._work.__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                with self._alarm():
                    waits_for = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            except _Blocked as blocked:
                raise AgentError(
                    f"it blocked the event loop for {self._limit_s:g} s, at {blocked.place}; await what takes time, or "
                    "make it a plain function, which runs in its own thread"
                ) from None
            try:
                value, error = (yield waits_for), None
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as thrown:  # noqa: BLE001 - passed on into the coroutine, cancellation included
                value, error = None, thrown

    @contextlib.contextmanager
    def _alarm(self) -> Generator[None]:
        on_main = threading.current_thread() is threading.main_thread()
        if not on_main or not hasattr(signal, "setitimer") or signal.getitimer(signal.ITIMER_REAL)[0]:
            yield
            return
        before = signal.signal(signal.SIGALRM, self._ring)
        try:
            signal.setitimer(signal.ITIMER_REAL, self._limit_s, self._limit_s)
            self._armed = True
            try:
                yield
            finally:
                self._armed = False
        finally:  # an alarm that fires on the way out is caught here, before it is switched off
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self._armed:
            raise _Blocked("an unknown place" if frame is None else place_of(frame, self._file))


class AlreadyDone:
    """Already done; lets a helper be called with and without `await`."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield  # makes this a generator, as `await` requires


class Bridge:
    """Forwards calls from a thread to the event loop until the turn is over, and then refuses them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: asyncio.AbstractEventLoop = loop
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._home: int = threading.get_ident()
        self._open: bool = True
        self.faults: list[Exception] = []

    def post(self, function: Callable[[], None], *, late: Callable[[], None] | None = None) -> None:
        """Call the function on the loop, soon and in order; after the end of the turn, call `late` instead.

        What is posted before the end counts. Exceptions are kept in `faults`.
        """
        wanted = function if self._open else late
        if wanted is None:
            return

        def call() -> None:
            try:
                wanted()
            except Exception as error:  # noqa: BLE001 - raised by `CallArguments.check`
                self.faults.append(error)

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the run is over and its loop closed, but the thread is still running
            self._open = False

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop and wait for its result. Raises what it raises."""
        if threading.get_ident() == self._home or not self._open:
            work.close()
            raise RuntimeError("the turn is over" if not self._open else "this blocks; make the agent an `async def`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._waiting.add(future)
        try:
            return future.result()
        finally:
            self._waiting.discard(future)

    def end(self) -> None:
        """End the turn, and cancel the calls that are still waiting."""
        self._open = False
        for future in list(self._waiting):
            future.cancel()

    def blocking(self, target: Any) -> Any:
        return None if target is None else _Blocking(target, self)


class _Blocking:
    """A proxy for an object whose coroutine methods become blocking ones."""

    def __init__(self, target: Any, bridge: Bridge) -> None:
        self._target = target
        self._bridge = bridge

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(self._target, name)
        bridge = self._bridge
        if inspect.iscoroutinefunction(found):
            return lambda *args, **named: bridge.wait(found(*args, **named))  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType] - passes on whatever it gets
        if name == "get_service":
            return lambda service: bridge.blocking(found(service))  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType] - likewise
        if name == "emit":
            return lambda event: bridge.post(lambda: found(event))  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType] - likewise
        return bridge.blocking(found) if name in ("services", "environment") else found


OF_THE_TRIAL = (
    "action", "emit", "environment", "get_service", "mcp_url", "mocks_url", "seed", "services", "thought", "trial",
    "workspace",
)  # fmt: skip
REACHES: Mapping[str, frozenset[Visible]] = {
    "action": frozenset({"actions"}),
    "emit": frozenset({"actions"}),
    "environment": frozenset({"files", "database"}),
    "get_service": frozenset({"services", "database"}),
    "mcp_url": frozenset({"services", "database"}),
    "mocks_url": frozenset({"services", "database"}),
    "services": frozenset({"actions", "services", "database"}),
    "trial": frozenset({"actions", "services", "files", "database"}),
    "workspace": frozenset({"files"}),
}
"""What an agent can report or reach through a parameter. An agent without any of them has no connection to its trial,
so the absence of actions proves nothing."""
OF_A_TURN = ("message", "input", "text", "messages", "turn", "deadline", "remaining", *OF_THE_TRIAL)


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a function that we provide values for, by how they are passed."""

    positional: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.positional, *self.named)


def parameters_of(
    function: Callable[..., Any], *, offered: tuple[str, ...], where: str, bound: bool = False
) -> Parameters:
    """Raises `SetupError` for a required parameter that is not among those `offered`.

    With `bound`, the first parameter is `self`.
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
                f"{where}: unknown required parameter {parameter.name!r}; supported parameters: {', '.join(offered)}"
            )
    return Parameters(positional=tuple(positional), named=tuple(named))


class CallArguments:
    """The arguments for one call of the agent. For a function in a thread, coroutine methods are made blocking."""

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

    def bind(self, function: Callable[..., Any], wanted: Parameters) -> Callable[[], Any]:
        """The function with its arguments filled in."""
        positional = [self._value(name) for name in wanted.positional]
        named = {name: self._value(name) for name in wanted.named}
        return lambda: function(*positional, **named)

    def end(self) -> None:
        """End the call. Later reports do not count, because they would count for another turn; the trial notes them."""
        self._ended = True
        self._bridge.end()

    def check(self) -> None:
        """Raises `AgentError` if the agent made an invalid report, even if it caught the exception: what it did is then
        unknown."""
        if self._bridge.faults:
            fault = self._bridge.faults[0]
            self._bridge.faults.clear()
            raise AgentError(f"it made an invalid report: {fault}") from fault

    def _value(self, name: str) -> Any:
        if name not in OF_THE_TRIAL:
            assert self._turn is not None, f"{name} exists only during a turn"
            return self._of_turn(name, self._turn)
        if name in ("action", "thought", "emit", "get_service"):
            return getattr(self, name)
        if name == "workspace":
            return self._workspace
        if name == "seed":
            return self._trial.seed
        if name in ("mcp_url", "mocks_url"):
            return self._address(name)
        found = self._trial if name == "trial" else getattr(self._trial, name)
        return self._bridge.blocking(found) if self._in_thread else found

    def _address(self, name: str) -> str:
        found = self._trial.addresses.names.get(name)
        if found is None:
            raise AgentError(f"it asks for `{name}`, but it runs without a gateway here: its scenario offers no tools")
        return found

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
    ) -> AlreadyDone:
        """Report an action that has just ended, and its result. Raises `TypeError` or `ValueError` if it is invalid."""
        with self._keeping_faults():
            given = _checked_action(name, params, status, duration_ms)
            came_back = plain(result)

        def report() -> None:
            self._reporter.action(name, given, status=status, duration_ms=duration_ms)
            self._reporter.observation(name, came_back)

        self._post(report, f"the action {name!r}")
        return AlreadyDone()

    def thought(self, text: str) -> AlreadyDone:
        with self._keeping_faults():
            said = str(text)
        self._post(lambda: self._reporter.thought(said), "a thought")
        return AlreadyDone()

    def emit(self, event: AnyEvent) -> None:
        """Raises `TypeError` or `ValueError` for anything but a valid event."""
        with self._keeping_faults():
            checked = _checked_event(event)
        self._post(lambda: self._trial.emit(checked), f"an event ({type(event).__name__})")

    def get_service(self, name: str) -> Any:
        services = self._trial.services
        if services is None:
            raise RuntimeError(f"no service {name!r}: this trial has no services, because the scenario sets no mocks")
        service = services.get_service(name)
        return self._bridge.blocking(service) if self._in_thread else service

    @contextlib.contextmanager
    def _keeping_faults(self) -> Generator[None]:
        """Remember an invalid report, because the agent may catch the exception and go on."""
        try:
            yield
        except Exception as error:
            self._bridge.faults.append(error)
            raise

    def _post(self, function: Callable[[], None], what: str) -> None:
        def late() -> None:
            self._reporter.note(f"the agent reported {what} after its turn had ended; it was ignored", level="warning")

        if self._in_thread:
            self._bridge.post(function, late=late)
        elif self._ended:
            late()
        else:
            function()


def _checked_action(name: object, params: object, status: object, duration_ms: object) -> dict[str, Any]:
    """The parameters as they are recorded. The agent's code is not type-checked, so everything is checked here."""
    if not isinstance(name, str) or not isinstance(params, dict | None):
        raise TypeError("action(name, params, result): expected a string as name and a dict as params")
    if status not in _STATUSES:
        raise ValueError(f"the status of an action must be one of {', '.join(_STATUSES)}, not {status!r}")
    if isinstance(duration_ms, bool) or not isinstance(duration_ms, int | float) or not 0 <= duration_ms < math.inf:
        raise TypeError(f"the duration_ms of an action must be a number of milliseconds, not {duration_ms!r}")
    return plain_object(cast("dict[str, Any]", params) or {})


def _checked_event(event: object) -> AnyEvent:
    if not isinstance(event, Event):
        raise TypeError(f"emit takes an event of steadyhand.records.event, not a {type(event).__name__}")
    copy = msgspec.to_builtins(plain_fields(event), str_keys=True, enc_hook=str)
    return told_by_agent(cast("AnyEvent", msgspec.convert(copy, type(event))))
