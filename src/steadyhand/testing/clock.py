"""A clock that only moves when it is told to."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class SettableClock:
    """A `ports.model.Clock` that starts at `start` seconds.

    With `auto_advance` (the default) `sleep` moves the clock forward and returns after letting other tasks run, so that
    code that waits an hour can be tested at once. Without it `sleep` waits until a test calls `advance` or `set`;
    sleepers wake in the order of their deadlines.
    """

    def __init__(self, start: float = 0.0, *, auto_advance: bool = True) -> None:
        self._now = start
        self._auto_advance = auto_advance
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self.slept: list[float] = []

    def now(self) -> float:
        return self._now

    @property
    def sleepers(self) -> int:
        """The number of tasks that are sleeping."""
        return sum(not waiting.done() for _, _, waiting in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        deadline = self._now + max(0.0, seconds)
        if self._auto_advance or deadline <= self._now:
            if deadline > self._now:
                self.set(deadline)
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (deadline, next(self._order), waiting))
        await waiting

    def advance(self, seconds: float) -> None:
        """Move the clock forward and wake the tasks that are due."""
        self.set(self._now + seconds)

    def set(self, now: float) -> None:
        """Set the clock to `now`, which must not be earlier."""
        if now < self._now:
            raise ValueError(f"the clock stands at {self._now:g} and cannot go back to {now:g}")
        self._now = now
        while self._sleepers and self._sleepers[0][0] <= now:
            _, _, waiting = heapq.heappop(self._sleepers)
            if not waiting.done():
                waiting.set_result(None)
