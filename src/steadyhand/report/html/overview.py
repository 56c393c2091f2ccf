"""The first page: what came of the run, worst first."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.judging.rates import RunSummary, ScenarioRate, Tally, summarise, tally_scenarios
from steadyhand.judging.trial import Alarm, alarm_of
from steadyhand.records.base import Record
from steadyhand.records.evaluation import FailureClass, LatencyBounds, LatencyTier, Outcome, Verdict
from steadyhand.records.event import Noted
from steadyhand.records.run import CostSummary, RunHeader, TrialKey, TrialRecord
from steadyhand.report import wording

WORST_FIRST = (Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASSED)
_OUTCOMES = (Outcome.UNSAFE_LATE, Outcome.UNSAFE_IN_TIME, Outcome.SAFE_LATE, Outcome.SAFE_IN_TIME, None)


class TrialLine(Record):
    """What a list shows of a trial."""

    key: TrialKey
    anchor: str
    name: str
    target: str
    verdict: Verdict
    reason: str
    outcome: Outcome | None = None
    latency_ms: float | None = None
    latency: str = ""
    tier: LatencyTier | None = None
    time_to_safe: str = ""
    alarm: Alarm | None = None
    classes: tuple[FailureClass, ...] = ()
    budget: LatencyBounds | None = None
    not_graded: str = ""
    tags: tuple[str, ...] = ()

    @property
    def rank(self) -> tuple[int, str, int, float]:
        """Worst first: by verdict, then by class of failure, then by outcome, then the slowest."""
        classes = "".join(self.classes) or "Z"
        slow = -(self.latency_ms or 0.0) / (self.budget.critical_ms if self.budget else 1.0)
        return WORST_FIRST.index(self.verdict), classes, _OUTCOMES.index(self.outcome), slow


class GridCell(Record):
    """The trials of a scenario on a target."""

    verdict: Verdict
    passed: int
    total: int
    anchor: str


class GridRow(Record):
    """A scenario: its name, its verdict, and a cell for each target; None where it did not run."""

    scenario_id: str
    name: str
    rate: ScenarioRate | None
    cells: tuple[GridCell | None, ...]
    rank: tuple[int, str]


class Overview(Record):
    """The run as a whole. `lines` are its trials, worst first."""

    header: RunHeader
    status: str
    trials: RunSummary
    scenarios: Tally
    outcomes: dict[Outcome, int]
    targets: tuple[str, ...]
    grid: tuple[GridRow, ...]
    lines: tuple[TrialLine, ...]
    cost: str
    not_graded: dict[str, int]
    warnings: dict[str, int]

    @property
    def verdict(self) -> Verdict:
        return next((verdict for verdict in WORST_FIRST if self.scenarios.by_verdict[verdict]), Verdict.INCONCLUSIVE)

    @property
    def headline(self) -> str:
        """What happened, in one sentence."""
        found = self.scenarios
        if found.failed:
            return f"{found.failed} of {_count(found.total, 'scenario')} failed"
        undecided = found.error + found.inconclusive
        if undecided:
            return f"{undecided} of {_count(found.total, 'scenario')} could not be decided"
        return f"All {_count(found.total, 'scenario')} passed" if found.total != 1 else "The scenario passed"


def overview(
    header: RunHeader, trials: Iterable[TrialRecord], rates: Sequence[ScenarioRate], *, status: str = "finished"
) -> Overview:
    """Reads the trials once and keeps a line of each."""
    prices = Prices.of_run(header)
    spent = CostSummary()
    lines: list[TrialLine] = []
    warnings: Counter[str] = Counter()
    for trial in trials:
        lines.append(trial_line(trial))
        spent = spent.plus(cost_of_trial(trial, prices))
        warnings.update(_warnings(trial))
    lines.sort(key=lambda each: each.rank)
    targets = tuple(dict.fromkeys(each.target for each in lines))
    return Overview(
        header=header,
        status=status,
        trials=summarise(
            Counter(each.verdict for each in lines),
            planned=header.planned,
            alarms=Counter(each.alarm for each in lines if each.alarm),
        ),
        scenarios=tally_scenarios(rates),
        outcomes={outcome: sum(each.outcome is outcome for each in lines) for outcome in Outcome},
        targets=targets,
        grid=_grid(lines, targets, rates),
        lines=tuple(lines),
        cost=wording.cost_line(spent),
        not_graded=dict(Counter(each.not_graded for each in lines if each.not_graded).most_common(12)),
        warnings=dict(warnings.most_common(12)),
    )


def trial_line(trial: TrialRecord) -> TrialLine:
    judged = trial.judged
    return TrialLine(
        key=trial.key,
        anchor=anchor_of(trial.key),
        name=trial.scenario_name if trial.scenario_name != trial.key.scenario_id else "",
        target=target_of(trial),
        verdict=judged.verdict,
        reason=judged.reason,
        outcome=judged.outcome,
        latency_ms=judged.latency_ms,
        latency=wording.latency(judged, trial.evaluations),
        tier=judged.latency_tier,
        time_to_safe=wording.time_to_safe(judged),
        alarm=alarm_of(trial),
        classes=judged.failure_classes,
        budget=next((each.budget for each in trial.evaluations if each.budget is not None), None),
        not_graded=_not_graded(trial),
        tags=trial.tags,
    )


def target_of(trial: TrialRecord) -> str:
    """What was under test, as people call it."""
    return trial.model or trial.agent or "no agent"


def anchor_of(key: TrialKey) -> str:
    """An id for the trial's place in the page. The digest keeps apart what looks alike once it is fit for a link."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", key.scenario_id).strip("-")[:48]
    return f"{name}-{key.index}-{zlib.crc32(str(key).encode('utf-8', 'backslashreplace')):08x}"


def _not_graded(trial: TrialRecord) -> str:
    """Why something about the trial has no grade; empty if everything has one."""
    judged = trial.judged
    if judged.verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR):
        return judged.reason
    if judged.latency_spoiled:
        return f"latency: {'; '.join(map(str, judged.latency_spoiled))}"
    if judged.rubric is not None and judged.rubric.overall is None:
        return f"rubric {judged.rubric.name}: {judged.rubric.reason or 'not scored'}"
    return ""


def _warnings(trial: TrialRecord) -> set[str]:
    return {event.message for event in trial.events if isinstance(event, Noted) and event.level == "warning"}


def _grid(lines: Sequence[TrialLine], targets: Sequence[str], rates: Sequence[ScenarioRate]) -> tuple[GridRow, ...]:
    by_id = {rate.scenario_id: rate for rate in rates}
    groups: dict[str, dict[str, list[TrialLine]]] = {scenario_id: {} for scenario_id in by_id}
    for each in lines:
        groups.setdefault(each.key.scenario_id, {}).setdefault(each.target, []).append(each)
    rows = [_grid_row(scenario_id, group, targets, by_id.get(scenario_id)) for scenario_id, group in groups.items()]
    return tuple(sorted(rows, key=lambda row: row.rank))


def _grid_row(
    scenario_id: str, group: dict[str, list[TrialLine]], targets: Sequence[str], rate: ScenarioRate | None
) -> GridRow:
    worst = min((lines[0] for lines in group.values()), key=lambda each: each.rank, default=None)
    verdict = rate.verdict if rate is not None else worst.verdict if worst is not None else Verdict.INCONCLUSIVE
    classes = "".join(worst.classes) if worst is not None else ""
    return GridRow(
        scenario_id=scenario_id,
        name=worst.name if worst is not None else "",
        rate=rate,
        cells=tuple(_cell(group.get(target, ()), verdict if len(group) == 1 else None) for target in targets),
        rank=(WORST_FIRST.index(verdict), classes or "Z"),
    )


def _cell(lines: Sequence[TrialLine], verdict: Verdict | None) -> GridCell | None:
    """`lines` are worst first. `verdict` is the scenario's, where all of its trials are here."""
    if not lines:
        return None
    passed = sum(each.verdict is Verdict.PASSED for each in lines)
    return GridCell(verdict=verdict or lines[0].verdict, passed=passed, total=len(lines), anchor=lines[0].anchor)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
