"""Who watches a run while it goes on."""

from __future__ import annotations

from typing import Protocol

from steadyhand.records.event import AnyEvent
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord


class RunObserver(Protocol):
    """Told what happens, from the event loop's thread. An implementation must not block and must not raise."""

    def run_started(self, header: RunHeader) -> None: ...

    def trial_started(self, key: TrialKey, name: str) -> None:
        """`name` is the scenario's."""
        ...

    def trial_finished(self, record: TrialRecord) -> None: ...

    def noted(self, message: str) -> None:
        """Something the user should know about the run as a whole."""
        ...

    def run_finished(self) -> None:
        """Called once, also when the run was interrupted."""
        ...


class EventSink(Protocol):
    def emit(self, event: AnyEvent) -> None:
        """Take an event. Must not block and must not raise."""
        ...
