"""How late the event loop runs.

Bytes that arrive while the loop is busy are stamped late. The monitor wakes every few milliseconds and records how late
each wake-up was, which bounds the error of a call's time stamps.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from typing import Self

INTERVAL_S = 0.01
SHORTEST_NOTED_S = 0.002
MAX_SAMPLES = 4096
RECENT_S = 2.0


class LagMonitor:
    """Use as a context manager around a run, inside its event loop."""

    def __init__(self) -> None:
        self._late: deque[tuple[float, float]] = deque(maxlen=MAX_SAMPLES)
        self._timer: asyncio.TimerHandle | None = None
        self._due: float = 0.0

    def __enter__(self) -> Self:
        self._schedule(asyncio.get_running_loop())
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def reset(self) -> None:
        """Start over: nothing was being timed until now."""
        self._late.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._schedule(asyncio.get_running_loop())

    def worst_ms(self, start: float, end: float) -> float:
        """The longest stall of the loop between two readings of `time.perf_counter()`.

        Nothing that arrived in between was stamped later than that.
        """
        worst = 0.0
        for due, woken in reversed(self._late):
            if woken < start:
                break
            worst = max(worst, min(woken, end) - max(due, start))
        if self._timer is not None:
            worst = max(worst, end - max(self._due, start))
        return worst * 1000.0

    def total_ms(self, start: float, end: float) -> float:
        """The sum of all stalls in a span: the most that a sequence of steps in it can have been delayed.

        Infinite if the samples no longer reach back that far.
        """
        if len(self._late) == MAX_SAMPLES and self._late[0][0] > start:
            return math.inf
        stuck = 0.0
        for due, woken in reversed(self._late):
            if woken < start:
                break
            stuck += max(0.0, min(woken, end) - max(due, start))
        if self._timer is not None:
            stuck += max(0.0, end - max(self._due, start))
        return stuck * 1000.0

    def recent_worst_ms(self) -> float:
        """The longest stall of the last two seconds. Safe to call from another thread."""
        end = time.perf_counter()
        start = end - RECENT_S
        late = [woken - max(due, start) for due, woken in list(self._late.copy()) if woken >= start]
        if self._timer is not None:
            late.append(end - max(self._due, start))
        return max([0.0, *late]) * 1000.0

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.perf_counter() + INTERVAL_S
        self._timer = loop.call_later(INTERVAL_S, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.perf_counter()
        if now - self._due >= SHORTEST_NOTED_S:
            self._late.append((self._due, now))
        self._schedule(loop)


class SystemClock:
    now = staticmethod(time.perf_counter)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
