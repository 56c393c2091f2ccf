"""Running somebody else's code: a plain function in a thread, a coroutine on the loop with a guard."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

from steadyhand.errors import AgentError

BLOCK_LIMIT_S = 5.0


class FunctionThread:
    """A plain function in a daemon thread of its own: one that never returns keeps neither a trial nor the process.

    A pool would: its threads are waited for when the program ends.
    """

    def __init__(self, call: Callable[[], Any], name: str) -> None:
        self._call = call
        self._name = name
        self._thread: threading.Thread | None = None

    async def run(self) -> Any:
        """What the function returns. Raises what it raises. When cancelled, the thread is left to itself."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        context = contextvars.copy_context()

        def settle(outcome: tuple[Any, BaseException | None]) -> None:
            if not done.done():
                done.set_result(outcome)

        def work() -> None:
            try:
                outcome = (context.run(self._call), None)
            except BaseException as error:  # noqa: BLE001 - handed over to whoever waits
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
        """`file:line` where it is now, in the agent's own file when it is on the stack; None when it has ended."""
        thread = self._thread
        if thread is None or thread.ident is None or not thread.is_alive():
            return None
        frame = sys._current_frames().get(thread.ident)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented, and the only way to another thread's stack
        return None if frame is None else place_of(frame, file)


def place_of(frame: FrameType, file: Path | None) -> str:
    """`file:line` of the innermost frame in `file`, else of the innermost one."""
    look: FrameType | None = frame
    while look is not None:
        if file is not None and look.f_code.co_filename == str(file):
            return f"{file}:{look.f_lineno}"
        look = look.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class _Blocked(BaseException):
    """Raised by the alarm inside the code that holds the loop; not an `Exception`, so that it is not swallowed."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place: str = place


class Guarded:
    """Awaits a coroutine and breaks it off when it holds the event loop longer than `limit_s` at a stretch.

    Each stretch between two awaits runs under an alarm of the system, which gets through to a `time.sleep` or a
    blocking read too. That works on the main thread only, and does not watch tasks that the coroutine starts.
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
                    f"it held up the event loop for {self._limit_s:g} s, at {blocked.place}; await what takes time, or "
                    "make it a plain function, which runs in a thread of its own"
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
        finally:  # an alarm that rings on the way out still ends here, and cannot ring again before it is off
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self._armed:
            raise _Blocked("an unknown place" if frame is None else place_of(frame, self._file))
