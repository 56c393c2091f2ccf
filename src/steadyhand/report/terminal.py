"""The report in the terminal, at the end of a run and for a recorded one.

The most important parts come first: a table by scenario and target, what did not pass, and the totals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from steadyhand.judging.figures import Figures, RunFigures
from steadyhand.judging.rates import RunSummary, ScenarioRate, Tally
from steadyhand.judging.sequential import Decision
from steadyhand.reading.run import Reading
from steadyhand.reading.totals import Totals, TotalsFold, TrialTimes
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.records.isolation import weakest
from steadyhand.records.run import RunHeader, TrialRecord
from steadyhand.report import wording
from steadyhand.report.details import is_conversation, render_incidents, render_passed_checks
from steadyhand.report.failures import Failures
from steadyhand.report.figures import FIGURE_COLUMNS, figure_cells, render_figures
from steadyhand.report.table import Cell, Page, one_line, render_table, tell_apart, visible
from steadyhand.report.transcript import (
    NO_CONDITION,
    Transcripts,
    render_endings,
    render_transcript,
)
from steadyhand.report.wording import RATE_COLUMNS, cost_line, rate_cells, told_apart

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


class ShownTrials(msgspec.Struct):
    """What the table and the failures need of the trials; complete trials only if they are shown in detail.

    `rows` are the first trials, as many as a table has rows, and `not_passed` the first of those that did not pass.
    """

    first: TrialRecord | None = None
    detailed: list[TrialRecord] = []
    rows: list[_Row] = []
    not_passed: list[_Row] = []
    shown: Counter[Verdict] = msgspec.field(default_factory=Counter)
    per_scenario: Counter[str] = msgspec.field(default_factory=Counter)
    names: dict[str, str] = {}
    failures: Failures | None = None


class RunTable:
    """Gathers what is shown of each trial as it is read."""

    def __init__(self, reading: Reading, view: View) -> None:
        self._view: View = view
        self.found: ShownTrials = ShownTrials()

    def add(self, trial: TrialRecord) -> None:
        if self._view.chosen is not None and not self._view.chosen(trial):
            return
        found = self.found
        found.first = found.first or trial
        scenario_id, verdict = trial.key.scenario_id, trial.judged.verdict
        found.shown[verdict] += 1
        found.per_scenario[scenario_id] += 1
        listed = verdict is not Verdict.PASSED and len(found.not_passed) < _ROWS
        if listed or len(found.rows) < _ROWS or scenario_id not in found.names:
            row = _row(trial)
            found.rows += [row] if len(found.rows) < _ROWS else []
            found.not_passed += [row] if listed else []
            found.names.setdefault(scenario_id, row.name)
        if verdict is not Verdict.PASSED:
            if found.failures is None:
                found.failures = Failures(singly=self._view.singly)
            found.failures.add(trial)
        elif self._view.transcripts == "all" or self._view.detail == "everything":
            found.detailed.append(trial)


def want_run(reading: Reading, view: View) -> None:
    """Have the next pass gather what `render_run` shows."""
    reading.want(TotalsFold)
    if reading.repeated:
        reading.want(TrialTimes)
    reading.want(RunTable, view)


def render_run(reading: Reading, page: Page, *, view: View = View()) -> Iterator[str]:  # noqa: B008 - frozen
    """The lines: the table, why trials did not pass, warnings, the totals, and where the record is.

    Raises `StoreError` if the record cannot be read.
    """
    want_run(reading, view)
    found = reading.gathered(RunTable, view).found
    figures = reading.figures if reading.repeated else None
    quiet = view.detail == "quiet"
    if not quiet:
        yield from _tables(reading, found, figures, page, view)
    planned = {rate.scenario_id: rate.total for rate in reading.rates}
    if found.failures is not None:
        if not quiet:
            yield ""
        run_id = reading.header.id
        yield from found.failures.render(page, planned, run_id=run_id, short=quiet, transcripts=view.transcripts)
    yield from _passed_in_full(found, planned, page, view)
    if reading.header.variants:
        from steadyhand.report.faults import render_faults
        from steadyhand.report.variants import render_variants

        yield from render_variants(reading, page, quiet=quiet)
        yield from render_faults(reading, page)
    if not quiet:
        yield from _remarks(reading.totals, page)
        if figures is not None and (lines := list(render_figures(figures, page))):
            yield ""
            yield from lines
    if not quiet or found.failures is not None:
        yield ""
    yield from _totals(reading, found, page, view)
    if any(reading.totals.isolation) and (isolation := weakest(reading.totals.isolation)) is not None:
        yield f"isolation: {isolation}"
    yield from _provenance(reading.header)
    yield f"record: {reading.path}"
    if reading.status != "finished":
        yield f"status: {reading.status}"


def _totals(reading: Reading, found: ShownTrials, page: Page, view: View) -> Iterator[str]:
    totals = reading.totals
    if view.chosen is not None:
        yield f"{found.shown.total()} of {totals.counts.total()} trials shown; the totals are of the whole run"
    yield summary_line(reading.summary, page)
    decided = scenarios_line(reading, page)
    if decided is not None:
        yield decided
    if totals.outcomes.total() > 1:
        counts = [(outcome, totals.outcomes[outcome]) for outcome in Outcome if totals.outcomes[outcome]]
        listed = [page.paint(f"{count} {each.replace('_', ' ')}", _OUTCOME_STYLE[each]) for each, count in counts]
        yield f"outcomes: {', '.join(listed)}"
    if totals.spent.total.tokens:
        yield cost_line(totals.spent)


def scenarios_line(reading: Reading, page: Page) -> str | None:
    """Such as `2 scenarios: 1 passed, 1 failed`, which decides the exit code; None if the trials already say so."""
    rates, header = reading.rates, reading.header
    if all(rate.total + rate.saved <= 1 for rate in rates):
        return None
    noun = "combination" if len(reading.matrices) == len(rates) else "scenario"
    line = f"{counted(len(rates), noun)}: {_counts(reading.scenarios, page)}"
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
    found = [counted(count, f"{kind} alarm") for kind, count in alarms.items() if count]
    line += f" ({', '.join(found)})" if found else ""
    line += f"; {summary.saved} saved" if summary.saved else ""
    return line + (f"; {summary.not_run} planned but not run" if summary.not_run else "")


def _provenance(header: RunHeader) -> Iterator[str]:
    """Notes on the judge and on where the trials come from."""
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


def _passed_in_full(found: ShownTrials, planned: Mapping[str, int], page: Page, view: View) -> Iterator[str]:
    """The transcripts of trials that passed: those asked for, and that of a single conversation."""
    detailed = found.detailed
    if view == View() and found.shown.total() == 1 and found.failures is None and found.first is not None:
        detailed = [found.first] if is_conversation(found.first) else []
    for trial in detailed:
        yield ""
        numbered = planned.get(trial.key.scenario_id, 0) > 1
        yield page.paint(visible(wording.scenario_label(trial, numbered=numbered)), "strong")
        if view.singly:
            yield from render_passed_checks(trial, page)
        yield from render_endings(trial, page)
        if view.transcripts != "none":
            yield from render_transcript(trial, page, whole=view.singly)


def _remarks(totals: Totals, page: Page) -> Iterator[str]:
    """How conversations ended, rubrics that were not scored, warnings and incidents, each after an empty line."""
    if totals.endings or totals.unscored:
        yield ""
        yield from _endings_and_rubrics(totals, page)
    if totals.warnings:
        yield ""
        for message, count in totals.warnings.items():
            mark = f" ({count} trials)" if count > 1 else ""
            lines = list(page.wrap(message + mark, indent=len("warning: ")))
            yield f"{page.paint('warning:', 'fair')} {lines[0]}"
            yield from (" " * len("warning: ") + line for line in lines[1:])
    if happened := list(render_incidents(totals.incidents, page)):
        yield ""
        yield from happened


def _tables(reading: Reading, found: ShownTrials, figures: RunFigures | None, page: Page, view: View) -> Iterator[str]:
    """By scenario and target; by trial where every scenario has one, or where trials are shown one by one."""
    header, rates, in_matrix = reading.header, reading.rates, reading.matrices
    by_scenario = any(rate.total + rate.saved > 1 for rate in rates)
    if view.singly or figures is None or not (by_scenario or in_matrix):
        yield from _trial_table(header, found, page)
        if view.singly:
            return
    elif apart := [rate for rate in rates if rate.scenario_id not in in_matrix]:
        yield from _scenario_table(header, apart, found, {each.name: each for each in figures.scenarios}, page)
    if header.matrices:
        from steadyhand.report.matrix import render_matrix

        for number, matrix in enumerate(header.matrices):
            if number or len(in_matrix) < len(rates):
                yield ""
            yield from render_matrix(matrix, reading.rate, page, header.targets)


def _scenario_table(
    header: RunHeader, rates: Sequence[ScenarioRate], found: ShownTrials, figures: Mapping[str, Figures], page: Page
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


def _trial_table(header: RunHeader, found: ShownTrials, page: Page) -> Iterator[str]:
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


def _endings_and_rubrics(totals: Totals, page: Page) -> Iterator[str]:
    """How conversations ended and which rubrics were not scored, which the rows have no room for."""
    if totals.endings:
        endings = ", ".join(
            f"{count} x {one_line(reason or NO_CONDITION)}{' (early)' if early else ''}"
            for (reason, early), count in totals.endings.most_common()
        )
        yield from page.wrap(f"conversation endings: {endings}", indent=0)
    for reason, rubrics in totals.unscored.items():
        count = rubrics.total()
        trials = f" ({count} trials)" if count > 1 else ""
        names = ", ".join(map(one_line, rubrics))
        yield from page.wrap(f"rubric {names} {one_line(reason or 'not scored')}{trials}", indent=0)
