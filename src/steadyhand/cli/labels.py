"""`steadyhand labels`: write a file for people to label a run's judged checks."""

from __future__ import annotations

from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions
from steadyhand.store.labels import blank_labels, write_labels
from steadyhand.store.reader import RunReader, find_run


@click.command()
@click.argument("run", metavar="RUN")
@shared.declared("labels")
@click.option(
    "--out",
    "file",
    type=shared.FILE,
    required=True,
    help="File to write, ending in .jsonl or .csv.",
)
@click.option("--all", "every", is_flag=True, help="Include checks that no judge was asked about.")
def labels(run: str, config: Path | None, out: Path | None, file: Path, *, every: bool) -> None:
    """Write a row for each check that a judge decided, with an empty column `label` to fill in: pass, fail or unsure.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record. The judge's answers are left out, to
    avoid bias. `steadyhand calibrate` reads the file.
    """
    reader = RunReader.open(find_run(Settings(RunOptions(config=config, out=out)).out, run))
    found = list(blank_labels(reader.header.id, reader.trials(), every=every))
    if not found:
        hint = "" if every else "; run with --judge to get some, or use --all to list other checks"
        raise SetupError(f"run {reader.header.id} has no checks that a judge was asked about{hint}")
    count = write_labels(file, found)
    say(f"{counted(count, 'check')} to label in {file}")
