"""A whole run: how many of each verdict, and what the process says to its caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steadyhand.errors import ExitCode
from steadyhand.judging.alarm import Alarm
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Verdict


class RunSummary(Record):
    """The count of each verdict. `not_run` is what was planned and has no verdict.

    The alarms are of `judging.alarm`; they are among the failed.
    """

    passed: int = 0
    failed: int = 0
    inconclusive: int = 0
    error: int = 0
    not_run: int = 0
    missed_alarms: int = 0
    false_alarms: int = 0

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.inconclusive + self.error

    @property
    def exit_code(self) -> ExitCode:
        """0 all passed; 1 something failed; 3 nothing failed, but something is undecided or there is nothing at all."""
        if self.failed:
            return ExitCode.FAILED
        if self.inconclusive or self.error or self.not_run or not self.passed:
            return ExitCode.UNDECIDED
        return ExitCode.PASSED


def summarise(
    counts: Mapping[Verdict, int], *, planned: int = 0, alarms: Mapping[Alarm, int] | None = None
) -> RunSummary:
    """`planned` is how many trials there should be; 0 when that is not known."""
    alarms = alarms or {}
    return RunSummary(
        passed=counts.get(Verdict.PASSED, 0),
        failed=counts.get(Verdict.FAILED, 0),
        inconclusive=counts.get(Verdict.INCONCLUSIVE, 0),
        error=counts.get(Verdict.ERROR, 0),
        not_run=max(planned - sum(counts.values()), 0),
        missed_alarms=alarms.get("missed", 0),
        false_alarms=alarms.get("false", 0),
    )


def exit_code(verdicts: Iterable[Verdict], *, planned: int = 0) -> ExitCode:
    counts = dict.fromkeys(Verdict, 0)
    for verdict in verdicts:
        counts[verdict] += 1
    return summarise(counts, planned=planned).exit_code
