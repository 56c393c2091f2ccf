"""`steadyhand baseline`: save the results of a run in a small file to commit."""

from __future__ import annotations

from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import tell_flaws
from steadyhand.cli.terminal import STDOUT, Unwritten, say, watch_reading, write_report
from steadyhand.compose.comparison import open_source
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode, SetupError
from steadyhand.judging.baseline import baseline_lines, baseline_of
from steadyhand.judging.comparison import Pair
from steadyhand.judging.comparison_side import Side
from steadyhand.judging.gate import gate_test
from steadyhand.reading.run import sound
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions
from steadyhand.version import __version__

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--out", "file", type=_FILE, required=True, help="File to write; - for stdout.")
@shared.declared("baseline")
@click.pass_context
def baseline(ctx: click.Context, run: str, *, file: Path, out: Path | None, config: Path | None) -> None:
    """Write the results of RUN to a file that `gate` compares later runs with.

    It has one line per scenario and target, with only counts and digests: commit it next to the scenarios. RUN is an
    id, a unique prefix of one, `last`, or the path of a run record or JSON report; RUN@TARGET selects one model or
    agent. Exit codes: 0 written; 3 the record is not whole, or the file could not be written.
    """
    source = open_source(Settings(RunOptions(config=config, out=out)).out, run, watch_reading)
    side = source.side
    tell_flaws(source.reading)
    _refuse_unusable(side)
    if unwritten := write_report(file, baseline_lines(baseline_of(side, __version__))):
        raise Unwritten("; ".join(unwritten))
    if file != STDOUT:
        say(f"wrote {file}: {counted(len(side.samples), 'entry', 'entries')}")
    undecided = sum(each.undecided for each in side.samples)
    if undecided or not side.finished:
        what = "is not finished" if not side.finished else f"has {counted(undecided, 'undecided trial')}"
        say(f"steadyhand: run {side.run_id} {what}; the baseline uses only the trials that passed or failed", err=True)
    if not gate_test([Pair.of(each.scenario_id, each.tries, each.tries) for each in side.samples]).decidable:
        say("steadyhand: with this few trials, `gate` cannot detect a drop; save a run with more --trials", err=True)
    ctx.exit(sound(ExitCode.PASSED, source.reading))


def _refuse_unusable(side: Side) -> None:
    """Raises `SetupError` for a run that `gate` would refuse as a baseline, whatever it is compared with."""
    if not any(each.decided for each in side.samples):
        raise SetupError(f"run {side.run_id} has no trial that passed or failed, so it cannot be a baseline")
    if side.stopped_early:
        raise SetupError(
            f"run {side.run_id} cannot be a baseline: with --until, trials ended once their rate was decided, which "
            "biases what `gate` compares; run it without --until, with a fixed number of --trials, and save that run"
        )
