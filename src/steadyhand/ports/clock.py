"""Time as a trial sees it. Tests set it; nothing in a trial reads another clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds, with an arbitrary zero."""
        ...

    async def sleep(self, seconds: float) -> None: ...
