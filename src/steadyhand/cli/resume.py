"""`steadyhand resume`: finish an interrupted run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import Reports, carry_out
from steadyhand.cli.terminal import say
from steadyhand.compose.resume import resume_run
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.records.config import RunOptions
from steadyhand.store.reader import find_run

_SHOWN = 10


@click.command()
@click.argument("run", metavar="RUN")
@shared.declared("resume", Reports)
@click.option(
    "--force",
    is_flag=True,
    help="Continue even if scenarios, models, judges or anything else the trials depend on has changed.",
)
@shared.no_progress
@click.pass_context
def resume(
    ctx: click.Context,
    run: str,
    *,
    config: Path | None,
    out: Path | None,
    force: bool,
    trust: bool,
    no_progress: bool,
    **given: Any,
) -> None:
    """Run the trials that are missing from a run or ended in error, and report the whole run.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record. Exit codes are those of `run`.
    """
    reports = Reports(**{name: given.pop(name) for name in Reports.__struct_fields__}).check()
    settings = Settings(RunOptions(config=config, out=out, trust=trust))
    resumed = resume_run(find_run(settings.out, run), settings, **given)
    if resumed.changes and not force:
        _ask(resumed.changes)
    left = len(resumed.run.pending)
    say(f"{left} of {resumed.run.header.planned} trials left to run", err=True)
    ctx.exit(carry_out(resumed.run, reports, silent=no_progress))


def _ask(changes: list[str]) -> None:
    """Raises `SetupError` unless the user confirms."""
    listed = "\n".join(f"  {change}" for change in changes[:_SHOWN])
    more = f"\n  and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    message = f"changed since the run started:\n{listed}{more}"
    if not sys.stdin.isatty():
        raise SetupError(
            f"{message}\nnew trials would not be comparable with the old ones; use --force to continue anyway"
        )
    say(message, err=True)
    if not click.confirm("Continue anyway?", err=True):
        raise SetupError("not resumed")
