"""`steadyhand export`: export a run as tables or as an Inspect log."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import tell_flaws
from steadyhand.cli.terminal import Unwritten, say, watch_reading
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode
from steadyhand.reading.run import Reading, sound
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions
from steadyhand.report.export import export_tables
from steadyhand.report.inspect import write_inspect_log
from steadyhand.store.reader import find_run


@click.command()
@click.argument("run", metavar="RUN")
@shared.declared("export")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv", "parquet", "inspect"]),
    required=True,
    help="Format of the files.",
)
@click.option("--out-dir", "folder", type=shared.FOLDER, required=True, help="Folder for the files.")
@click.pass_context
def export(
    ctx: click.Context,
    run: str,
    config: Path | None,
    out: Path | None,
    kind: Literal["jsonl", "csv", "parquet", "inspect"],
    folder: Path,
) -> None:
    """Write a run's trials, evaluations and model calls, one file per table; or, for Inspect, one log.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record. Exit codes: 0 written; 3 the record is
    not whole, or a file could not be written.
    """
    reading = Reading.open(find_run(Settings(RunOptions(config=config, out=out)).out, run))
    watch_reading(reading)
    try:
        if kind == "inspect":
            file = folder / f"{reading.header.id}.eval"
            count = write_inspect_log(reading, file)
            say(f"{counted(count, 'sample')} in {file}")
        else:
            for file, count in export_tables(reading, folder, kind).items():
                say(f"{counted(count, 'row')} in {file}")
    except OSError as error:
        raise Unwritten(f"cannot export to {folder}: {error.strerror or error}") from error
    tell_flaws(reading)
    ctx.exit(sound(ExitCode.PASSED, reading))
