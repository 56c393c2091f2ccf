"""Observers of a run in progress."""

from __future__ import annotations

from typing import Protocol

from steadyhand.records.event import AnyEvent
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord


class RunObserver(Protocol):
    """Notified of what happens, on the event loop's thread. An implementation must not block or raise.

    One that says `reads_whole_trials = False` is given the brief of a trial (`brief_of`) where another process ran it.
    """

    def run_started(self, header: RunHeader) -> None: ...

    def trial_started(self, key: TrialKey, name: str) -> None:
        """`name` is the scenario's."""
        ...

    def trial_finished(self, record: TrialRecord) -> None: ...

    def noted(self, message: str) -> None:
        """Something the user should know about the run as a whole."""
        ...

    def run_finished(self) -> None:
        """Called once, even if the run was interrupted."""
        ...


def reads_whole_trials(observer: RunObserver) -> bool:
    return getattr(observer, "reads_whole_trials", True)


class EventSink(Protocol):
    def emit(self, event: AnyEvent) -> None:
        """Receive an event. Must not block or raise."""
        ...
