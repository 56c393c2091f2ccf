"""What the trials of a run add up to: the only place where trials are summed up."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from steadyhand.judging.cost import CostSummary
from steadyhand.judging.figures import FigureCollector
from steadyhand.judging.trial import Alarm, alarm_of
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.records.event import AnyEvent, Lagged, Noted, Retried, Waited
from steadyhand.records.isolation import IsolationKind
from steadyhand.records.run import FaultConduct, TrialRecord

if TYPE_CHECKING:
    from steadyhand.reading.run import Reading


OTHER = "other reasons"
_MOST_REASONS = 200
_KINDS = frozenset((Retried, Waited, Lagged))


class Incidents(msgspec.Struct):
    """Retries, waits and lag, with those of repeated measurements. Lag counts only if a latency is graded."""

    retries: Counter[str] = msgspec.field(default_factory=Counter)
    waits: Counter[str] = msgspec.field(default_factory=Counter)
    waited_ms: float = 0.0
    lagged: int = 0
    worst_lag_ms: float = 0.0
    measured_again: int = 0

    @classmethod
    def of(cls, trial: TrialRecord) -> Incidents:
        """Those of one trial."""
        found = cls()
        found.add(trial)
        return found

    def add(self, trial: TrialRecord) -> None:
        self.measured_again += len(trial.earlier)
        for each in (*trial.earlier, trial):
            found = [event for event in each.events if type(event) in _KINDS]  # most trials have none
            if found:
                graded = any(check.budget is not None for check in each.evaluations)
                for event in found:
                    self._count(event, graded=graded)

    def _count(self, event: AnyEvent, *, graded: bool) -> None:
        match event:
            case Retried():
                self.retries[_known(event.reason, self.retries)] += 1
            case Waited():
                self.waits[_known(event.reason, self.waits)] += 1
                self.waited_ms += event.wait_ms
            case Lagged() if graded:
                self.lagged += 1
                self.worst_lag_ms = max(self.worst_lag_ms, event.lag_ms)
            case _:
                pass


def _known(reason: str, reasons: Counter[str]) -> str:
    """The reason, unless there are too many to keep: some servers put a request id into every message."""
    return reason if reason in reasons or len(reasons) < _MOST_REASONS else OTHER


class Totals(msgspec.Struct):
    """Sums over trials.

    `endings` are those of conversations: the reason, and whether it was early. `unscored` are the rubrics without a
    score, by the reason. `warnings` count trials, `not_graded` too. `faults` are what agents made of services that went
    wrong, by scenario.
    """

    counts: Counter[Verdict] = msgspec.field(default_factory=Counter)
    outcomes: Counter[Outcome] = msgspec.field(default_factory=Counter)
    alarms: Counter[Alarm] = msgspec.field(default_factory=Counter)
    spent: CostSummary = CostSummary()
    warnings: Counter[str] = msgspec.field(default_factory=Counter)
    not_graded: Counter[tuple[Verdict, str]] = msgspec.field(default_factory=Counter)
    endings: Counter[tuple[str | None, bool]] = msgspec.field(default_factory=Counter)
    unscored: dict[str, Counter[str]] = {}
    isolation: set[IsolationKind | None] = set()
    faults: dict[str, Counter[FaultConduct]] = {}
    incidents: Incidents = msgspec.field(default_factory=Incidents)

    def add(self, trial: TrialRecord, cost: CostSummary) -> None:
        judged = trial.judged
        self.counts[judged.verdict] += 1
        if judged.outcome is not None:
            self.outcomes[judged.outcome] += 1
        if alarm := alarm_of(trial):
            self.alarms[alarm] += 1
        self.spent = self.spent.plus(cost)
        for warning in {event.message for event in trial.events if type(event) is Noted and event.level == "warning"}:
            self.warnings[warning] += 1
        if reason := why_not_graded(trial):
            self.not_graded[judged.verdict, reason] += 1
        for talk in trial.conversations:
            self.endings[talk.termination_reason, talk.terminated_early] += 1
        rubric = judged.rubric
        if rubric is not None and rubric.overall is None:
            self.unscored.setdefault(rubric.reason or "not scored", Counter())[rubric.name] += 1
        self.isolation.add(trial.isolation)
        if judged.fault is not None:
            self.faults.setdefault(trial.key.scenario_id, Counter())[judged.fault.conduct] += 1
        self.incidents.add(trial)


class TotalsFold:
    """Adds up the trials of a run as they are read: the only code that does."""

    def __init__(self, reading: Reading) -> None:
        self._reading: Reading = reading
        self.found: Totals = Totals()

    def add(self, trial: TrialRecord) -> None:
        self.found.add(trial, self._reading.cost(trial))


class TrialTimes:
    """The numbers that figures are computed from, as trials are read."""

    def __init__(self, reading: Reading) -> None:
        self.collector: FigureCollector = FigureCollector()
        self.add = self.collector.add


def why_not_graded(trial: TrialRecord) -> str:
    """Why something about the trial has no grade; empty if everything has one."""
    judged = trial.judged
    if judged.verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR):
        return judged.reason
    if judged.latency_spoiled:
        return f"latency: {'; '.join(map(str, judged.latency_spoiled))}"
    if judged.rubric is not None and judged.rubric.overall is None:
        return f"rubric {judged.rubric.reason or 'not scored'}"
    return ""
