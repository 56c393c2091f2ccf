"""`holdfast run`: run scenarios and judge them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from holdfast.cli import options as shared
from holdfast.cli.output import report_files, show_run
from holdfast.compose.options import RunOptions, Selection
from holdfast.compose.running import Run
from holdfast.judging.run import summarise
from holdfast.report.progress import progress_for
from holdfast.store.reader import RunReader

_FILE = click.Path(path_type=Path, dir_okay=False)
_DIR = click.Path(path_type=Path, file_okay=False)


@click.command()
@shared.selection
@click.option("--model", metavar="NAME", help="Model under test, as provider/model.")
@click.option("--judge", metavar="NAME", help="Model that judges.")
@click.option("--user-model", metavar="NAME", help="Model that plays the user.")
@click.option("--agent", metavar="KIND", help="Agent under test.")
@click.option("--environment", metavar="TYPE", help="Environment to run in, whatever the scenario says.")
@click.option("--strict-judge", is_flag=True, help="Refuse self-judging and a judge of the tested model's vendor.")
@click.option("--sandbox", is_flag=True, help="Run commands without network and with a read-only system.")
@click.option("--allow-commands", is_flag=True, help="Let commands that a model wrote run on this machine.")
@click.option("--live", is_flag=True, help="Ignore mocks and database seeding; talk to real services.")
@click.option("--env-file", type=_FILE, help="Variables for this run.")
@click.option("--seed", type=int, help="Seed of everything random. [default: chosen anew and recorded]")
@click.option("--concurrency", type=click.IntRange(min=1), help="Trials at a time. [default: 8]")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), help="Seconds for a model call.")
@click.option(
    "--retries", type=click.IntRange(0, 20), help="How often a failed model call is tried again. [default: 2]"
)
@click.option("--record", type=_DIR, metavar="DIR", help="Keep every model exchange there.")
@click.option("--replay", type=_DIR, metavar="DIR", help="Answer from a recording, with no network.")
@click.option(
    "--replay-time", type=click.Choice(["zero", "original"]), default="zero", help="How long replayed answers take."
)
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), help="Start no trial after this cost.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Start no trial after this many tokens.")
@shared.out
@report_files
@click.option("--no-progress", is_flag=True, help="Say nothing until the end.")
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> None:
    """Run scenario files, folders or globs, and say of each whether it passed.

    Exit codes: 0 all passed; 1 something failed; 2 it could not start; 3 nothing failed but something was
    inconclusive or in error; 130 interrupted.
    """
    selection = Selection(paths=given.pop("paths"), tags=given.pop("tags"), expression=given.pop("expression"))
    files = {name: given.pop(name) for name in ("json_file", "junit_file")}
    progress = progress_for(sys.stderr, enabled=not given.pop("no_progress"))
    prepared = Run(selection, RunOptions(command=tuple(sys.argv[1:]), **given))
    reader = RunReader.open(asyncio.run(prepared.execute([progress])))
    show_run(reader, **files)
    ctx.exit(summarise(reader.counts(), planned=reader.header.planned).exit_code)
