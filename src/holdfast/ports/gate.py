"""Who may call a model now: concurrency, rate limits and pacing, as the engine sees them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from holdfast.records.model import ChatRequest


class Gate(Protocol):
    def admit(self, model: str, request: ChatRequest) -> AbstractAsyncContextManager[None]:
        """Wait for leave to send, hold it while the attempt runs. The wait is queueing, never latency."""
        ...
