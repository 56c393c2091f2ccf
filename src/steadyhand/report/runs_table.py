"""The list of runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steadyhand.judging.rates import ScenarioRate, summarise
from steadyhand.records.evaluation import Verdict
from steadyhand.report.page import Page, one_line
from steadyhand.report.table import Cell, render_table
from steadyhand.report.terminal import render_run
from steadyhand.report.transcript import Transcripts
from steadyhand.store.reader import RunEntry, RunReader

_COLUMNS = ("run", "started", "status", "passed", "failed", "inconclusive", "error", "not run", "command")


def render_runs(runs: Sequence[RunEntry], page: Page) -> Iterator[str]:
    """The lines of the list, in the order given. A record that cannot be read is listed with the reason."""
    if not runs:
        yield "no runs yet"
        return
    yield from render_table(_COLUMNS, [_row(run) for run in runs], page, giving_way=len(_COLUMNS) - 1)


def render_stored_run(
    reader: RunReader, rates: Sequence[ScenarioRate], page: Page, *, transcripts: Transcripts | None = None
) -> Iterator[str]:
    """A stored run, as it was shown when it ended. Raises `StoreError` when it cannot be read."""
    yield from render_run(
        reader.header, reader.trials(), page, rates=rates, record=reader.path, transcripts=transcripts
    )
    if reader.status != "finished":
        yield f"status: {reader.status}"


def _row(run: RunEntry) -> tuple[Cell, ...]:
    if run.header is None:
        blank = [Cell()] * (len(_COLUMNS) - 4)
        return (Cell(text=run.id), Cell(), Cell(text="unreadable", style="bad"), *blank, Cell(text=run.problem or ""))
    summary = summarise(run.counts, planned=run.header.planned)
    counts = [_count(run.counts.get(verdict, 0), verdict) for verdict in Verdict]
    return (
        Cell(text=run.id),
        Cell(text=run.header.started_at[:19].replace("T", " ")),
        Cell(text=run.status, style="good" if run.status == "finished" else "fair"),
        *counts,
        _count(summary.not_run, "fair"),
        Cell(text=one_line(" ".join(run.header.command))),
    )


def _count(count: int, style: str) -> Cell:
    return Cell(text=str(count), style=style) if count else Cell()
