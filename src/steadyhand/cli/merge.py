"""`steadyhand merge`: merge the shards of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import Reports, report
from steadyhand.cli.terminal import say
from steadyhand.compose.settings import Settings
from steadyhand.compose.shards import merge_shards
from steadyhand.errors import ExitCode
from steadyhand.reading.run import Reading
from steadyhand.records.config import RunOptions
from steadyhand.store.reader import find_run


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@shared.declared("merge", Reports)
@click.pass_context
def merge(ctx: click.Context, runs: tuple[str, ...], config: Path | None, out: Path | None, **files: Any) -> None:
    """Merge the shards of a run, and report the verdict of the whole.

    RUN is a run made with `run --shard`: an id, a unique prefix of one, or the path of a run record. Give every shard
    once. If a shard is missing, its trials count as not run, and the whole does not pass. Exit codes are those of
    `run`.
    """
    reports = Reports(**files).check()
    folder = Settings(RunOptions(config=config, out=out)).out
    merged = merge_shards([find_run(folder, run) for run in runs], folder, command=tuple(sys.argv[1:]))
    for each in merged.lacking:
        say(f"steadyhand: {each}", err=True)
    reading = Reading.open(merged.record)
    unwritten = report(reading, reports)
    ctx.exit(reading.exit_code or (ExitCode.UNDECIDED if unwritten else ExitCode.PASSED))
