"""`steadyhand runs`: list recorded runs."""

from __future__ import annotations

from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import page, show
from steadyhand.compose.settings import RunOptions, Settings
from steadyhand.report.terminal import render_runs
from steadyhand.store.reader import list_runs


@click.command()
@shared.config
@shared.out
def runs(config: Path | None, out: Path | None) -> None:
    """List recorded runs, newest first."""
    folder = Settings(RunOptions(config=config, out=out)).out
    show(render_runs(list_runs(folder), page()))
