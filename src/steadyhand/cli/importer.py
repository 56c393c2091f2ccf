"""`steadyhand import`: convert scenarios from other benchmarks."""

from __future__ import annotations

from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say
from steadyhand.errors import ExitCode
from steadyhand.importers.lostbench.conversion import import_lostbench


@click.group("import", cls=shared.Group)
def import_scenarios() -> None:
    """Convert scenarios from other benchmarks to scenario files."""


@import_scenarios.command()
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@click.option("--out-dir", "out", required=True, type=shared.FOLDER, help="Folder to write the scenarios to.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@click.pass_context
def lostbench(ctx: click.Context, source: Path, out: Path, *, force: bool) -> None:
    """Convert LostBench cases to decision scenarios. SRC is a YAML or JSON file, or a folder of them.

    Exit codes: 0 every case was converted; 1 some were skipped; 2 nothing could be read or written.
    """
    done = import_lostbench(source, out, force=force)
    for file in done.written:
        say(f"wrote {file}")
    for note in done.notes:
        say(f"note: {note}", err=True)
    for skipped in done.skipped:
        say(f"skipped: {skipped}", err=True)
    say(f"{len(done.written)} written, {len(done.skipped)} skipped, {len(done.notes)} notes", err=True)
    ctx.exit(ExitCode.FAILED if done.skipped else ExitCode.PASSED)
