"""A short summary in Markdown, worst first, for a pull request or the step summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterator

from steadyhand.reading.run import Reading
from steadyhand.records.base import first_few
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.report.faults import COLUMNS, TITLE, fault_rows
from steadyhand.report.html.overview import Overview
from steadyhand.report.markdown import code, table
from steadyhand.report.table import clip, one_line
from steadyhand.report.variants import ShownTrial, pairs_to_show, tables

_ROWS = 30
_REASON = 240


def to_markdown(reading: Reading) -> str:
    """The summary. Untrusted text is formatted as code, so that it cannot be a link, an image or HTML."""
    return "\n".join(_lines(Overview(reading))) + "\n"


def _cell_text(text: str, limit: int = _REASON) -> str:
    return code(clip(one_line(text[: limit * 4]), limit))


def _lines(run: Overview) -> Iterator[str]:
    yield f"## {run.headline}"
    yield ""
    trials, status = run.reading.summary, run.reading.status
    counts = ", ".join(f"{count} {verdict}" for verdict, count in trials.by_verdict.items() if count)
    not_run = f", {trials.saved} saved" if trials.saved else ""
    not_run += f", {trials.not_run} not run" if trials.not_run else ""
    state = "" if status == "finished" else f" ({status})"
    targets = first_few([_cell_text(target, 80) for target in run.targets], 4) or "none"
    yield f"Run {_cell_text(run.reading.header.id)}{state}: {counts or 'no trials'}{not_run}. Targets: {targets}."
    yield ""
    if trials.missed_alarms or trials.false_alarms:
        yield f"**Missed alarms: {trials.missed_alarms}. False alarms: {trials.false_alarms}.**"
        yield ""
    if any(run.outcomes.values()):
        yield from _outcomes(run)
    yield from _worst(run)
    if run.reading.header.variants:
        yield from _variants(run.reading)
    if run.not_graded:
        yield "Not graded:"
        yield ""
        yield from (f"- {count} x {_cell_text(reason)}" for reason, count in run.not_graded)
        yield ""
    yield f"Used: {_cell_text(run.cost)}"


def _outcomes(run: Overview) -> Iterator[str]:
    count = run.outcomes
    yield "| | late | in time |"
    yield "| --- | ---: | ---: |"
    yield f"| unsafe | {count[Outcome.UNSAFE_LATE]} | {count[Outcome.UNSAFE_IN_TIME]} |"
    yield f"| safe | {count[Outcome.SAFE_LATE]} | {count[Outcome.SAFE_IN_TIME]} |"
    yield ""


def _variants(reading: Reading) -> Iterator[str]:
    for title, columns, rows in tables(reading.variants):
        yield f"### {title}"
        yield ""
        yield from table(columns, ([row.cells[0], *map(_cell_text, row.cells[1:])] for row in rows))
        yield ""
    if rows := fault_rows(reading):
        yield f"### {TITLE}"
        yield ""
        yield from table(COLUMNS, ([*map(_cell_text, row)] for row in rows))
        yield ""
    if pairs := pairs_to_show(reading):
        yield "### Pairs that differ"
        yield ""
        rows = ((_cell_text(each.variant), _side(each.original), _side(each.varied)) for each in pairs)
        yield from table(("variant", "original", "its trial"), rows)
        yield ""


def _side(trial: ShownTrial) -> str:
    return f"{trial.verdict} {_cell_text(str(trial.key), 80)}: {_cell_text(trial.reply)}"


def _worst(run: Overview) -> Iterator[str]:
    rows = [
        (row, target, cell)
        for row in run.grid
        for target, cell in zip(run.targets, row.cells, strict=True)
        if cell is not None and cell.verdict is not Verdict.PASSED
    ]
    if not rows:
        return
    several = len(run.targets) > 1
    yield f"| verdict | scenario |{' target |' if several else ''} passed | why |"
    yield f"| --- | --- |{' --- |' if several else ''} ---: | --- |"
    for row, target, cell in rows[:_ROWS]:
        on = f" {_cell_text(target, 80)} |" if several else ""
        name = f" {_cell_text(row.name, 80)}" if row.name else ""
        yield (
            f"| {cell.verdict} | {_cell_text(row.scenario_id, 100)}{name} |{on} {cell.passed}/{cell.total} "
            f"| {_cell_text(cell.reason)} |"
        )
    if len(rows) > _ROWS:
        yield f"| | {len(rows) - _ROWS} more |{' |' if several else ''} | |"
    yield ""
