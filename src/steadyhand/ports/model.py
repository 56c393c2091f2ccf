"""A chat model: one attempt at one call, timed at the socket."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import NamedTuple, Protocol

from steadyhand.errors import ModelError
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
