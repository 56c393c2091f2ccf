"""Gathers from the trials of a run while they are recorded, so that they need not be decoded again to show the run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

from steadyhand.errors import StoreError
from steadyhand.reading.run import Reading
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import SUFFIX

_AT_ONCE = 64
"""One by one, between the phases of other trials, taking in a trial costs twice as much (17 us more): its code is no
longer in the processor's cache."""
_MOST_AHEAD = 512
"""With more trials that wait for an earlier one, the record is read after the run instead: they take memory."""


class Underway:
    """Implements `RunObserver` for a new run in `folder`. `want` names what to gather, in the order of the plan.

    It is of use only if this process ran every trial: those of workers are brief.
    """

    reads_whole_trials: bool = False

    def __init__(self, folder: Path, want: Callable[[Reading], None]) -> None:
        self._folder: Path = folder
        self._want: Callable[[Reading], None] = want
        self._reading: Reading | None = None
        self._takers: list[Callable[[TrialRecord], None]] = []
        self._started: deque[TrialKey] = deque()
        self._finished: dict[TrialKey, TrialRecord] = {}
        self._taken: int = 0

    def run_started(self, header: RunHeader) -> None:
        try:
            self._reading = Reading.open(self._folder / f"{header.id}{SUFFIX}")
            self._want(self._reading)
        except StoreError:
            self._give_up()
        else:
            self._takers = self._reading.takers

    def trial_started(self, key: TrialKey, name: str) -> None:
        if self._reading is not None:
            self._started.append(key)

    def trial_finished(self, record: TrialRecord) -> None:
        if self._reading is None:
            return
        self._finished[record.key] = record
        if len(self._finished) % _AT_ONCE == 0:
            self._take()

    def noted(self, message: str) -> None: ...

    def run_finished(self) -> None: ...

    def reading(self, path: Path) -> Reading:
        """The run, now that it has ended. Unless the record is whole and has the trials that were seen, and no others,
        they are read. Raises `StoreError`."""
        self._take()
        reader = RunReader.open(path)
        reading, complete = self._reading, not self._started and not self._finished
        if reading is None or not complete or not reader.as_sealed():
            return Reading(reader)
        if reader.proved is None or reader.proved.trials != self._taken:
            return Reading(reader)
        reading.has_gathered(reader)
        return reading

    def _take(self) -> None:
        """Take in what has finished, as far as nothing before it is missing."""
        started, finished = self._started, self._finished
        taken: list[TrialRecord] = []
        while started and started[0] in finished:
            taken.append(finished.pop(started.popleft()))
        self._taken += len(taken)
        try:
            for take in self._takers:
                for record in taken:
                    take(record)
        except Exception:  # noqa: BLE001 - it is raised again, where it harms no trial, when the record is read
            self._give_up()
        if len(finished) > _MOST_AHEAD:
            self._give_up()

    def _give_up(self) -> None:
        self._reading = None
        self._started.clear()
        self._finished.clear()
