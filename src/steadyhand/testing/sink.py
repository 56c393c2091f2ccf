"""An event sink that keeps all events."""

from __future__ import annotations

from typing import TypeVar

from steadyhand.records.event import AnyEvent, Event

E = TypeVar("E", bound=Event)


class RecordingSink:
    """A `ports.observer.EventSink` that keeps every event in `events`, in order."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def emit(self, event: AnyEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type, in order."""
        return [event for event in self.events if isinstance(event, kind)]
