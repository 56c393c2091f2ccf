"""A prepared run, from its first trial to the exit code."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.cli.output import show_run
from holdfast.compose.loop import run_in_loop
from holdfast.compose.rates import rates_of
from holdfast.compose.running import Run
from holdfast.errors import ExitCode
from holdfast.judging.scenario_rate import rates_exit_code
from holdfast.report.progress import progress_for
from holdfast.report.transcript import Transcripts
from holdfast.store.reader import RunReader


def carry_out(
    run: Run,
    *,
    silent: bool,
    json_file: Path | None = None,
    junit_file: Path | None = None,
    transcripts: Transcripts | None = None,
) -> ExitCode:
    """Run it, report, and say how it went. After an interrupt it reports what there is."""
    progress = progress_for(sys.stderr, enabled=not silent, standing=run.standing)
    reader = RunReader.open(run_in_loop(run.execute([progress]), network=run.needs_network))
    show_run(reader, json_file=json_file, junit_file=junit_file, transcripts=transcripts)
    if run.interrupted:
        click.echo(f"interrupted; carry on with: holdfast resume {run.header.id}", err=True)
        return ExitCode.INTERRUPTED
    return rates_exit_code(rates_of(reader))
