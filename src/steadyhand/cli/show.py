"""`steadyhand show`: show the report of a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import report_files, show_run
from steadyhand.compose.settings import RunOptions, Settings
from steadyhand.store.reader import RunReader, find_run


@click.command()
@click.argument("run", metavar="RUN")
@shared.config
@shared.out
@report_files
def show(run: str, config: Path | None, out: Path | None, **files: Any) -> None:
    """Show the report of a recorded run.

    RUN is an id, the unique start of one, `last`, or the path of a run record.
    """
    folder = Settings(RunOptions(config=config, out=out)).out
    show_run(RunReader.open(find_run(folder, run)), **files)
