"""Time that a trial spent waiting for us, so that it can be taken off the agent's time."""

from __future__ import annotations

import time


class WaitLedger:
    """Adds up the time in which something waited in our queue or back-off while no attempt was under way."""

    def __init__(self) -> None:
        self.total_ms: float = 0.0
        self._waiting: int = 0
        self._active: int = 0
        self._since: float = 0.0

    def wait_begins(self) -> None:
        self._settle()
        self._waiting += 1

    def wait_ends(self) -> None:
        self._settle()
        self._waiting -= 1

    def attempt_begins(self) -> None:
        self._settle()
        self._active += 1

    def attempt_ends(self) -> None:
        self._settle()
        self._active -= 1

    def until_now_ms(self) -> float:
        """The total, with what is being waited right now."""
        self._settle()
        return self.total_ms

    def _settle(self) -> None:
        now = time.perf_counter()
        if self._waiting and not self._active:
            self.total_ms += (now - self._since) * 1000.0
        self._since = now
