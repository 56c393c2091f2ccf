"""Stopping at a deadline: an answer is taken as far as it had come by then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import Self

import msgspec

from steadyhand.records.chat import ChatResponse, FinishReason


class Cut:
    """Ends the block it is put around `after_ms` after `start`, quietly; without `after_ms` it never does."""

    def __init__(self, after_ms: float | None) -> None:
        self._after_ms: float | None = after_ms
        self._timeout: asyncio.Timeout = asyncio.timeout(None)

    def start(self, sent: float) -> None:
        """The request was sent at this reading of `time.perf_counter()`."""
        if self._after_ms is not None:
            left_s = self._after_ms / 1000 - (perf_counter() - sent)
            self._timeout.reschedule(asyncio.get_running_loop().time() + left_s)

    def stop(self) -> None:
        """What comes now is no answer, and is read to its end."""
        self._timeout.reschedule(None)

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            return True
        return False


def cut_short(response: ChatResponse, after_ms: float) -> ChatResponse:
    """What of `response` had arrived `after_ms` after it was sent.

    Tool calls are left out, because nobody can tell whether their arguments are complete, and so is the usage.
    """
    attempt = response.attempt
    kept = _arrived(response.chunks, after_ms)
    sent_ms = attempt.sent_ms if attempt.sent_ms is not None else attempt.started_ms

    def in_time(moment_ms: float | None) -> float | None:
        return moment_ms if moment_ms is not None and moment_ms - sent_ms <= after_ms else None

    return msgspec.structs.replace(
        response,
        text=response.text[: sum(characters for _, characters in kept)],
        chunks=tuple(kept),
        tool_calls=(),
        usage=None,
        finish_reason=FinishReason.DEADLINE,
        finish_raw=None,
        attempt=msgspec.structs.replace(
            attempt,
            first_byte_ms=in_time(attempt.first_byte_ms),
            first_token_ms=in_time(attempt.first_token_ms),
            last_byte_ms=None if not kept else round(sent_ms + kept[-1][0], 3),
            cut_ms=round(sent_ms + after_ms, 3),
        ),
    )


def _arrived(chunks: Sequence[tuple[float, int]], by_ms: float) -> list[tuple[float, int]]:
    return [(at_ms, characters) for at_ms, characters in chunks if at_ms <= by_ms]
