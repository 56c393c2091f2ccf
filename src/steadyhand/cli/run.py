"""`steadyhand run`: run scenarios and judge them."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from steadyhand.batch.estimate import estimate
from steadyhand.cli import options as shared
from steadyhand.cli.options import report_files, show_run
from steadyhand.cli.process import attended, run_in_loop
from steadyhand.compose.running import Run, rates_of
from steadyhand.compose.settings import RunOptions, Selection
from steadyhand.errors import ExitCode, SetupError, SteadyhandError
from steadyhand.judging.rates import rates_exit_code
from steadyhand.report.details import Transcripts
from steadyhand.report.progress import progress_for
from steadyhand.store.reader import RunReader


def carry_out(
    run: Run,
    *,
    silent: bool,
    json_file: Path | None = None,
    junit_file: Path | None = None,
    transcripts: Transcripts | None = None,
) -> ExitCode:
    """Run it, report, and say how it went. After an interrupt, or when the disk is full, it reports what there is."""
    progress = progress_for(sys.stderr, enabled=not silent, standing=run.standing)
    network = run.needs_network  # it may refuse a model's name: before there is something to await
    record = run_in_loop(run.execute([progress], attend=attended), network=network)
    try:
        reader = RunReader.open(record)
        show_run(reader, json_file=json_file, junit_file=junit_file, transcripts=transcripts)
    except SteadyhandError:
        if run.broken is None:
            raise
        reader = None
    if run.broken is not None:
        click.echo(f"steadyhand: {run.redactor.text(str(run.broken))}: {_resume(run)}", err=True)
    if run.interrupted:
        click.echo(f"interrupted; carry on with: {_resume(run)}", err=True)
        return ExitCode.INTERRUPTED
    code = ExitCode.UNDECIDED if reader is None else rates_exit_code(rates_of(reader))
    return ExitCode.UNDECIDED if run.broken is not None and code is ExitCode.PASSED else code


def _resume(run: Run) -> str:
    """The command that carries it on."""
    out = run.settings.options.out
    return shlex.join(["steadyhand", "resume", run.header.id, *(["--out", str(out)] if out is not None else [])])


_FILE = click.Path(path_type=Path, dir_okay=False)
_DIR = click.Path(path_type=Path, file_okay=False)


@click.command()
@shared.selection
@shared.project
@click.option("--model", metavar="NAME", help="Model under test, as provider/model.")
@click.option("--judge", metavar="NAME", help="Model that judges.")
@click.option("--user-model", metavar="NAME", help="Model that plays the user.")
@click.option("--agent", metavar="KIND", help="Agent under test.")
@click.option("--environment", metavar="TYPE", help="Environment to run in, whatever the scenario says.")
@click.option("--strict-judge", is_flag=True, help="Refuse self-judging and a judge of the tested model's vendor.")
@click.option("--sandbox", is_flag=True, help="Run commands without network and with a read-only system.")
@click.option("--allow-commands", is_flag=True, help="Let commands that a model wrote run on this machine.")
@click.option("--enforce-deadline", is_flag=True, help="Cut a call at critical_ms and grade what had arrived.")
@click.option("--live", is_flag=True, help="Ignore mocks and database seeding; talk to real services.")
@click.option("--env-file", type=_FILE, help="Variables for this run.")
@click.option("--seed", type=int, help="Seed of everything random. [default: chosen anew and recorded]")
@click.option(
    "--trials", type=click.IntRange(1, 100_000), help="Run each scenario so often. [default: as it says, or 1]"
)
@click.option(
    "--pass-rate",
    type=shared.PassRate(0, 1, min_open=True),
    help="Share of a scenario's trials that must pass. [default: as it says, or all]",
)
@click.option("--dry-run", is_flag=True, help="List what would run, with an estimate, and run nothing.")
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
    chosen = {name: given.pop(name) for name in ("paths", "tags", "expression", "filters")}
    files = {name: given.pop(name) for name in ("json_file", "junit_file", "transcripts")}
    silent, dry_run = given.pop("no_progress"), given.pop("dry_run")
    if dry_run:
        _refuse_reports(files)
    prepared = Run(Selection(**chosen), RunOptions(command=tuple(sys.argv[1:]), **given))
    if dry_run:
        show_plan(prepared)
        return
    ctx.exit(carry_out(prepared, silent=silent, **files))


def _refuse_reports(files: dict[str, Any]) -> None:
    given = [option for option, name in (("--json", "json_file"), ("--junit", "junit_file")) if files[name] is not None]
    if given:
        raise SetupError(f"--dry-run runs nothing, so there is no report for {' and '.join(given)}; leave out one")


def show_plan(run: Run) -> None:
    """One line per scenario or combination, then the sum."""
    counts = Counter(each.key.scenario_id for each in run.planned)
    for scenario_id, trials in counts.items():
        click.echo(f"{trials} x {scenario_id}" if trials > 1 else scenario_id)
    settings = run.settings
    found = estimate(
        run.planned,
        agent_of=lambda scenario: settings.agent(scenario).partition(":")[0],
        asks_judge=run.asks_judge,
        scores_rubric=lambda scenario: scenario.rubric is not None and settings.judge(scenario) is not None,
    )
    click.echo(f"would run {found}")
    click.echo(f"{settings.concurrency} trials at a time")
