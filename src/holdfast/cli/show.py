"""`holdfast show`: a run again, from its record."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.cli import options as shared
from holdfast.compose.options import RunOptions
from holdfast.compose.settings import Settings
from holdfast.report.terminal import render_run
from holdfast.report.writing import write_json, write_junit
from holdfast.store.catalogue import find_run
from holdfast.store.reader import RunReader

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("run", metavar="RUN")
@shared.out
@click.option("--json", "json_file", type=_FILE, help="Write the whole report as JSON.")
@click.option("--junit", "junit_file", type=_FILE, help="Write a JUnit report.")
def show(run: str, out: Path | None, json_file: Path | None, junit_file: Path | None) -> None:
    """Show a run: its id, a unique beginning of it, `last`, or the path of its record."""
    folder = Settings(RunOptions(out=out)).out
    with RunReader.open(find_run(folder, run)) as reader:
        click.echo(render_run(reader, terminal=sys.stdout.isatty()))
        if json_file is not None:
            write_json(json_file, reader)
        if junit_file is not None:
            write_junit(junit_file, reader)
