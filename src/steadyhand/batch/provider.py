"""What is known of one provider while a run goes on: its limits, its pauses, its outages, and who waits for it."""

from __future__ import annotations

import asyncio

from steadyhand.batch.breaker import Breaker
from steadyhand.batch.limits import Window
from steadyhand.batch.pace import SPACING_S, Pace
from steadyhand.errors import ModelError
from steadyhand.ports.model import Clock
from steadyhand.records.base import Record
from steadyhand.records.run import HeldUp

LONGEST_HOLD_S = 90.0
_NO_OBSTACLE = (0.0, "")


class ProviderLimits(Record):
    """What a provider allows; None for no limit. `spacing_s` is between any two starts."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    concurrency: int | None = None
    spacing_s: float = SPACING_S


class Provider:
    """Shared by all calls of a run to it."""

    def __init__(self, name: str, limits: ProviderLimits, clock: Clock) -> None:
        self.name: str = name
        self.clock: Clock = clock
        self.breaker: Breaker = Breaker()
        self.pace: Pace = Pace(limits.spacing_s)
        self.requests: Window | None = _window(limits.requests_per_minute)
        self.tokens: Window | None = _window(limits.tokens_per_minute)
        self.slots: asyncio.Semaphore | None = asyncio.Semaphore(limits.concurrency) if limits.concurrency else None
        self._turn: asyncio.Lock = asyncio.Lock()
        self._held_until: float = 0.0
        self._active: int = 0
        self._most: int = 0
        self._waiting: dict[object, tuple[str, float]] = {}

    def obstacle(self, amount: float) -> tuple[float, str]:
        """How long nobody may start, and why; nothing when somebody may.

        Raises `ModelError` when the provider has been down for so long that it is given up.
        """
        now = self.clock.now()
        if self.breaker.open:
            if self.breaker.given_up(now):
                raise ModelError(
                    f"{self.name} has been down for {self.breaker.down_s(now):.0f} s and is given up; resume the run "
                    f"when it is back. Last: {self.breaker.last_error}",
                    kind="connect",
                )
            wait_s = self.breaker.wait_s(now)
            if wait_s > 0:
                return wait_s, self._down
        if self.requests is None and self.tokens is None and self._held_until <= now:
            return _NO_OBSTACLE
        waits = [(self._held_until - now, self._limited)]
        if self.requests is not None:
            waits.append((self.requests.wait_s(now, 1.0), f"the limit of {self.name} on requests a minute"))
        if self.tokens is not None:
            waits.append((self.tokens.wait_s(now, amount), f"the limit of {self.name} on tokens a minute"))
        longest = max(waits)
        return longest if longest[0] > 0 else _NO_OBSTACLE

    async def leave(self, amount: float) -> str:
        """Wait for leave to start; what for, if it was for anything but the usual space between starts."""
        reason = ""
        while True:
            wait_s, why = self.obstacle(amount)
            if why:
                reason = await self._queue(amount, wait_s, why)
            wait_s = self.pace.wait_s(self.clock.now(), opening=self._active >= self._most)
            if wait_s > 0 and self.pace.slowed:
                reason = reason or self._limited
                await self._wait(wait_s, self._limited)
            elif wait_s > 0:
                await self.clock.sleep(wait_s)
            if not self.obstacle(amount)[1]:
                return reason

    def started(self, now: float) -> None:
        self.pace.started(now)
        self._active += 1
        self._most = max(self._most, self._active)

    def ended(self) -> None:
        self._active -= 1

    def hold(self, seconds: float) -> None:
        """The provider asked for a pause: nobody else need run into the same wall."""
        self._held_until = max(self._held_until, self.clock.now() + min(seconds, LONGEST_HOLD_S))

    def begin_wait(self, reason: str, seconds: float) -> object:
        """Somebody waits now, which those who watch may see; to be ended with what this gives."""
        mark = object()
        self._waiting[mark] = (reason, self.clock.now() + seconds)
        return mark

    def end_wait(self, mark: object) -> None:
        self._waiting.pop(mark, None)

    def held_up(self) -> list[HeldUp]:
        """Who waits, by reason. May be asked from another thread.

        Only the first in the queue knows how long; what the others were told when they came may be over.
        """
        now = self.clock.now()
        by_reason: dict[str, list[float]] = {}
        for reason, until in list(self._waiting.copy().values()):
            by_reason.setdefault(reason, []).append(max(0.0, until - now))
        return [
            HeldUp(
                reason=reason,
                calls=len(left),
                left_s=min((each for each in left if each > 0), default=0.0),
                down=self.name if reason == self._down else None,
            )
            for reason, left in by_reason.items()
        ]

    async def _queue(self, amount: float, wait_s: float, why: str) -> str:
        """Wait, in order of arrival, until nothing is in the way; what was."""
        mark = self.begin_wait(why, wait_s)
        reason = why
        try:
            async with self._turn:
                while True:
                    wait_s, why = self.obstacle(amount)
                    if not why:
                        return reason
                    reason = why
                    self._waiting[mark] = (why, self.clock.now() + wait_s)
                    await self.clock.sleep(wait_s)
        finally:
            self.end_wait(mark)

    async def _wait(self, seconds: float, reason: str) -> None:
        mark = self.begin_wait(reason, seconds)
        try:
            await self.clock.sleep(seconds)
        finally:
            self.end_wait(mark)

    @property
    def _down(self) -> str:
        return f"{self.name} is down"

    @property
    def _limited(self) -> str:
        return f"{self.name} limits the rate (429)"


def _window(limit: float | None) -> Window | None:
    return None if limit is None else Window(limit)
