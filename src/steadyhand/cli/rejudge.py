"""`steadyhand rejudge`: judge the stored trials of a run again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import Reports, carry_out, report_options
from steadyhand.cli.terminal import say
from steadyhand.compose.rejudgement import rejudge_options
from steadyhand.compose.run import Run
from steadyhand.compose.settings import Settings
from steadyhand.records.config import RunOptions
from steadyhand.store.reader import find_run


@click.command()
@click.argument("run", metavar="RUN")
@shared.project
@click.option("--judge", metavar="NAME", help="Judge model, as provider/model. [default: as when the run started]")
@click.option("--rubric", metavar="NAME", help="Rubric to score with, in place of each scenario's own.")
@shared.votes
@shared.strict_judge
@click.option(
    "--env-file", type=click.Path(path_type=Path, dir_okay=False), help="File with environment variables for this run."
)
@click.option("--concurrency", type=click.IntRange(min=1), help="Number of trials to judge at once. [default: 8]")
@shared.timeout
@shared.retries
@shared.wait_limit
@shared.stall_limit
@shared.max_cost
@shared.max_tokens
@shared.trust
@shared.out
@report_options
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
    ctx.exit(carry_out(prepared, reports, silent=silent))
