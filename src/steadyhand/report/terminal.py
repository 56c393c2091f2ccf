"""The report in the terminal, at the end of a run and for a recorded one.

The most important parts come first: a table by scenario and target, what did not pass, and the totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from steadyhand.judging.cost import CostSummary, Prices, cost_of_trial
from steadyhand.judging.figures import FigureCollector, Figures, RunFigures
from steadyhand.judging.rates import RunSummary, ScenarioRate, Tally, summarise, tally_scenarios
from steadyhand.judging.sequential import Decision
from steadyhand.judging.trial import Alarm, alarm_of
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.records.event import Noted
from steadyhand.records.isolation import IsolationKind, weakest
from steadyhand.records.run import RunHeader, TrialRecord
from steadyhand.report import wording
from steadyhand.report.details import Incidents, is_conversation, render_incidents, render_passed_checks
from steadyhand.report.figures import FIGURE_COLUMNS, figure_cells, render_figures
from steadyhand.report.table import Cell, Page, one_line, render_table, tell_apart, visible
from steadyhand.report.transcript import (
    NO_CONDITION,
    Transcripts,
    render_endings,
    render_transcript,
)
from steadyhand.report.wording import RATE_COLUMNS, cost_line, rate_cells, told_apart
from steadyhand.store.reader import RunReader

if TYPE_CHECKING:
    from steadyhand.report.failures import Failures

_COLUMNS = (
    "verdict",
    "scenario",
    "outcome",
    "latency",
    "first token",
    "safe after",
    "safe by t/a/c",
    "rubric",
    "checks",
    "ended",
)
_LEFT_OUT_FIRST = (7, 4, 6, 5, 9)
_OUTCOME_STYLE = {
    Outcome.SAFE_IN_TIME: "good",
    Outcome.SAFE_LATE: "fair",
    Outcome.UNSAFE_IN_TIME: "bad",
    Outcome.UNSAFE_LATE: "bad",
}
_ROWS = 200
_TARGET = 32
Detail = Literal["quiet", "normal", "all", "everything"]
"""*quiet*: what did not pass, and the totals. *all*: every trial that did not pass, one by one. *everything*: those
that passed too."""


class View(Record):
    """How much of a run to show. `chosen` says which of its trials; totals are always those of the whole run."""

    detail: Detail = "normal"
    transcripts: Transcripts | None = None
    chosen: Callable[[TrialRecord], bool] | None = None

    @property
    def singly(self) -> bool:
        """Whether trials are shown one by one."""
        return self.chosen is not None or self.detail in ("all", "everything")


class _Row(NamedTuple):
    scenario_id: str
    number: int
    name: str
    verdict: Verdict
    cells: tuple[Cell, ...]


class _Gathered:
    """What is kept of each trial as it is read; complete trials only if they are shown in detail."""

    def __init__(self, view: View, prices: Prices, *, figures: bool) -> None:
        self._view: View = view
        self._prices: Prices = prices
        self.spent: CostSummary = CostSummary()
        self.first: TrialRecord | None = None
        self.told: list[TrialRecord] = []
        self.rows: list[_Row] = []
        """The first trials that are shown, as many as a table has rows."""
        self.not_passed: list[_Row] = []
        """The first of those that did not pass, likewise."""
        self.shown: Counter[Verdict] = Counter()
        self.per_scenario: Counter[str] = Counter()
        self.names: dict[str, str] = {}
        self.failures: Failures | None = None
        self.warnings: Counter[str] = Counter()
        self.counts: Counter[Verdict] = Counter()
        self.outcomes: Counter[Outcome] = Counter()
        self.alarms: Counter[Alarm] = Counter()
        self.figures: FigureCollector | None = FigureCollector() if figures else None
        self.incidents: Incidents = Incidents()
        self.endings: Counter[str] = Counter()
        self.unscored: dict[str, Counter[str]] = {}
        self.isolation: set[IsolationKind | None] = set()

    def add(self, trial: TrialRecord) -> None:
        judged = trial.judged
        self.counts[judged.verdict] += 1
        self.isolation.add(trial.isolation)
        self.spent = self.spent.plus(cost_of_trial(trial, self._prices))
        self.incidents.add(trial)
        if self.figures is not None:
            self.figures.add(trial)
        if judged.outcome is not None:
            self.outcomes[judged.outcome] += 1
        for talk in trial.conversations:
            early = " (early)" if talk.terminated_early else ""
            self.endings[f"{one_line(talk.termination_reason or NO_CONDITION)}{early}"] += 1
        rubric = judged.rubric
        if rubric is not None and rubric.overall is None:
            self.unscored.setdefault(one_line(rubric.reason or "not scored"), Counter())[one_line(rubric.name)] += 1
        if alarm := alarm_of(trial):
            self.alarms[alarm] += 1
        self.warnings.update(
            {event.message for event in trial.events if isinstance(event, Noted) and event.level == "warning"}
        )
        if self._view.chosen is None or self._view.chosen(trial):
            self._show(trial)

    def _show(self, trial: TrialRecord) -> None:
        self.first = self.first or trial
        scenario_id, verdict = trial.key.scenario_id, trial.judged.verdict
        self.shown[verdict] += 1
        self.per_scenario[scenario_id] += 1
        listed = verdict is not Verdict.PASSED and len(self.not_passed) < _ROWS
        if listed or len(self.rows) < _ROWS or scenario_id not in self.names:
            row = _row(trial)
            self.rows += [row] if len(self.rows) < _ROWS else []
            self.not_passed += [row] if listed else []
            self.names.setdefault(scenario_id, row.name)
        if verdict is not Verdict.PASSED:
            if self.failures is None:
                from steadyhand.report.failures import Failures

                self.failures = Failures(singly=self._view.singly)
            self.failures.add(trial)
        elif self._view.transcripts == "all" or self._view.detail == "everything":
            self.told.append(trial)


def render_run(
    header: RunHeader,
    trials: Iterable[TrialRecord],
    page: Page,
    *,
    rates: Sequence[ScenarioRate] = (),
    record: Path | None = None,
    view: View = View(),  # noqa: B008 - frozen
) -> Iterator[str]:
    """The lines: the table, why trials did not pass, warnings, the totals, and where the record is.

    `rates` are the results of the scenarios.
    """
    found = _Gathered(view, Prices.of_run(header), figures=_several_trials(rates))
    for trial in trials:
        found.add(trial)
    figures = None if found.figures is None else found.figures.figures(header, rates)
    quiet = view.detail == "quiet"
    if not quiet:
        yield from _tables(header, rates, found, figures, page, view)
    planned = {rate.scenario_id: rate.total for rate in rates} or found.per_scenario
    if found.failures is not None:
        if not quiet:
            yield ""
        yield from found.failures.render(page, planned, run_id=header.id, short=quiet, transcripts=view.transcripts)
    yield from _passed_in_full(found, planned, page, view)
    if not quiet:
        yield from _remarks(found, page)
        if figures is not None and (lines := list(render_figures(figures, page))):
            yield ""
            yield from lines
    if not quiet or found.failures is not None:
        yield ""
    yield from _totals(header, rates, found, page, view)
    if (isolation := weakest(found.isolation)) is not None:
        yield f"isolation: {isolation}"
    yield from _provenance(header, record)


def render_stored_run(
    reader: RunReader,
    rates: Sequence[ScenarioRate],
    page: Page,
    *,
    view: View = View(),  # noqa: B008 - frozen
) -> Iterator[str]:
    """A recorded run, as it was shown when it ended. Raises `StoreError` if it cannot be read."""
    yield from render_run(reader.header, reader.trials(), page, rates=rates, record=reader.path, view=view)
    if reader.status != "finished":
        yield f"status: {reader.status}"


def _several_trials(rates: Sequence[ScenarioRate]) -> bool:
    """A single trial of a single scenario has no figures beyond its own."""
    return len(rates) > 1 or any(rate.total + rate.saved > 1 for rate in rates)


def _totals(
    header: RunHeader, rates: Sequence[ScenarioRate], found: _Gathered, page: Page, view: View
) -> Iterator[str]:
    if view.chosen is not None:
        yield f"{found.shown.total()} of {found.counts.total()} trials shown; the totals are of the whole run"
    saved = sum(rate.saved for rate in rates)
    yield summary_line(summarise(found.counts, planned=header.planned, saved=saved, alarms=found.alarms), page)
    decided = scenarios_line(header, rates, page)
    if decided is not None:
        yield decided
    if found.outcomes.total() > 1:
        counts = [(outcome, found.outcomes[outcome]) for outcome in Outcome if found.outcomes[outcome]]
        told = [page.paint(f"{count} {each.replace('_', ' ')}", _OUTCOME_STYLE[each]) for each, count in counts]
        yield f"outcomes: {', '.join(told)}"
    if found.spent.total.tokens:
        yield cost_line(found.spent)


def scenarios_line(header: RunHeader, rates: Sequence[ScenarioRate], page: Page) -> str | None:
    """Such as `2 scenarios: 1 passed, 1 failed`, which decides the exit code; None if the trials already say so."""
    if all(rate.total + rate.saved <= 1 for rate in rates):
        return None
    noun = "combination" if sum(len(each.combinations) for each in header.matrices) == len(rates) else "scenario"
    line = f"{len(rates)} {noun}{'s' if len(rates) > 1 else ''}: {_counts(tally_scenarios(rates), page)}"
    if header.until is None:
        return line
    undecided = sum(rate.until is not None and rate.until.decision is Decision.UNDECIDED for rate in rates)
    return f"{line} (until decided at alpha {header.alpha:g}" + (f": {undecided} undecided)" if undecided else ")")


def _counts(tally: Tally, page: Page) -> str:
    """Such as `2 passed, 1 failed`: each verdict that occurs."""
    counts = tally.by_verdict.items()
    return ", ".join(page.paint(f"{count} {verdict}", verdict) for verdict, count in counts if count)


def summary_line(summary: RunSummary, page: Page) -> str:
    """Such as `3 trials: 2 passed, 1 failed (1 missed alarm); 97 saved`."""
    line = (
        f"{counted(summary.finished, 'trial')}: {_counts(summary, page)}" if summary.finished else "no trials were run"
    )
    alarms = {"missed": summary.missed_alarms, "false": summary.false_alarms}
    found = [f"{count} {kind} alarm{'s' if count > 1 else ''}" for kind, count in alarms.items() if count]
    line += f" ({', '.join(found)})" if found else ""
    line += f"; {summary.saved} saved" if summary.saved else ""
    return line + (f"; {summary.not_run} planned but not run" if summary.not_run else "")


def _provenance(header: RunHeader, record: Path | None) -> Iterator[str]:
    """Notes on the judge and on where the trials come from, and the path of the record."""
    if header.canaries is not None:
        from steadyhand.report.calibration import render_canaries

        yield from render_canaries(header.canaries)
    if header.origin is not None:
        yield f"judged again from run {visible(header.origin)}; no agent was run"
    if header.failed_of is not None:
        yield f"only what did not pass in run {visible(header.failed_of)}; its other scenarios were not run again"
    if header.shard is not None:
        yield f"shard {header.shard}: {header.planned} of {sum(header.shard.trials.values())} trials"
    if header.merged_from:
        yield f"merged from {', '.join(map(visible, header.merged_from))}"
    if record is not None:
        yield f"record: {record}"


def _passed_in_full(found: _Gathered, planned: Mapping[str, int], page: Page, view: View) -> Iterator[str]:
    """The transcripts of trials that passed: those asked for, and that of a single conversation."""
    told = found.told
    if view == View() and found.shown.total() == 1 and found.failures is None and found.first is not None:
        told = [found.first] if is_conversation(found.first) else []
    for trial in told:
        yield ""
        numbered = planned.get(trial.key.scenario_id, 0) > 1
        yield page.paint(visible(wording.scenario_label(trial, numbered=numbered)), "strong")
        if view.singly:
            yield from render_passed_checks(trial, page)
        yield from render_endings(trial, page)
        if view.transcripts != "none":
            yield from render_transcript(trial, page, whole=view.singly)


def _remarks(found: _Gathered, page: Page) -> Iterator[str]:
    """How conversations ended, rubrics that were not scored, warnings and incidents, each after an empty line."""
    if found.endings or found.unscored:
        yield ""
        yield from _endings_and_rubrics(found, page)
    if found.warnings:
        yield ""
        yield from _warnings(found.warnings, page)
    if happened := list(render_incidents(found.incidents, page)):
        yield ""
        yield from happened


def _tables(
    header: RunHeader,
    rates: Sequence[ScenarioRate],
    found: _Gathered,
    figures: RunFigures | None,
    page: Page,
    view: View,
) -> Iterator[str]:
    """By scenario and target; by trial where every scenario has one, or where trials are shown one by one."""
    in_matrix = {each for matrix in header.matrices for each in matrix.combinations}
    by_scenario = any(rate.total + rate.saved > 1 for rate in rates)
    if view.singly or figures is None or not (by_scenario or in_matrix):
        yield from _trial_table(header, found, page)
        if view.singly:
            return
    elif apart := [rate for rate in rates if rate.scenario_id not in in_matrix]:
        yield from _scenario_table(header, apart, found, {each.name: each for each in figures.scenarios}, page)
    if header.matrices:
        from steadyhand.report.matrix import render_matrix

        by_id = {rate.scenario_id: rate for rate in rates}
        for number, matrix in enumerate(header.matrices):
            if number or len(in_matrix) < len(rates):
                yield ""
            yield from render_matrix(matrix, by_id, page, header.targets)


def _scenario_table(
    header: RunHeader, rates: Sequence[ScenarioRate], found: _Gathered, figures: Mapping[str, Figures], page: Page
) -> Iterator[str]:
    shown = rates
    if len(rates) > _ROWS:
        shown = sorted(rates, key=lambda rate: rate.verdict is Verdict.PASSED)[:_ROWS]
    beside = _shortened(told_apart([rate.scenario_id for rate in rates], header.targets, among=("agent", "model")))
    columns = list(beside[rates[0].scenario_id]) if beside else []
    rows: list[tuple[Cell, ...]] = []
    for rate in shown:
        known = header.targets[rate.scenario_id].scenario if columns else rate.scenario_id
        rows.append(
            (
                Cell(text=rate.verdict, style=rate.verdict),
                Cell(text=f"{one_line(known)}{found.names.get(rate.scenario_id, '')}"),
                *(Cell(text=one_line(beside[rate.scenario_id][column])) for column in columns),
                *rate_cells(rate),
                *figure_cells(figures[rate.scenario_id]),
            )
        )
    names = ("verdict", "scenario", *columns, *RATE_COLUMNS, *FIGURE_COLUMNS)
    last = len(names) - 1
    optional = [*range(last, last - 3, -1), names.index("pass^k"), names.index("95% interval")]
    yield from render_table(names, rows, page, giving_way=1, optional=optional, cuttable=range(2, 2 + len(columns)))
    if len(rates) > _ROWS:
        yield f"({len(rates) - _ROWS} more scenarios not listed)"


def _shortened(beside: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """What distinguishes the targets, truncated so that it still does."""
    found: dict[str, dict[str, str]] = {each: {} for each in beside}
    for column in next(iter(beside.values())) if beside else ():
        texts = tell_apart([one_line(beside[each][column]) for each in beside], _TARGET)
        for each, text in zip(beside, texts, strict=True):
            found[each][column] = text
    return found


def _trial_table(header: RunHeader, found: _Gathered, page: Page) -> Iterator[str]:
    several = found.per_scenario
    folded = found.shown.total() > _ROWS
    rows = found.not_passed if folded else found.rows
    left_out = found.shown[Verdict.PASSED] if folded else 0
    cut = found.shown.total() - left_out - len(rows)
    beside = _shortened(told_apart(list(several), header.targets, among=("agent", "model")))
    columns = list(beside[rows[0].scenario_id]) if beside else []
    table: list[tuple[Cell, ...]] = []
    for row in rows:
        known = one_line(header.targets[row.scenario_id].scenario if columns else row.scenario_id)
        number = f"#{row.number}" if several[row.scenario_id] > 1 else ""
        table.append(
            (
                Cell(text=row.verdict, style=row.verdict),
                Cell(text=f"{known}{number}{row.name}"),
                *(Cell(text=one_line(beside[row.scenario_id][column])) for column in columns),
                *row.cells,
            )
        )
    names = (*_COLUMNS[:2], *columns, *_COLUMNS[2:])
    optional = [at + len(columns) for at in _LEFT_OUT_FIRST]
    yield from render_table(names, table, page, giving_way=1, optional=optional, cuttable=range(2, 2 + len(columns)))
    if any(cell.text.endswith("*") for row in rows for cell in row.cells):
        yield "* excluding invariants that can only be checked on the complete answer"
    if left_out:
        yield f"({left_out} passed trials not listed)"
    if cut > 0:
        yield f"({cut} more trials that did not pass are not listed)"


def _row(trial: TrialRecord) -> _Row:
    judged = trial.judged
    passed = sum(evaluation.success for evaluation in trial.evaluations)
    named = trial.scenario_name and trial.scenario_name != trial.key.scenario_id
    return _Row(
        scenario_id=trial.key.scenario_id,
        number=trial.key.index,
        name=f"  {one_line(trial.scenario_name)}" if named else "",
        verdict=judged.verdict,
        cells=(
            Cell(text=judged.outcome.replace("_", " "), style=_OUTCOME_STYLE[judged.outcome])
            if judged.outcome
            else Cell(),
            Cell(text=wording.latency(judged, trial.evaluations) + wording.proxied(trial)),
            Cell(text=wording.milliseconds_or_nothing(judged.time_to_first_token_ms)),
            Cell(text=wording.time_to_safe(judged)),
            Cell(text=wording.safe_by_deadline(judged)),
            Cell(text=wording.rubric_score(judged.rubric)),
            Cell(text=f"{passed}/{len(trial.evaluations)}"),
            Cell(text=wording.ended(trial), style="fair"),
        ),
    )


def _endings_and_rubrics(found: _Gathered, page: Page) -> Iterator[str]:
    """How conversations ended and which rubrics were not scored, which the rows have no room for."""
    if found.endings:
        told = ", ".join(f"{count} x {reason}" for reason, count in found.endings.most_common())
        yield from page.wrap(f"conversation endings: {told}", indent=0)
    for reason, rubrics in found.unscored.items():
        count = rubrics.total()
        trials = f" ({count} trials)" if count > 1 else ""
        yield from page.wrap(f"rubric {', '.join(rubrics)} {reason}{trials}", indent=0)


def _warnings(warnings: Counter[str], page: Page) -> Iterator[str]:
    for message, count in warnings.items():
        mark = f" ({count} trials)" if count > 1 else ""
        lines = list(page.wrap(message + mark, indent=len("warning: ")))
        yield f"{page.paint('warning:', 'fair')} {lines[0]}"
        yield from (" " * len("warning: ") + line for line in lines[1:])
