"""The list of recorded runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from steadyhand.judging.rates import Tally
from steadyhand.records.run import RunHeader
from steadyhand.report.table import Cell, Page, one_line, render_table
from steadyhand.store.reader import RunEntry

_RUN_COLUMNS = ("run", "started", "status", "passed", "failed", "inconclusive", "error", "not run", "command")


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
