"""The overview of a run, worst first."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from steadyhand.errors import ExitCode
from steadyhand.judging.rates import ScenarioRate
from steadyhand.judging.trial import Alarm, alarm_of
from steadyhand.reading.run import Reading
from steadyhand.reading.totals import TotalsFold, why_not_graded
from steadyhand.records.base import Record
from steadyhand.records.evaluation import WORST_FIRST, FailureClass, LatencyBounds, LatencyTier, Outcome, Verdict
from steadyhand.records.isolation import IsolationKind, weakest
from steadyhand.records.run import Target, TrialKey, TrialRecord
from steadyhand.report import wording

_MOST_REASONS = 12
_OUTCOMES = (Outcome.UNSAFE_LATE, Outcome.UNSAFE_IN_TIME, Outcome.SAFE_LATE, Outcome.SAFE_IN_TIME, None)


class TrialLine(Record):
    """A trial as shown in lists. `scenario` is the same for all its targets."""

    key: TrialKey
    scenario: str
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
    def anchor(self) -> str:
        return anchor_of(self.key)

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


class TrialLines:
    """The lines of a run's trials, gathered as they are read."""

    def __init__(self, reading: Reading) -> None:
        self._reading: Reading = reading
        self._lines: list[TrialLine] = []

    def add(self, trial: TrialRecord) -> None:
        self._lines.append(trial_line(trial, self._reading.target(trial)))

    @property
    def worst_first(self) -> list[TrialLine]:
        return sorted(self._lines, key=lambda each: each.rank)


class Overview:
    """The run as a whole: `lines` are its trials, `grid` its scenarios by target; both worst first."""

    def __init__(self, reading: Reading) -> None:
        want_overview(reading)
        self.reading: Reading = reading
        self.lines: list[TrialLine] = reading.gathered(TrialLines).worst_first
        grid = _Grid(reading, self.lines)
        self.targets: tuple[str, ...] = grid.targets
        self.grid: tuple[GridRow, ...] = grid.rows()
        self.headline: str = wording.headline(reading.scenarios, whole=reading.exit_code is not ExitCode.UNDECIDED)
        self.outcomes: dict[Outcome, int] = {outcome: reading.totals.outcomes[outcome] for outcome in Outcome}
        self.cost: str = wording.cost_line(reading.totals.spent)
        not_graded = sorted(
            reading.totals.not_graded.items(), key=lambda each: (-each[1], WORST_FIRST.index(each[0][0]))
        )
        self.not_graded: list[tuple[str, int]] = [(reason, count) for (_, reason), count in not_graded[:_MOST_REASONS]]
        self.warnings: dict[str, int] = dict(reading.totals.warnings.most_common(_MOST_REASONS))
        self.isolation: IsolationKind | None = weakest(reading.totals.isolation)

    @property
    def sparse(self) -> bool:
        return is_sparse([row.cells for row in self.grid])


def is_sparse(rows: Sequence[Sequence[object]]) -> bool:
    """Whether scenarios ran on so few of the targets that a grid of them, with None where they did not, would be mostly
    empty."""
    cells = [cell is not None for row in rows for cell in row]
    return len(rows) > 0 and len(rows[0]) > 1 and 2 * sum(cells) <= len(cells)


def want_overview(reading: Reading) -> None:
    """Have the next pass gather what an overview shows."""
    reading.want(TotalsFold)
    reading.want(TrialLines)


def trial_line(trial: TrialRecord, target: Target) -> TrialLine:
    judged = trial.judged
    return TrialLine(
        key=trial.key,
        scenario=row_of(target),
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
        not_graded=why_not_graded(trial),
        tags=trial.tags,
    )


def row_of(target: Target) -> str:
    """The scenario, with what a matrix sets besides the target."""
    cell = ", ".join(f"{name}={wording.axis_value(value)}" for name, value in target.cell.items())
    return f"{target.scenario} [{cell}]" if cell else target.scenario


def anchor_of(key: TrialKey) -> str:
    """An HTML id for the trial. The digest keeps ids unique after special characters are replaced."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", key.scenario_id).strip("-")[:48]
    return f"{name}-{key.index}-{zlib.crc32(str(key).encode('utf-8', 'backslashreplace')):08x}"


class _Grid:
    """The scenarios of a run by target, from the plan and the results."""

    def __init__(self, reading: Reading, lines: Sequence[TrialLine]) -> None:
        """`lines` are worst first."""
        self._rates: dict[tuple[str, str], list[ScenarioRate]] = {}
        self._lines: dict[tuple[str, str], list[TrialLine]] = {}
        places: dict[str, tuple[str, str]] = {}
        for each in lines:
            places[each.key.scenario_id] = (each.scenario, each.target)
            self._lines.setdefault((each.scenario, each.target), []).append(each)
        for rate in reading.rates:
            known = reading.header.targets.get(rate.scenario_id) or Target(scenario=rate.scenario_id)
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
            reason=lines[0].reason if lines and worst.variant is None else worst.reason,
            anchor=lines[0].anchor if lines else None,
        )
