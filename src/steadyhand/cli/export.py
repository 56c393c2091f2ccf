"""`steadyhand export`: export a run as tables or as an Inspect log."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import whole_exit_code
from steadyhand.cli.terminal import Unwritten, say
from steadyhand.compose.run import rates_of
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions
from steadyhand.report.export import export_tables
from steadyhand.store.reader import RunReader, find_run


@click.command()
@click.argument("run", metavar="RUN")
@shared.config
@click.option("--runs", type=click.Path(path_type=Path, file_okay=False), help="Folder of run records.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv", "parquet", "inspect"]),
    required=True,
    help="Format of the files.",
)
@click.option("--out", "folder", type=shared.FOLDER, required=True, help="Folder for the files.")
@click.pass_context
def export(
    ctx: click.Context,
    run: str,
    config: Path | None,
    runs: Path | None,
    kind: Literal["jsonl", "csv", "parquet", "inspect"],
    folder: Path,
) -> None:
    """Write a run's trials, evaluations and model calls, one file per table; or, for Inspect, one log.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record. Exit codes: 0 written; 3 the record is
    not whole, or a file could not be written.
    """
    reader = RunReader.open(find_run(Settings(RunOptions(config=config, out=runs)).out, run))
    try:
        if kind == "inspect":
            from steadyhand.report.inspect import write_inspect_log

            file = folder / f"{reader.header.id}.eval"
            rates = rates_of(reader)
            count = write_inspect_log(reader.header, reader.trials(), rates, file, finished=reader.finished)
            say(f"{counted(count, 'sample')} in {file}")
        else:
            for file, count in export_tables(reader.header, reader.trials(), folder, kind).items():
                say(f"{counted(count, 'row')} in {file}")
    except OSError as error:
        raise Unwritten(f"cannot export to {folder}: {error.strerror or error}") from error
    ctx.exit(whole_exit_code(ExitCode.PASSED, reader))
