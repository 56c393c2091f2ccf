"""Where trials run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from steadyhand.records.run import PlannedTrial, TrialRecord


class Executor(Protocol):
    """Takes planned trials and gives back records, in any order.

    Which trials run, when the run stops, its limits, its budget and its record are the affair of whoever calls.
    """

    @property
    def places(self) -> int:
        """How many trials to hand over at once. It may change while trials run."""
        ...

    def perform(self, planned: PlannedTrial, /) -> Awaitable[TrialRecord]:
        """Give the record of this trial exactly once, whatever becomes of the process or the machine it runs on.

        May be called side by side. Raises `TrialError` when the trial could not be carried out.
        """
        ...
