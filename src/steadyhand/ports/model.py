"""A chat model: one attempt at one call, timed at the socket, and cut off at a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import msgspec

from steadyhand.errors import ModelError
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason


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


class ModelFacts(NamedTuple):
    """What a provider's factory declares, as attributes of these names; usually the model's class is the factory."""

    uses_network: bool = True
    """Whether calls leave this process for a server: their starts are paced, and the loop is one made for sockets."""

    free: bool = False
    """Whether a call costs nothing, whatever its tokens."""


def model_facts(factory: object) -> ModelFacts:
    """What the factory declares; the defaults for what it does not."""
    return ModelFacts(*(getattr(factory, name, default) for name, default in ModelFacts._field_defaults.items()))


class Admission(Protocol):
    """Leave for one attempt. It is told how that ended, so that the gate learns of limits and outages."""

    @property
    def reason(self) -> str:
        """What it had to wait for, beyond the spacing of starts; empty when for nothing."""
        ...

    def succeeded(self, response: ChatResponse) -> None: ...

    def failed(self, error: ModelError) -> None: ...


class Gate(Protocol):
    def admit(self, model: str, request: ChatRequest) -> AbstractAsyncContextManager[Admission]:
        """Wait for leave to send, hold it while the attempt runs. The wait is queueing, never latency.

        Entering raises `ModelError` when the provider has been down for so long that waiting is given up.
        """
        ...

    def backing_off(self, model: str, error: ModelError, seconds: float) -> AbstractContextManager[None]:
        """Enter while a failed call waits to be tried again, so that those who watch the run see it wait."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds, with an arbitrary zero."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Cut:
    """Ends the block it is put around `after_ms` after `start`, quietly; without `after_ms` it never does."""

    def __init__(self, after_ms: float | None) -> None:
        self._after_ms: float | None = after_ms
        self._timeout: asyncio.Timeout = asyncio.timeout(None)

    def start(self, sent: float) -> None:
        """The request was sent at this reading of `time.perf_counter()`."""
        if self._after_ms is not None:
            left_s = self._after_ms / 1000 - (time.perf_counter() - sent)
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
