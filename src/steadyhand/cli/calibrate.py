"""`steadyhand calibrate`: compare a judge with people's labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import run_in_loop
from steadyhand.cli.terminal import page, show
from steadyhand.compose.calibration import calibrate as compare
from steadyhand.compose.calibration import calibration_file
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode
from steadyhand.records.config import RunOptions
from steadyhand.report.calibration import render_calibration
from steadyhand.store.calibration import keep_calibration


@click.command()
@click.argument("labels", metavar="LABELS", type=click.Path(path_type=Path, dir_okay=False))
@shared.declared("calibrate")
@click.option(
    "--out",
    "file",
    type=shared.FILE,
    help="File to save the calibration to. [default: calibration.json next to the configuration]",
)
@click.pass_context
def calibrate(ctx: click.Context, /, labels: Path, file: Path | None, **given: Any) -> None:
    """Ask a judge about every labelled check of stored trials, and compare its answers with the labels.

    LABELS is a file that `steadyhand labels` wrote and people filled in. Exit codes: 0 compared; 2 there is nothing to
    compare; 3 the judge gave no judgement at all.
    """
    settings = Settings(RunOptions(**given))
    found = run_in_loop(compare(labels, settings), network=True)
    kept = file or calibration_file(settings)
    for calibration in found.calibrations:
        keep_calibration(kept, calibration)
        show(render_calibration(calibration, settings.config.calibration, page()))
    show([f"saved in {kept}"])
    if not any(calibration.overall.cases for calibration in found.calibrations):
        ctx.exit(ExitCode.UNDECIDED)
