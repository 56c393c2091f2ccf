"""A prepared run, from its first trial to the exit code."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from steadyhand.cli.output import show_run
from steadyhand.compose.running import Run, rates_of, run_in_loop
from steadyhand.errors import ExitCode, SteadyhandError
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
    record = run_in_loop(run.execute([progress]), network=network)
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
