"""`steadyhand gate`: check a run against a baseline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from steadyhand.cli import options as shared
from steadyhand.cli.github import append_summary
from steadyhand.cli.run import tell_flaws
from steadyhand.cli.terminal import command_ci, page, show, watch_reading, write_result
from steadyhand.compose.comparison import open_source
from steadyhand.compose.settings import Settings
from steadyhand.judging.gate import ABSOLUTE, DoubtFound, GateResult, Rule, hold_against
from steadyhand.reading.run import Reading, sound
from steadyhand.records.config import RunOptions
from steadyhand.report.gate import github_annotations, render_gate
from steadyhand.report.markdown import gate_markdown


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--baseline", required=True, metavar="RUN|FILE", help="Baseline file or run to check against.")
@click.option(
    "--alpha",
    type=click.FloatRange(0.0001, 0.5),
    default=0.05,
    show_default=True,
    help="Chance of a false alarm: that the statistical rule fails a run that is no worse.",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    type=click.Choice([rule.value for rule in ABSOLUTE]),
    help="Absolute rule to switch off (repeatable).",
)
@click.option(
    "--max-age",
    type=click.IntRange(min=1),
    default=90,
    show_default=True,
    metavar="DAYS",
    help="Age at which a baseline counts as stale.",
)
@shared.declared("gate")
@shared.result_files
def gate(
    run: str,
    baseline: str,
    alpha: float,
    ignored: tuple[str, ...],
    max_age: int,
    config: Path | None,
    out: Path | None,
    **files: Any,
) -> int:
    """Check RUN against a baseline: a file that `steadyhand baseline` wrote, or another run.

    Exit code 0: passed. 1: a rule is broken. 2: no usable baseline. 3: too little data to say, or a record that is
    not whole.
    """
    shared.one_to_stdout(**files)
    folder = Settings(RunOptions(config=config, out=out)).out
    before, after = (open_source(folder, name, watch_reading) for name in (baseline, run))
    result = hold_against(
        before.side,
        after.side,
        alpha=alpha,
        ignore=[Rule(each) for each in ignored],
        now=datetime.now(UTC),
        max_age=timedelta(days=max_age),
    )
    if "-" not in files.values():
        show(render_gate(result, page()))
    readings = [each.reading for each in (before, after) if each.reading is not None]
    tell_flaws(*readings)
    proved = _proved(result, readings)
    _tell_github(proved)
    write_result(proved, lambda: gate_markdown(proved), **files)
    return proved.exit_code


def _proved(result: GateResult, readings: Sequence[Reading]) -> GateResult:
    """The result once the records were read. A terminal shows it before that; files and GitHub do not."""
    flawed = tuple(reading.header.id for reading in readings if reading.flaw is not None)
    doubts = (DoubtFound(kind="not_whole", units=flawed),) if flawed else ()
    code = sound(result.exit_code, *readings)
    return msgspec.structs.replace(result, exit_code=code, doubts=(*result.doubts, *doubts))


def _tell_github(result: GateResult) -> None:
    """Write annotations and the step summary, in a GitHub workflow. Failing to write the summary does not affect the
    verdict."""
    if not os.environ.get("GITHUB_ACTIONS"):
        return
    for line in github_annotations(result, Path.cwd()):
        command_ci(line)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        append_summary(Path(summary), "\n".join(gate_markdown(result)))
