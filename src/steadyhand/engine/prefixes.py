"""The parts of an answer that stood there at some moment, and which of them were safe."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate

_BREATH_S = 0.001
_PATIENCE_S = 2.0


Check = Callable[[str], Awaitable[bool]]


class Prefixes:
    """The text as it grew, chunk by chunk. Number 0 is what the first chunk brought, -1 nothing at all."""

    def __init__(
        self,
        text: str,
        chunks: Sequence[tuple[float, int]],
        checks: Sequence[Check],
        *,
        whole_is_safe: bool = False,
    ) -> None:
        """`chunks` are (arrival, characters) and add up to the text; a check raises `TimeoutError` if undecided.

        `whole_is_safe`: the checks have been made on the whole text, and hold.
        """
        self.times: list[float] = [at_ms for at_ms, characters in chunks if characters]
        self._ends = list(accumulate(characters for _, characters in chunks if characters))
        self._text = text
        self._checks = list(checks)
        self._known: dict[int, bool] = {-1: False}
        if whole_is_safe and self.times:
            self._known[len(self.times) - 1] = True
        self._resumed: float = time.perf_counter()
        self._patience: float = self._resumed + _PATIENCE_S

    def by(self, at_ms: float) -> int:
        """The prefix that had been received at a moment, which counts itself."""
        return bisect_right(self.times, at_ms) - 1

    async def safe(self, number: int) -> bool:
        """Whether every check passes on this prefix. Nothing received is no safe answer.

        Raises `TimeoutError` when a check does, or when all of them together have taken too long.

        The event loop gets its turn every millisecond: other trials are being timed on it.
        """
        if number in self._known:
            return self._known[number]
        if time.perf_counter() - self._resumed > _BREATH_S:
            await asyncio.sleep(0)
            self._resumed = time.perf_counter()
            if self._resumed > self._patience:
                raise TimeoutError
        part = self._text[: self._ends[number]]
        holds = True
        for position, check in enumerate(self._checks):
            if not await check(part):
                # What failed here most likely fails on the neighbours too: ask it first.
                self._checks.insert(0, self._checks.pop(position))
                holds = False
                break
        self._known[number] = holds
        return holds

    async def first_safe(self, numbers: Sequence[int]) -> int | None:
        """The first of `numbers`, which ascend, that is safe."""
        for number in numbers:
            if await self.safe(number):
                return number
        return None

    async def safe_from(self, numbers: Sequence[int]) -> int | None:
        """The first of `numbers` from which on all of them are safe; None when the last one is not."""
        found: int | None = None
        for number in reversed(numbers):
            if not await self.safe(number):
                break
            found = number
        return found
