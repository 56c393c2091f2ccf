"""Where trials run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from steadyhand.records.run import PlannedTrial, TrialRecord


class Executor(Protocol):
    """Takes planned trials and returns records, in any order.

    The caller decides which trials run and when the run stops, and manages limits, the budget and the record.
    """

    @property
    def places(self) -> int:
        """The number of trials to submit at once. It may change while trials run."""
        ...

    def perform(self, planned: PlannedTrial, /) -> Awaitable[TrialRecord]:
        """Return the record of this trial exactly once, whatever happens to the process or machine it runs on. May be
        called concurrently. Raises `TrialError` if the trial could not be run.
        """
        ...
