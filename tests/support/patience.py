"""For what must happen before a time is up: on a busy machine it may not, and is then tried again with more time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
TIMES_S = (0.1, 1.0, 10.0)


async def with_enough_time(attempt: Callable[[float], Awaitable[T]], enough: Callable[[T], bool]) -> T:
    """The result of the first try that had enough time, or of the last if none had."""
    for seconds in TIMES_S[:-1]:
        result = await attempt(seconds)
        if enough(result):
            return result
    return await attempt(TIMES_S[-1])
