"""`steadyhand runs`: list recorded runs."""

from __future__ import annotations

from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import page, show
from steadyhand.compose.running import rates_of
from steadyhand.compose.settings import RunOptions, Settings
from steadyhand.report.terminal import render_runs
from steadyhand.store.reader import RunEntry, RunReader, list_runs


@click.command()
@shared.config
@shared.out
def runs(config: Path | None, out: Path | None) -> None:
    """List recorded runs, newest first."""
    folder = Settings(RunOptions(config=config, out=out)).out
    found = list_runs(folder)
    show(render_runs(found, page(), saved={run.id: _saved(run) for run in found}))


def _saved(run: RunEntry) -> int:
    """How many trials it did without. Asked only of runs that may: it reads the record."""
    if run.header is None or run.header.until is None:
        return 0
    return sum(rate.saved for rate in rates_of(RunReader.open(run.path)))
