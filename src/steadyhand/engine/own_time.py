"""A limit on the time of what is tested, which stands still while it waits for us."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

from steadyhand.engine.waiting import WaitLedger

_SHORTEST_LOOK_S = 0.001


class OwnTime:
    """Use like `asyncio.timeout`: raises `TimeoutError` when more than `allowed_ms` of the trial's own time went by.

    Waiting for a rate limit, for a provider that is down and for a back-off is not the agent's slowness, so a turn that
    is held up for a minute is not out of time.
    """

    def __init__(self, allowed_ms: float, waits: WaitLedger) -> None:
        self._allowed_ms: float = allowed_ms
        self._waits: WaitLedger = waits
        self._timeout: asyncio.Timeout = asyncio.timeout(None)
        self._look_again: asyncio.TimerHandle | None = None
        self._began: float = 0.0
        self._waited_before_ms: float = 0.0

    async def __aenter__(self) -> Self:
        self._began = time.perf_counter()
        self._waited_before_ms = self._waits.until_now_ms()
        await self._timeout.__aenter__()
        self._look()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if self._look_again is not None:
            self._look_again.cancel()
        return await self._timeout.__aexit__(kind, error, trace)

    def expired(self) -> bool:
        return self._timeout.expired()

    def used_ms(self) -> float:
        """Time since it was entered, without what was waited."""
        waited_ms = self._waits.until_now_ms() - self._waited_before_ms
        return max(0.0, (time.perf_counter() - self._began) * 1000.0 - waited_ms)

    def _look(self) -> None:
        """Out of time now, or look again when the rest would be used up if nothing were waited for."""
        loop = asyncio.get_running_loop()
        left_s = (self._allowed_ms - self.used_ms()) / 1000.0
        if left_s <= 0:
            self._timeout.reschedule(loop.time())
        else:
            self._look_again = loop.call_later(max(left_s, _SHORTEST_LOOK_S), self._look)
