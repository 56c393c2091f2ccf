"""Who may call a model now: concurrency, rate limits and pacing, as the engine sees them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from steadyhand.errors import ModelError
from steadyhand.records.chat import ChatRequest, ChatResponse


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
