"""The list of recorded runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steadyhand.judging.rates import Tally
from steadyhand.records.base import first_few
from steadyhand.records.run import RunHeader
from steadyhand.report.table import Cell, Page, one_line, render_table
from steadyhand.report.wording import seconds
from steadyhand.store.reader import RunEntry

_COLUMNS = (
    "run",
    "started",
    "status",
    "target",
    "passed",
    "failed",
    "inconclusive",
    "error",
    "not run",
    "kind",
    "took",
    "command",
)
_LEFT_OUT_FIRST = (11, 10, 1)


def render_runs(runs: Sequence[RunEntry], page: Page, *, saved: Mapping[str, int] | None = None) -> Iterator[str]:
    """One line per run, in the order given. A record that cannot be read is listed with the reason.

    `saved` is, by run, how many trials were not needed.
    """
    if not runs:
        yield "no runs recorded yet"
        return
    rows = [_row(run, (saved or {}).get(run.id, 0)) for run in runs]
    yield from render_table(_COLUMNS, rows, page, giving_way=3, optional=_LEFT_OUT_FIRST)
    for run in runs:
        if run.problem:
            yield from page.wrap(f"{run.id}: {run.problem}")


def runs_json(runs: Sequence[RunEntry], *, saved: Mapping[str, int]) -> list[dict[str, Any]]:
    """One entry per run, in the order given."""
    found: list[dict[str, Any]] = []
    for run in runs:
        header = run.header
        entry: dict[str, Any] = {"id": run.id, "path": str(run.path), "problem": run.problem}
        if header is not None:
            tally = Tally.of(run.counts, planned=header.planned - saved.get(run.id, 0))
            entry |= {
                "started_at": header.started_at,
                "status": run.status,
                "targets": _targets(header),
                "planned": header.planned,
                **{verdict.value: count for verdict, count in tally.by_verdict.items()},
                "not_run": tally.not_run,
                "took_ms": header.took_ms or None,
                "command": list(header.command),
                "origin": header.origin,
                "failed_of": header.failed_of,
                "shard": None if header.shard is None else str(header.shard),
                "merged_from": list(header.merged_from),
            }
        found.append(entry)
    return found


def _row(run: RunEntry, saved: int) -> tuple[Cell, ...]:
    if run.header is None:
        blank = [Cell()] * (len(_COLUMNS) - 3)
        return (Cell(text=run.id), Cell(), Cell(text="unreadable", style="bad"), *blank)
    tally = Tally.of(run.counts, planned=run.header.planned - saved)
    targets = _targets(run.header)
    return (
        Cell(text=run.id),
        Cell(text=run.header.started_at[:19].replace("T", " ")),
        Cell(text=run.status, style="good" if run.status == "finished" else "fair"),
        Cell(text=first_few(map(one_line, targets), 1)),
        *(_count(count, verdict) for verdict, count in tally.by_verdict.items()),
        _count(tally.not_run, "fair"),
        Cell(text=_kind(run.header)),
        Cell(text=seconds(run.header.took_ms) if run.header.took_ms else ""),
        Cell(text=one_line(" ".join(run.header.command))),
    )


def _targets(header: RunHeader) -> list[str]:
    return list(dict.fromkeys(target.name for target in header.targets.values()))


def _kind(header: RunHeader) -> str:
    """The run that this one was derived from or is part of; empty for an ordinary run."""
    if header.origin is not None:
        return f"judged again, from {one_line(header.origin)}"
    if header.failed_of is not None:
        return f"failed of {one_line(header.failed_of)}"
    if header.shard is not None:
        return f"shard {header.shard}"
    return f"merged, {len(header.merged_from)} shards" if header.merged_from else ""


def _count(count: int, style: str) -> Cell:
    return Cell(text=str(count), style=style) if count else Cell()
