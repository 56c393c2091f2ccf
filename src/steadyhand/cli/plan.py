"""`steadyhand plan`: how many trials a bound on the failure rate needs, and what that would run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import show_plan
from steadyhand.cli.terminal import say
from steadyhand.compose.run import Run
from steadyhand.compose.settings import under_test
from steadyhand.errors import SetupError
from steadyhand.judging.statistics import trials_for_bound
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions, Selection

_MOST_TRIALS = 100_000
_SHARE = shared.FiniteRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--bound", type=_SHARE, required=True, help="Failure rate to stay below, such as 0.01.")
@click.option("--confidence", type=_SHARE, default=0.95, show_default=True, help="Confidence of the bound.")
@click.option(
    "--failures", type=click.IntRange(0, 10_000), default=0, show_default=True, help="Number of failures to allow for."
)
@shared.declared("plan")
def plan(
    *,
    paths: tuple[str, ...],
    bound: float,
    confidence: float,
    failures: int,
    models: tuple[str, ...],
    agents: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
    **chosen: Any,
) -> None:
    """Calculate how many trials it takes to bound the failure rate. With PATH, also what that would run."""
    trials = trials_for_bound(bound, confidence, failures=failures)
    none = f"with at most {counted(failures, 'failure')}" if failures else "without a failure"
    say(
        f"{counted(trials, 'trial')} of a scenario {none} put its failure rate at {bound * 100:.6g}% or less, "
        f"with {confidence * 100:.6g}% confidence"
    )
    if not paths:
        return
    if trials > _MOST_TRIALS:
        raise SetupError(f"a run has at most {_MOST_TRIALS} trials of a scenario; choose a higher bound")
    options = RunOptions(
        config=config, plugins=plugins, trials=trials, command=tuple(sys.argv[1:]), **under_test(models, agents)
    )
    show_plan(Run(Selection(paths=paths, **chosen), options))
