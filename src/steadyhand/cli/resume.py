"""`steadyhand resume`: carry on a run that was cut short."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.options import report_files
from steadyhand.cli.run import carry_out
from steadyhand.compose.resuming import resume_run
from steadyhand.compose.settings import RunOptions, Settings
from steadyhand.errors import SetupError
from steadyhand.store.reader import find_run

_SHOWN = 10


@click.command()
@click.argument("run", metavar="RUN")
@shared.config
@shared.out
@click.option("--concurrency", type=click.IntRange(min=1), help="Trials at a time. [default: as the run began]")
@click.option(
    "--force",
    is_flag=True,
    help="Go on although scenarios, models, judges or what else the trials are made of have changed since.",
)
@report_files
@click.option("--no-progress", is_flag=True, help="Say nothing until the end.")
@click.pass_context
def resume(
    ctx: click.Context,
    run: str,
    *,
    config: Path | None,
    out: Path | None,
    concurrency: int | None,
    force: bool,
    no_progress: bool,
    **files: Any,
) -> None:
    """Do the trials of a run that are missing or were in error, and report the whole.

    RUN is its id, a unique beginning of it, `last`, or the path of its record. Exit codes are those of `run`.
    """
    record = find_run(Settings(RunOptions(config=config, out=out)).out, run)
    resumed = resume_run(record, concurrency=concurrency)
    if resumed.changes and not force:
        _ask(resumed.changes)
    left = len(resumed.run.pending)
    click.echo(f"{left} of {resumed.run.header.planned} trials to do", err=True)
    ctx.exit(carry_out(resumed.run, silent=no_progress, **files))


def _ask(changes: list[str]) -> None:
    """Raises `SetupError` unless a person says to go on."""
    listed = "\n".join(f"  {change}" for change in changes[:_SHOWN])
    more = f"\n  and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    message = f"since the run began:\n{listed}{more}"
    if not sys.stdin.isatty():
        raise SetupError(f"{message}\nits trials would not be comparable; --force goes on all the same")
    click.echo(message, err=True)
    if not click.confirm("Go on all the same?", err=True):
        raise SetupError("not resumed")
