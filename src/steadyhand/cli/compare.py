"""`steadyhand compare`: two or more runs or targets, paired by scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import tell_flaws
from steadyhand.cli.terminal import page, show, watch_reading, write_result
from steadyhand.compose.comparison import compare_sources, open_source
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode
from steadyhand.reading.run import sound
from steadyhand.records.config import RunOptions
from steadyhand.report.comparison import render_comparison
from steadyhand.report.markdown import comparison_markdown


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.999),
    default=0.95,
    show_default=True,
    help="Confidence of intervals; a difference counts when its p-value is at most 1 minus this.",
)
@click.option(
    "--pair-changed", is_flag=True, help="Also compare scenarios whose file or judge differs between the runs."
)
@shared.declared("compare")
@shared.result_files
def compare(
    runs: tuple[str, ...],
    confidence: float,
    pair_changed: bool,
    config: Path | None,
    out: Path | None,
    **files: Any,
) -> int:
    """Compare runs, each with the first, paired by scenario.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record or JSON report. RUN@TARGET selects one
    model or agent of a run. With a single RUN, its targets are compared. The exit code is 0 whatever the result, and
    3 if the record of a run is not whole.
    """
    shared.one_to_stdout(**files)
    folder = Settings(RunOptions(config=config, out=out)).out
    sources = [open_source(folder, name, watch_reading) for name in runs]
    found = compare_sources(sources, confidence=confidence, pair_changed=pair_changed)
    write_result(found, lambda: comparison_markdown(found), **files)
    if "-" not in files.values():
        show(render_comparison(found, page()))
    readings = [source.reading for source in sources]
    tell_flaws(*readings)
    return sound(ExitCode.PASSED, *readings)
