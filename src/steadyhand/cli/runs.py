"""`steadyhand runs`: list recorded runs, and remove old ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import STDOUT, Unwritten, harmless_json, page, say, show, write_report
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode, StoreError
from steadyhand.reading.run import Reading
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions
from steadyhand.report.run_list import render_runs, runs_json
from steadyhand.store.reader import RunEntry, list_runs
from steadyhand.store.retention import named_in_project, prunable, remove_run


@click.command()
@shared.declared("runs")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the list as JSON; - for stdout."
)
@click.option(
    "--prune",
    is_flag=True,
    help="List the runs that are older than --older-than and not among the newest --keep; with --yes, remove them.",
)
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="With --prune, number of newest runs to keep.",
)
@click.option(
    "--older-than",
    type=click.IntRange(min=0),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="With --prune, minimum age of the runs to remove.",
)
@click.option("--yes", is_flag=True, help="With --prune, remove the runs that it lists.")
def runs(
    config: Path | None,
    out: Path | None,
    json_file: Path | None,
    *,
    prune: bool,
    keep: int,
    older_than: int,
    yes: bool,
) -> int:
    """List recorded runs, newest first.

    A damaged record is listed with what is wrong with it. Exit codes: 0 listed or removed; 3 a record is damaged, or a
    run could not be removed.

    --prune never removes a run that is being written or cannot be read, that another run was derived from, or that a
    JSON file of the project names, as a baseline does.
    """
    if yes and not prune:
        raise click.UsageError("--yes requires --prune")
    folder = Settings(RunOptions(config=config, out=out)).out
    found = list_runs(folder)
    if prune:
        _prune(found, keep=keep, before=datetime.now(UTC) - timedelta(days=older_than), yes=yes)
        return ExitCode.PASSED
    saved = {run.id: _saved(run) for run in found}
    found = [_looked_into(run) for run in found]
    if json_file is not None:
        text = msgspec.json.format(msgspec.json.encode(runs_json(found, saved=saved)), indent=1)
        if unwritten := write_report(json_file, [harmless_json(text), b"\n"]):
            raise Unwritten("; ".join(unwritten))
    if json_file != STDOUT:
        show(render_runs(found, page(), saved=saved))
    return ExitCode.UNDECIDED if any(run.damaged for run in found) else ExitCode.PASSED


def _prune(found: list[RunEntry], *, keep: int, before: datetime, yes: bool) -> None:
    named = named_in_project(Path.cwd(), {run.id for run in found})
    old = prunable(found, keep=keep, before=before, named=named)
    if not old:
        say(f"nothing to remove among {counted(len(found), 'run')}")
        return
    show(render_runs(old, page()))
    if not yes:
        say(f"would remove {counted(len(old), 'run')}; add --yes to remove them")
        return
    removed = [run for run in old if remove_run(run.path)]
    say(f"removed {counted(len(removed), 'run')}")
    if len(removed) < len(old):
        raise Unwritten(f"{counted(len(old) - len(removed), 'run')} could not be removed")


def _looked_into(run: RunEntry) -> RunEntry:
    """With what is wrong with its record, unless the run is still going on."""
    if run.header is None or run.status == "running":
        return run
    try:
        problem = Reading.open(run.path).damage(run.counts)
    except StoreError as error:
        problem = str(error)
    return msgspec.structs.replace(run, problem=problem, damaged=problem is not None)


def _saved(run: RunEntry) -> int:
    """The number of trials that were not needed. Used only for runs with --until, because it reads the record."""
    if run.header is None or run.header.until is None:
        return 0
    return Reading.open(run.path).saved
