"""The overview of a run, worst first."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

from steadyhand.judging.cost import CostSummary, Prices, cost_of_trial
from steadyhand.judging.rates import RunSummary, ScenarioRate, Tally, summarise, tally_scenarios
from steadyhand.judging.trial import Alarm, alarm_of
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import FailureClass, LatencyBounds, LatencyTier, Outcome, Verdict
from steadyhand.records.event import Noted
from steadyhand.records.isolation import IsolationKind, weakest
from steadyhand.records.run import RunHeader, Target, TrialKey, TrialRecord
from steadyhand.report import wording

WORST_FIRST = (Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.PASSED)
_OUTCOMES = (Outcome.UNSAFE_LATE, Outcome.UNSAFE_IN_TIME, Outcome.SAFE_LATE, Outcome.SAFE_IN_TIME, None)


class TrialLine(Record):
    """A trial as shown in lists. `scenario` is the same for all its targets."""

    key: TrialKey
    scenario: str
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
    """The trials of a scenario on a target. `anchor` is the worst of them; None if none was run."""

    verdict: Verdict
    passed: int
    total: int
    required: float | None
    reason: str
    anchor: str | None


class GridRow(Record):
    """A scenario: its name, and a cell for each target; None if it was not planned."""

    scenario_id: str
    name: str
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
    isolation: IsolationKind | None

    @property
    def verdict(self) -> Verdict:
        return next((verdict for verdict in WORST_FIRST if self.scenarios.by_verdict[verdict]), Verdict.INCONCLUSIVE)

    @property
    def headline(self) -> str:
        """A one-sentence summary."""
        found = self.scenarios
        if found.failed:
            return f"{found.failed} of {counted(found.total, 'scenario')} failed"
        undecided = found.error + found.inconclusive
        if undecided:
            return f"{undecided} of {counted(found.total, 'scenario')} could not be decided"
        return f"All {counted(found.total, 'scenario')} passed" if found.total != 1 else "The scenario passed"


def overview(
    header: RunHeader, trials: Iterable[TrialRecord], rates: Sequence[ScenarioRate], *, status: str = "finished"
) -> Overview:
    """Reads the trials once and keeps one line per trial."""
    prices = Prices.of_run(header)
    spent = CostSummary()
    lines: list[TrialLine] = []
    warnings: Counter[str] = Counter()
    isolation: set[IsolationKind | None] = set()
    for trial in trials:
        isolation.add(trial.isolation)
        lines.append(trial_line(trial, target_of(header, trial)))
        spent = spent.plus(cost_of_trial(trial, prices))
        warnings.update(_warnings(trial))
    lines.sort(key=lambda each: each.rank)
    grid = _Grid(header, lines, rates)
    return Overview(
        header=header,
        status=status,
        trials=summarise(
            Counter(each.verdict for each in lines),
            planned=header.planned,
            saved=sum(rate.saved for rate in rates),
            alarms=Counter(each.alarm for each in lines if each.alarm),
        ),
        scenarios=tally_scenarios(rates),
        outcomes={outcome: sum(each.outcome is outcome for each in lines) for outcome in Outcome},
        targets=grid.targets,
        grid=grid.rows(),
        lines=tuple(lines),
        cost=wording.cost_line(spent),
        not_graded=dict(Counter(each.not_graded for each in lines if each.not_graded).most_common(12)),
        warnings=dict(warnings.most_common(12)),
        isolation=weakest(isolation),
    )


def trial_line(trial: TrialRecord, target: Target) -> TrialLine:
    judged = trial.judged
    return TrialLine(
        key=trial.key,
        scenario=row_of(target),
        anchor=anchor_of(trial.key),
        name=trial.scenario_name if trial.scenario_name != trial.key.scenario_id else "",
        target=target.name,
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


def target_of(header: RunHeader, trial: TrialRecord) -> Target:
    """The target of the trial; if the record does not say, as far as the trial knows."""
    known = header.targets.get(trial.key.scenario_id)
    return known or Target(scenario=trial.key.scenario_id, model=trial.model or trial.agent or None)


def row_of(target: Target) -> str:
    """The scenario, with what a matrix sets besides the target."""
    cell = ", ".join(f"{name}={wording.axis_value(value)}" for name, value in target.cell.items())
    return f"{target.scenario} [{cell}]" if cell else target.scenario


def anchor_of(key: TrialKey) -> str:
    """An HTML id for the trial. The digest keeps ids unique after special characters are replaced."""
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
        return f"rubric {judged.rubric.reason or 'not scored'}"
    return ""


def _warnings(trial: TrialRecord) -> set[str]:
    return {event.message for event in trial.events if isinstance(event, Noted) and event.level == "warning"}


class _Grid:
    """The scenarios of a run by target, from the plan and the results."""

    def __init__(self, header: RunHeader, lines: Sequence[TrialLine], rates: Sequence[ScenarioRate]) -> None:
        """`lines` are worst first."""
        self._rates: dict[tuple[str, str], list[ScenarioRate]] = {}
        self._lines: dict[tuple[str, str], list[TrialLine]] = {}
        places: dict[str, tuple[str, str]] = {}
        for each in lines:
            places[each.key.scenario_id] = (each.scenario, each.target)
            self._lines.setdefault((each.scenario, each.target), []).append(each)
        for rate in rates:
            known = header.targets.get(rate.scenario_id) or Target(scenario=rate.scenario_id)
            place = places.get(rate.scenario_id) or (row_of(known), known.name)
            self._rates.setdefault(place, []).append(rate)
        self.targets: tuple[str, ...] = tuple(dict.fromkeys(target for _, target in self._rates))

    def rows(self) -> tuple[GridRow, ...]:
        scenarios = dict.fromkeys(scenario for scenario, _ in self._rates)
        return tuple(sorted(map(self._row, scenarios), key=lambda row: row.rank))

    def _row(self, scenario: str) -> GridRow:
        cells = tuple(self._cell(scenario, target) for target in self.targets)
        lines = [each for target in self.targets for each in self._lines.get((scenario, target), ())]
        worst = min(lines, key=lambda each: each.rank, default=None)
        verdict = min(WORST_FIRST.index(cell.verdict) for cell in cells if cell is not None)
        classes = "".join(worst.classes) if worst is not None else ""
        name = worst.name if worst is not None else ""
        return GridRow(scenario_id=scenario, name=name, cells=cells, rank=(verdict, classes or "Z"))

    def _cell(self, scenario: str, target: str) -> GridCell | None:
        rates = self._rates.get((scenario, target))
        if not rates:
            return None
        lines = self._lines.get((scenario, target), ())
        worst = min(rates, key=lambda rate: WORST_FIRST.index(rate.verdict))
        return GridCell(
            verdict=worst.verdict,
            passed=sum(rate.passed for rate in rates),
            total=sum(rate.total for rate in rates),
            required=worst.required,
            reason=lines[0].reason if lines else worst.reason,
            anchor=lines[0].anchor if lines else None,
        )
