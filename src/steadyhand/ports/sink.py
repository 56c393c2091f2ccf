"""Where events go."""

from __future__ import annotations

from typing import Protocol

from steadyhand.records.event import AnyEvent


class EventSink(Protocol):
    def emit(self, event: AnyEvent) -> None:
        """Take an event. Must not block and must not raise."""
        ...
