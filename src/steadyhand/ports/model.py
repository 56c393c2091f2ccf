"""A chat model: one attempt at one call, timed at the socket, and cut off at a deadline."""

from __future__ import annotations

import asyncio
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import msgspec

from steadyhand.errors import ModelError
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason


class ChatModel(Protocol):
    """A chat model. An implementation makes one attempt; the engine does queueing, retries and back-off."""

    @property
    @abstractmethod
    def name(self) -> str:
        """`provider/model`, as reports show it."""
        ...

    @abstractmethod
    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once. Times in the answer are in milliseconds since `zero`, a reading of `time.perf_counter()`.

        Raises `ModelError`; if the request was sent, its `attempt` has the times so far.
        """
        ...

    async def close(self) -> None:
        """Close connections. Called once, at the end of the run."""
        ...


class Listener(Protocol):
    """Receives an answer while it arrives, and forwards it to an agent's own client.

    If the client disconnects, the task that calls the model is cancelled; a model that supports it returns what had
    arrived, with `FinishReason.HUNG_UP`.
    """

    @property
    def gone(self) -> bool:
        """Whether the client has disconnected."""
        ...

    @property
    def full(self) -> bool:
        """Whether the client reads more slowly than the answer arrives. Stop reading until it is `ready`."""
        ...

    async def ready(self) -> None: ...

    def pass_on(self, piece: bytes, headers: Mapping[str, str]) -> None:
        """A chunk of an answer in the client's own format, unchanged. `headers` are the server's."""
        ...

    def end(self) -> None:
        """The server has finished the forwarded answer."""
        ...

    def say(self, text: str) -> None:
        """A chunk of text of any other answer."""
        ...


@runtime_checkable
class RelayingModel(Protocol):
    """A `ChatModel` whose answer a listener receives while it arrives. With any other, the listener gets the complete
    answer."""

    async def relay(self, request: ChatRequest, listener: Listener, *, zero: float) -> ChatResponse:
        """As `ChatModel.attempt`."""
        ...


async def relay(model: ChatModel, request: ChatRequest, listener: Listener | None, *, zero: float) -> ChatResponse:
    """One attempt, with the listener, if there is one and the model supports it."""
    if listener is not None and isinstance(model, RelayingModel):
        return await model.relay(request, listener, zero=zero)
    return await model.attempt(request, zero=zero)


_OF_THE_CONNECTION = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
_OF_THE_PROXY = ("proxy-authenticate", "proxy-authorization")
_OF_THE_BODY = ("content-length", "content-type", "content-encoding")
_HOP_BY_HOP = frozenset((*_OF_THE_CONNECTION, *_OF_THE_PROXY, *_OF_THE_BODY))


def end_to_end(headers: Mapping[str, str], *, without: Iterable[str]) -> dict[str, str]:
    """Headers that may be forwarded: those that describe neither the connection nor the body. Names are lower case."""
    named = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    left_out = _HOP_BY_HOP.union(without, named)
    return {name: value for name, value in headers.items() if name not in left_out}


class ModelFacts(NamedTuple):
    """What a provider's factory, usually the model's class, declares as attributes of these names."""

    uses_network: bool = True
    """Whether calls go to a server. If so, their starts are paced, and the event loop is one optimised for sockets."""

    free: bool = False
    """Whether calls cost nothing."""

    base_url_variable: str = ""
    """The variable that sets a different server. If it is set, list prices do not apply."""

    names_file: bool = False
    """Whether the model's name, after the provider, is that of a file. Its folders say nothing about the vendor, so a
    judge from the same folder is not taken to be from the same vendor."""

    embedder: Callable[[Any], ChatModel] | None = None
    """Builds from the same settings a model that embeds texts, if the provider has any. Asked with two messages, it
    answers with the cosine of their embeddings, as a number."""


def model_facts(factory: object) -> ModelFacts:
    """What the factory declares, with defaults for the rest."""
    return ModelFacts(*(getattr(factory, name, default) for name, default in ModelFacts._field_defaults.items()))


class Admission(Protocol):
    """Permission for one attempt. Report its outcome here, so that the gate learns of limits and outages."""

    @property
    def reason(self) -> str:
        """What the attempt waited for, apart from the pacing of starts; empty if for nothing."""
        ...

    @property
    def blamed_s(self) -> float:
        """How many seconds of that the server was to blame for: it had refused or failed, and answered nobody since."""
        ...

    def succeeded(self, response: ChatResponse) -> None: ...

    def failed(self, error: ModelError) -> None: ...


class Gate(Protocol):
    def admit(
        self, model: str, request: ChatRequest, *, patience_s: float = math.inf
    ) -> AbstractAsyncContextManager[Admission]:
        """Wait for permission to send, and hold it during the attempt. The wait counts as queueing, never as latency.

        Entering raises `ModelError` if the provider has been down for too long, or is to blame for a wait of more than
        `patience_s`.
        """
        ...

    def backing_off(self, model: str, error: ModelError, seconds: float) -> AbstractContextManager[None]:
        """Enter this while a failed call waits for its retry, so that progress reports show the wait."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Monotonic seconds, with an arbitrary zero."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Cut:
    """A context manager that silently ends its block `after_ms` after `start`, or never if that is None."""

    def __init__(self, after_ms: float | None) -> None:
        self._after_ms: float | None = after_ms
        self._timeout: asyncio.Timeout = asyncio.timeout(None)

    def start(self, sent: float) -> None:
        """Start the time: the request was sent at this reading of `time.perf_counter()`."""
        if self._after_ms is not None:
            left_s = self._after_ms / 1000 - (time.perf_counter() - sent)
            self._timeout.reschedule(asyncio.get_running_loop().time() + left_s)

    def stop(self) -> None:
        """Disable the deadline: what arrives is not an answer, and is read to its end."""
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
    """The part of `response` that had arrived `after_ms` after it was sent.

    Tool calls are left out, because their arguments may be incomplete, and so is the usage.
    """
    attempt = response.attempt
    kept = [(at_ms, characters) for at_ms, characters in response.chunks if at_ms <= after_ms]
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
