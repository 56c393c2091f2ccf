"""The report in the terminal, at the end of a run and for a recorded one.

The results of a matrix have a row for each combination, and one for each value of each parameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from steadyhand.judging.cost import Prices, cost_of_trial
from steadyhand.judging.figures import FigureCollector, Figures
from steadyhand.judging.rates import RunSummary, ScenarioRate, Tally, ValueRate, summarise, tally_scenarios, value_rates
from steadyhand.judging.sequential import Decision
from steadyhand.judging.trial import Alarm, alarm_of
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.records.event import Noted
from steadyhand.records.run import CostSummary, RunHeader, RunMatrix, Target, TrialRecord
from steadyhand.report import wording
from steadyhand.report.details import (
    NO_CONDITION,
    Incidents,
    Transcripts,
    is_conversation,
    render_details,
    render_endings,
    render_incidents,
    render_transcript,
)
from steadyhand.report.figures import FIGURE_COLUMNS, figure_cells, render_figures
from steadyhand.report.table import Cell, Page, one_line, render_table, visible
from steadyhand.report.wording import RATE_COLUMNS, axis_value, cost_line, rate_cells
from steadyhand.spec.matrix_axes import parse_path
from steadyhand.store.reader import RunEntry, RunReader

_MOST_RATES = 200
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
_DETAILED = 20
_RUN_COLUMNS = ("run", "started", "status", "passed", "failed", "inconclusive", "error", "not run", "command")


def render_scenarios(
    header: RunHeader, rates: Sequence[ScenarioRate], page: Page, collector: FigureCollector
) -> Iterator[str]:
    """Tables of scenarios with several trials, matrices, and figures, each after an empty line."""
    figures = collector.figures(header, rates)
    in_matrix = {each for matrix in header.matrices for each in matrix.combinations}
    several = [rate for rate in rates if rate.total > 1 and rate.scenario_id not in in_matrix]
    if several:
        yield ""
        yield from _several(several, page, {each.name: each for each in figures.scenarios})
    if header.matrices:
        by_id = {rate.scenario_id: rate for rate in rates}
        for matrix in header.matrices:
            yield ""
            yield from render_matrix(matrix, by_id, page, header.targets)
    if told := list(render_figures(figures, page)):
        yield ""
        yield from told


def scenarios_line(header: RunHeader, rates: Sequence[ScenarioRate], page: Page) -> str | None:
    """Such as `2 scenarios: 1 passed, 1 failed`, which decides the exit code; None if the trials say so already."""
    if all(rate.total + rate.saved <= 1 for rate in rates):
        return None
    noun = "combination" if sum(len(each.combinations) for each in header.matrices) == len(rates) else "scenario"
    line = f"{len(rates)} {noun}{'s' if len(rates) > 1 else ''}: {_counts(tally_scenarios(rates), page)}"
    if header.until is None:
        return line
    undecided = sum(rate.until is not None and rate.until.decision is Decision.UNDECIDED for rate in rates)
    return f"{line} (until decided at alpha {header.alpha:g}" + (f": {undecided} undecided)" if undecided else ")")


def _counts(tally: Tally, page: Page) -> str:
    """Such as `2 passed, 1 failed`: every verdict that occurs, on its own."""
    counts = tally.by_verdict.items()
    return ", ".join(page.paint(f"{count} {verdict}", verdict) for verdict, count in counts if count)


def _several(rates: Sequence[ScenarioRate], page: Page, figures: Mapping[str, Figures]) -> Iterator[str]:
    shown = rates
    if len(rates) > _MOST_RATES:
        shown = sorted(rates, key=lambda rate: rate.verdict is Verdict.PASSED)[:_MOST_RATES]
    rows = [
        (
            Cell(text=rate.verdict, style=rate.verdict),
            Cell(text=one_line(rate.scenario_id)),
            *rate_cells(rate),
            *figure_cells(figures[rate.scenario_id]),
        )
        for rate in shown
    ]
    columns = ("verdict", "scenario", *RATE_COLUMNS, *FIGURE_COLUMNS)
    yield from render_table(columns, rows, page, giving_way=1, optional=range(len(columns) - 1, len(columns) - 4, -1))
    if len(rates) > _MOST_RATES:
        yield f"({len(rates) - _MOST_RATES} more scenarios not listed)"


class _Row(NamedTuple):
    scenario_id: str
    number: int
    name: str
    verdict: Verdict
    cells: tuple[Cell, ...]


class _Gathered:
    """What is kept of each trial as it is read; whole trials only if they are shown in detail."""

    def __init__(self, transcripts: Transcripts | None, prices: Prices, *, figures: bool) -> None:
        self._prices: Prices = prices
        self.spent: CostSummary = CostSummary()
        self._all: bool = transcripts == "all"
        self.first: TrialRecord | None = None
        self.told: list[TrialRecord] = []
        self.rows: list[_Row] = []
        self.detailed: list[TrialRecord] = []
        self.warnings: Counter[str] = Counter()
        self.counts: Counter[Verdict] = Counter()
        self.alarms: Counter[Alarm] = Counter()
        self.figures: FigureCollector | None = FigureCollector() if figures else None
        self.incidents: Incidents = Incidents()
        self.endings: Counter[str] = Counter()
        self.unscored: Counter[str] = Counter()

    def add(self, trial: TrialRecord) -> None:
        verdict = trial.judged.verdict
        self.counts[verdict] += 1
        self.spent = self.spent.plus(cost_of_trial(trial, self._prices))
        self.incidents.add(trial)
        if self.figures is not None:
            self.figures.add(trial)
        self.rows.append(_row(trial))
        for talk in trial.conversations:
            early = " (early)" if talk.terminated_early else ""
            self.endings[f"{one_line(talk.termination_reason or NO_CONDITION)}{early}"] += 1
        rubric = trial.judged.rubric
        if rubric is not None and rubric.overall is None:
            self.unscored[f"{one_line(rubric.name)} {one_line(rubric.reason or 'not scored')}"] += 1
        if alarm := alarm_of(trial):
            self.alarms[alarm] += 1
        self.warnings.update(
            {event.message for event in trial.events if isinstance(event, Noted) and event.level == "warning"}
        )
        self.first = self.first or trial
        if verdict is Verdict.PASSED:
            self.told += [trial] if self._all else []
        elif len(self.detailed) < _DETAILED:
            self.detailed.append(trial)


def _several_trials(rates: Sequence[ScenarioRate]) -> bool:
    """A single trial of a single scenario has no figures beyond its own."""
    return len(rates) > 1 or any(rate.total + rate.saved > 1 for rate in rates)


def render_run(
    header: RunHeader,
    trials: Iterable[TrialRecord],
    page: Page,
    *,
    rates: Sequence[ScenarioRate] = (),
    record: Path | None = None,
    transcripts: Transcripts | None = None,
) -> Iterator[str]:
    """The lines: the table, why trials did not pass, warnings, the summary, and where the record is.

    `rates` are the results of the scenarios. `transcripts` says which transcripts to show; by default those of trials
    that did not pass, and that of a run with a single conversation.
    """
    found = _Gathered(transcripts, Prices.of_run(header), figures=_several_trials(rates))
    for trial in trials:
        found.add(trial)
    several = Counter(row.scenario_id for row in found.rows)
    yield from _table(found, several, page)
    for trial in found.detailed:
        yield ""
        numbered = several[trial.key.scenario_id] > 1
        yield from render_details(trial, page, numbered=numbered, transcript=transcripts != "none")
    if transcripts is None and len(found.rows) == 1 and not found.detailed and found.first is not None:
        found.told += [found.first] if is_conversation(found.first) else []
    for trial in found.told:
        yield ""
        yield page.paint(visible(wording.scenario_label(trial, numbered=several[trial.key.scenario_id] > 1)), "strong")
        yield from render_endings(trial, page)
        yield from render_transcript(trial, page)
    hidden = sum(found.counts.values()) - found.counts[Verdict.PASSED] - len(found.detailed)
    if hidden:
        yield ""
        yield f"{hidden} more {'trial' if hidden == 1 else 'trials'} did not pass; details are in the run record"
    if found.endings or found.unscored:
        yield ""
        yield from _endings_and_rubrics(found, page)
    if found.warnings:
        yield ""
        yield from _warnings(found.warnings, page)
    if happened := list(render_incidents(found.incidents, page)):
        yield ""
        yield from happened
    if found.figures is not None:
        yield from render_scenarios(header, rates, page, found.figures)
    yield ""
    saved = sum(rate.saved for rate in rates)
    yield summary_line(summarise(found.counts, planned=header.planned, saved=saved, alarms=found.alarms), page)
    decided = scenarios_line(header, rates, page)
    if decided is not None:
        yield decided
    if found.spent.total.tokens:
        yield cost_line(found.spent)
    yield from _provenance(header, record)


def _provenance(header: RunHeader, record: Path | None) -> Iterator[str]:
    """What is to be known of the judge and of where the trials come from, and where the record is."""
    if header.canaries is not None:
        from steadyhand.report.calibration import render_canaries

        yield from render_canaries(header.canaries)
    if header.origin is not None:
        yield f"judged again from run {visible(header.origin)}; no agent was run"
    if record is not None:
        yield f"record: {record}"


def summary_line(summary: RunSummary, page: Page) -> str:
    """Such as `3 trials: 2 passed, 1 failed (1 missed alarm); 97 saved`."""
    trials = "1 trial" if summary.finished == 1 else f"{summary.finished} trials"
    line = f"{trials}: {_counts(summary, page)}" if summary.finished else "no trials were run"
    alarms = {"missed": summary.missed_alarms, "false": summary.false_alarms}
    found = [f"{count} {kind} alarm{'s' if count > 1 else ''}" for kind, count in alarms.items() if count]
    line += f" ({', '.join(found)})" if found else ""
    line += f"; {summary.saved} saved" if summary.saved else ""
    return line + (f"; {summary.not_run} planned but not run" if summary.not_run else "")


def _table(found: _Gathered, several: Counter[str], page: Page) -> Iterator[str]:
    folded = len(found.rows) > _ROWS
    rows = [row for row in found.rows if not folded or row.verdict is not Verdict.PASSED]
    left_out = len(found.rows) - len(rows)
    cut, rows = len(rows) - _ROWS, rows[:_ROWS]
    table = [
        (
            Cell(text=row.verdict, style=row.verdict),
            Cell(text=f"{row.scenario_id}{f'#{row.number}' if several[row.scenario_id] > 1 else ''}{row.name}"),
            *row.cells,
        )
        for row in rows
    ]
    yield from render_table(_COLUMNS, table, page, giving_way=1, optional=_LEFT_OUT_FIRST)
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
        scenario_id=one_line(trial.key.scenario_id),
        number=trial.key.index,
        name=f"  {one_line(trial.scenario_name)}" if named else "",
        verdict=judged.verdict,
        cells=(
            Cell(text=judged.outcome.replace("_", " "), style=_OUTCOME_STYLE[judged.outcome])
            if judged.outcome
            else Cell(),
            Cell(text=wording.latency(judged, trial.evaluations)),
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
    for reason, count in found.unscored.items():
        yield from page.wrap(f"rubric {reason}" + (f" ({count} trials)" if count > 1 else ""), indent=0)


def _warnings(warnings: Counter[str], page: Page) -> Iterator[str]:
    for message, count in warnings.items():
        mark = f" ({count} trials)" if count > 1 else ""
        lines = list(page.wrap(message + mark, indent=len("warning: ")))
        yield f"{page.paint('warning:', 'fair')} {lines[0]}"
        yield from (" " * len("warning: ") + line for line in lines[1:])


def render_runs(runs: Sequence[RunEntry], page: Page, *, saved: Mapping[str, int] | None = None) -> Iterator[str]:
    """One line per run, in the order given. A record that cannot be read is listed with the reason.

    `saved` is, by run, how many trials were not needed.
    """
    if not runs:
        yield "no runs recorded yet"
        return
    yield from render_table(
        _RUN_COLUMNS,
        [_run_row(run, (saved or {}).get(run.id, 0)) for run in runs],
        page,
        giving_way=len(_RUN_COLUMNS) - 1,
    )


def render_stored_run(
    reader: RunReader, rates: Sequence[ScenarioRate], page: Page, *, transcripts: Transcripts | None = None
) -> Iterator[str]:
    """A recorded run, as it was shown when it ended. Raises `StoreError` if it cannot be read."""
    yield from render_run(
        reader.header, reader.trials(), page, rates=rates, record=reader.path, transcripts=transcripts
    )
    if reader.status != "finished":
        yield f"status: {reader.status}"


def _run_row(run: RunEntry, saved: int) -> tuple[Cell, ...]:
    if run.header is None:
        blank = [Cell()] * (len(_RUN_COLUMNS) - 4)
        return (Cell(text=run.id), Cell(), Cell(text="unreadable", style="bad"), *blank, Cell(text=run.problem or ""))
    tally = Tally.of(run.counts, planned=run.header.planned - saved)
    return (
        Cell(text=run.id),
        Cell(text=run.header.started_at[:19].replace("T", " ")),
        Cell(text=run.status, style="good" if run.status == "finished" else "fair"),
        *(_count(count, verdict) for verdict, count in tally.by_verdict.items()),
        _count(tally.not_run, "fair"),
        Cell(text=_command(run.header)),
    )


def _command(header: RunHeader) -> str:
    command = " ".join(header.command)
    return one_line(command if header.origin is None else f"from {header.origin}: {command}")


def _count(count: int, style: str) -> Cell:
    return Cell(text=str(count), style=style) if count else Cell()


def render_matrix(
    matrix: RunMatrix, rates: Mapping[str, ScenarioRate], page: Page, targets: Mapping[str, Target]
) -> Iterator[str]:
    """The lines. If there are too many combinations to list, those that did not pass come first.

    `targets` tell combinations of several scenarios or targets apart.
    """
    count = len(matrix.combinations)
    varied = [axis.parameter for axis in matrix.axes if len(axis.values) > 1]
    same = [f"{axis.parameter}={axis_value(axis.values[0])}" for axis in matrix.axes if len(axis.values) == 1]
    heading = f"matrix {one_line(matrix.name)}: {count} combination{'s' if count > 1 else ''}"
    yield page.paint(heading, "strong") + (f", all with {one_line(', '.join(same))}" if same and varied else "")
    listed = list(matrix.combinations)
    if count > _ROWS:
        listed = sorted(listed, key=lambda each: rates[each].verdict == "passed")[:_ROWS]
    beside = _told_apart(matrix, targets)
    parameters = {each: {**beside.get(each, {}), **matrix.parameters(each)} for each in listed}
    told_apart = list(beside[listed[0]]) if beside else []
    columns = [*told_apart, *(varied or [axis.parameter for axis in matrix.axes])]
    rows = [_matrix_row(parameters[each], columns, rates[each]) for each in listed]
    widest = max(range(len(columns)), key=lambda at: max(len(row[1 + at].text) for row in rows))
    yield from render_table(("verdict", *_short_names(columns), *RATE_COLUMNS), rows, page, giving_way=1 + widest)
    if count > len(listed):
        yield f"({count - len(listed)} more combinations not listed)"
    if len(varied) > 1 or (varied and beside):
        yield ""
        yield from _by_value([each for each in value_rates(matrix, rates) if each.parameter in varied], page)


def _told_apart(matrix: RunMatrix, targets: Mapping[str, Target]) -> dict[str, dict[str, str]]:
    """What else differs between combinations, by their id: the base scenario, and a model or agent that is no axis."""
    known = {each: targets[each] for each in matrix.combinations if each in targets}
    axes = {axis.parameter for axis in matrix.axes}
    found = {
        "scenario": {each: target.scenario for each, target in known.items()},
        "agent": {each: target.agent or "" for each, target in known.items()},
        "model": {each: target.model or "" for each, target in known.items()},
    }
    differing = {name: values for name, values in found.items() if name not in axes and len(set(values.values())) > 1}
    return {each: {name: values[each] for name, values in differing.items()} for each in known} if differing else {}


def _matrix_row(parameters: Mapping[str, Any], columns: Sequence[str], rate: ScenarioRate) -> tuple[Cell, ...]:
    return (
        Cell(text=rate.verdict, style=rate.verdict),
        *(Cell(text=axis_value(parameters[column])) for column in columns),
        *rate_cells(rate),
    )


def _by_value(values: Sequence[ValueRate], page: Page) -> Iterator[str]:
    rows = [
        (
            Cell(text=one_line(each.parameter)),
            Cell(text=axis_value(each.value)),
            Cell(text=f"{each.combinations.passed}/{each.combinations.total}"),
            Cell(text=f"{each.trials.passed}/{each.trials.total}"),
        )
        for each in values
    ]
    header = ("parameter", "value", "combinations passed", "trials passed")
    yield from render_table(header, rows, page, giving_way=1)


def _short_names(parameters: Sequence[str]) -> list[str]:
    """The last part of each path, if that is enough to tell them apart."""
    last = [_last_name(parameter) for parameter in parameters]
    count = Counter(last)
    return [short if count[short] == 1 else one_line(whole) for short, whole in zip(last, parameters, strict=True)]


def _last_name(parameter: str) -> str:
    """With its index, if it has one: `run[0]`."""
    name = ""
    for part in parse_path(parameter):
        name = f"{name}[{part}]" if isinstance(part, int) else part
    return one_line(name)
