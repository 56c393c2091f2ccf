"""A chat model: one attempt at one call, timed at the socket."""

from __future__ import annotations

from typing import Protocol

from steadyhand.records.chat import ChatRequest, ChatResponse


class ChatModel(Protocol):
    """Named `provider/model`. Queueing, retries and back-off are the engine's; an implementation tries once."""

    @property
    def name(self) -> str:
        """`provider/model`, as reports show it."""
        ...

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once. Times in the answer are milliseconds after `zero`, read off `time.perf_counter()`.

        Raises `ModelError`; when the request got as far as being sent, the exception carries the `Attempt` so far
        in its `attempt` attribute.
        """
        ...

    async def close(self) -> None:
        """Let go of connections. Called once, when the run is over."""
        ...
