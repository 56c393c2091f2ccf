"""A chat model that says what it is told to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from steadyhand.errors import ModelError
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason

Line = str | ChatResponse | Exception
"""A text, a whole response, or what to raise."""
LineOrFunction = Line | Callable[[ChatRequest], Line | Awaitable[Line]]


class ScriptedChatModel:
    """Implements `ports.model.ChatModel`. The script is a line for each attempt, or a function of the request, a
    coroutine function included; an entry of the sequence may be such a function too. With `repeat` the last line
    answers every further attempt. `requests` holds what it was asked.

    The times of a text are those it took: sent when it was asked for, complete when the function had it. A whole
    response keeps its own times.
    """

    def __init__(
        self, script: Sequence[LineOrFunction] | Callable[[ChatRequest], Line | Awaitable[Line]], *,
        name: str = "test/model", repeat: bool = False,
    ) -> None:  # fmt: skip
        self._script = script
        self._name = name
        self._repeat = repeat
        self.requests: list[ChatRequest] = []
        self.closed: int = 0

    @property
    def name(self) -> str:
        return self._name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Raises `ModelError` when there is no line left, and whatever the line says."""
        sent = _ms_after(zero)
        self.requests.append(request)
        line = self._next()
        if callable(line):
            made = line(request)
            line = await made if isinstance(made, Awaitable) else made
        if isinstance(line, Exception):
            raise line
        if isinstance(line, ChatResponse):
            return line
        times = Attempt(started_ms=sent, sent_ms=sent, last_byte_ms=_ms_after(zero))
        return ChatResponse(text=line, attempt=times, finish_reason=FinishReason.STOP)

    def _next(self) -> LineOrFunction:
        if callable(self._script):
            return self._script
        script = self._script
        asked = len(self.requests)
        if asked > len(script) and not self._repeat:
            raise ModelError(f"the script has {len(script)} lines, and this is attempt {asked}", kind="refused")
        return script[min(asked, len(script)) - 1]

    async def close(self) -> None:
        self.closed += 1


def _ms_after(zero: float) -> float:
    return (time.perf_counter() - zero) * 1000.0
