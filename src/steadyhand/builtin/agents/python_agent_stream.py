"""An agent that says its reply piece by piece, timed as a streaming model is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from time import perf_counter
from typing import Any

from steadyhand.errors import AgentError
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason
from steadyhand.records.timing import Attempt


class StreamingCall:
    """A `ports.model.ChatModel` for one turn, so that its pieces are recorded with the time they came at."""

    def __init__(
        self,
        name: str,
        begin: Callable[[], AsyncIterator[Any]],
        guard: Callable[[Awaitable[Any]], Awaitable[Any]],
    ) -> None:
        self._name = name
        self._begin = begin
        self._guard = guard

    @property
    def name(self) -> str:
        return self._name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Raises whatever the agent raises, and `AgentError` for a piece that is not a text."""
        sent = perf_counter()
        pieces: list[str] = []
        chunks: list[tuple[float, int]] = []
        first: float | None = None
        source = self._begin()
        try:
            while True:
                try:
                    piece = await self._guard(source.__anext__())
                except StopAsyncIteration:
                    break
                now = perf_counter()
                if not isinstance(piece, str):
                    raise AgentError(f"it yielded a {type(piece).__name__}; the pieces of a reply are texts")
                if piece:
                    first = now if first is None else first
                    pieces.append(piece)
                    chunks.append((round((now - sent) * 1000.0, 3), len(piece)))
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()
        ended = perf_counter()
        attempt = Attempt(
            started_ms=_after(zero, sent),
            sent_ms=_after(zero, sent),
            first_token_ms=None if first is None else _after(zero, first),
            last_byte_ms=_after(zero, ended),
            streamed=True,
        )
        return ChatResponse(
            text="".join(pieces), attempt=attempt, chunks=tuple(chunks), finish_reason=FinishReason.STOP
        )

    async def close(self) -> None:
        pass


def _after(zero: float, moment: float) -> float:
    return round((moment - zero) * 1000.0, 3)
