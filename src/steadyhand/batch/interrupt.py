"""Ctrl-C: once to finish what is in flight, twice to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Use around a batch, in the task that runs it. Outside the main thread nothing is caught and nothing changes.

    The first signal sets `stopping`; the second cancels the task. `note` is told of the first.
    """

    def __init__(self, note: Callable[[str], None] = lambda message: None) -> None:
        self.stopping: bool = False
        self._note = note
        self._task: asyncio.Task[object] | None = None
        self._caught: list[signal.Signals] = []

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for each in _SIGNALS:
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(each, self.interrupt)
                self._caught.append(each)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for each in self._caught:
            loop.remove_signal_handler(each)
        self._caught.clear()
        self._task = None

    def interrupt(self) -> None:
        if not self.stopping:
            self.stopping = True
            self._note("stopping: what is in flight will be finished; interrupt again to stop at once")
        elif self._task is not None:
            self._task.cancel()
