"""`steadyhand rejudge`: judge the stored trials of a run again."""

from __future__ import annotations

import sys
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import Reports, carry_out
from steadyhand.cli.terminal import say
from steadyhand.compose.rejudgement import rejudge_options
from steadyhand.compose.run import Run
from steadyhand.compose.settings import Settings
from steadyhand.records.config import RunOptions
from steadyhand.store.reader import find_run


@click.command()
@click.argument("run", metavar="RUN")
@shared.declared("rejudge", Reports)
@shared.no_progress
@click.pass_context
def rejudge(ctx: click.Context, /, run: str, **given: Any) -> None:
    """Judge the stored trials of a run again, using the current scenario files, without running any agent.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record. The verdicts are recorded as a new run
    that names the original one. If it is interrupted, continue it with `resume`. Exit codes are those of `run`.
    """
    reports = Reports(**{name: given.pop(name) for name in Reports.__struct_fields__}).check()
    silent = given.pop("no_progress")
    options = RunOptions(command=tuple(sys.argv[1:]), **given)
    here = Settings(options)
    record = find_run(here.out, run)
    selection, options = rejudge_options(record, here)
    prepared = Run(selection, options)
    missing = len(prepared.planned) - len(prepared.pending)
    if missing:
        say(
            f"{missing} of {len(prepared.planned)} trials are missing from the record of that run and were left out",
            err=True,
        )
    if prepared.origin is not None and prepared.origin.flaw is not None:
        say(f"steadyhand: the record of run {prepared.origin.id} is not whole: {prepared.origin.flaw}", err=True)
    ctx.exit(carry_out(prepared, reports, silent=silent))
