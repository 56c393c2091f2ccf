"""The clock that a trial runs by unless a test sets another."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    now = staticmethod(time.perf_counter)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
