"""A chat model that answers from a script."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence

from steadyhand.errors import ModelError
from steadyhand.records.chat import Attempt, ChatRequest, ChatResponse, FinishReason

ScriptedAnswer = str | ChatResponse | Exception
"""A text, a whole response, or what to raise."""
AnswerFunction = Callable[[ChatRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]]


class ScriptedChatModel:
    """A `ports.model.ChatModel` that answers from a script, and keeps in `requests` what it was asked.

    The script has one answer per attempt, or is a function of the request, which may be async; an entry of the sequence
    may be such a function too. With `repeat` the last answer is given to every further attempt.

    The times of a text are measured: sent when the request came in, complete when the function returned. A
    `ChatResponse` keeps its own times.
    """

    def __init__(
        self,
        script: Sequence[ScriptedAnswer | AnswerFunction] | AnswerFunction,
        *,
        name: str = "test/model",
        repeat: bool = False,
    ) -> None:
        self._script = script
        self._name = name
        self._repeat = repeat
        self.requests: list[ChatRequest] = []
        self.closed: int = 0

    @property
    def name(self) -> str:
        return self._name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Raises `ModelError` when the script is used up, and the answer itself if it is an exception."""
        sent = _ms_after(zero)
        self.requests.append(request)
        answer = self._next()
        if callable(answer):
            made = answer(request)
            answer = await made if isinstance(made, Awaitable) else made
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ChatResponse):
            return answer
        times = Attempt(started_ms=sent, sent_ms=sent, last_byte_ms=_ms_after(zero))
        return ChatResponse(text=answer, attempt=times, finish_reason=FinishReason.STOP)

    def _next(self) -> ScriptedAnswer | AnswerFunction:
        if callable(self._script):
            return self._script
        script = self._script
        asked = len(self.requests)
        if asked > len(script) and not self._repeat:
            raise ModelError(f"the script has {len(script)} answers, and this is attempt {asked}", kind="refused")
        return script[min(asked, len(script)) - 1]

    async def close(self) -> None:
        self.closed += 1


def _ms_after(zero: float) -> float:
    return (time.perf_counter() - zero) * 1000.0
