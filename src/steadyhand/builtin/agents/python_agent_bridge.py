"""What a plain function, in a thread of its own, gets of a trial that lives on the event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class Done:
    """Nothing more to wait for; lets a helper be called with and without `await`."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield  # makes this a generator, which is what `await` asks for


class Bridge:
    """Leads calls of one turn back to the event loop, until the turn is over; then it refuses them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: asyncio.AbstractEventLoop = loop
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self._home: int = threading.get_ident()
        self._open: bool = True
        self.faults: list[Exception] = []

    def post(self, function: Callable[[], None], *, late: Callable[[], None] | None = None) -> None:
        """Call it on the loop, some time soon and in order; after the end of the turn, `late` instead.

        What is posted before the end counts, and what it raises is kept in `faults`.
        """
        wanted = function if self._open else late
        if wanted is None:
            return

        def call() -> None:
            try:
                wanted()
            except Exception as error:  # noqa: BLE001 - kept for whoever looks after the turn
                self.faults.append(error)

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the run is over and its loop closed, while the thread still goes on
            self._open = False

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop and wait for what it gives. Raises what it raises."""
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
        """The turn is over: what still waits is cancelled."""
        self._open = False
        for future in list(self._waiting):
            future.cancel()

    def blocking(self, target: Any) -> Any:
        return None if target is None else _Blocking(target, self)


class _Blocking:
    """Stands for an object whose coroutine methods are called as if they were plain ones."""

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
