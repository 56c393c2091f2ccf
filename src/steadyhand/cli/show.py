"""`steadyhand show`: show a recorded run, or some of its trials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from steadyhand.batch.plan import matcher
from steadyhand.cli import options as shared
from steadyhand.cli.run import Reports, show_run, tell_flaws
from steadyhand.cli.terminal import watch_reading
from steadyhand.compose.settings import Settings
from steadyhand.errors import SetupError
from steadyhand.reading.run import Reading
from steadyhand.records.base import first_few
from steadyhand.records.config import RunOptions
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialRecord
from steadyhand.report.terminal import Detail, View
from steadyhand.store.reader import RunReader, TrialRow, find_run

_SHOWN = 5


@click.command()
@click.argument("run", metavar="RUN")
@click.option("-k", "expression", metavar="EXPR", help="Only trials whose scenario's id or name matches.")
@click.option(
    "--verdict",
    "verdicts",
    type=click.Choice([each.value for each in Verdict]),
    multiple=True,
    help="Only trials with this verdict (repeatable).",
)
@click.option(
    "--trial", "trials", multiple=True, metavar="ID", help="Only this trial, in full: SCENARIO#N or SCENARIO."
)
@click.option("--all", "everything", is_flag=True, help="Show every trial that did not pass, one by one, in full.")
@shared.declared("show", Reports)
@click.pass_context
def show(
    ctx: click.Context,
    run: str,
    *,
    config: Path | None,
    out: Path | None,
    expression: str | None,
    verdicts: tuple[str, ...],
    trials: tuple[str, ...],
    everything: bool,
    **files: Any,
) -> None:
    """Show the report of a recorded run.

    RUN is an id, a unique prefix of one, `last`, or the path of a run record. Even with a selection, the totals are
    those of the whole run.

    Exit codes, also of the whole run: 0 all passed; 1 something failed; 2 there is no such run; 3 nothing failed, but
    something was inconclusive, ended in error or was not run, or the record is not whole.
    """
    reports = Reports(**files).check()
    reading = Reading.open(find_run(Settings(RunOptions(config=config, out=out)).out, run))
    watch_reading(reading)
    chosen = _chosen(reading.reader, expression, verdicts, trials)
    detail: Detail = reports.view.detail
    if detail == "normal" and trials:
        detail = "everything"
    elif detail == "normal" and (everything or chosen is not None):
        detail = "all"
    show_run(reading, reports, View(detail=detail, transcripts=reports.transcripts, chosen=chosen))
    tell_flaws(reading)
    ctx.exit(reading.exit_code)


def _chosen(
    reader: RunReader, expression: str | None, verdicts: tuple[str, ...], trials: tuple[str, ...]
) -> Callable[[TrialRecord], bool] | None:
    """Raises `SetupError` if a requested trial does not exist, or nothing matches."""
    if not (expression or verdicts or trials):
        return None
    rows = reader.rows()
    keys = {str(row.key) for row in rows}
    ids = {row.key.scenario_id for row in rows}
    for each in trials:
        if each not in keys and each not in ids:
            raise SetupError(f"run {reader.header.id} has no trial {each!r}; its trials: {_some(rows)}")
    matches = matcher(expression) if expression else None

    def chosen(trial: TrialRecord) -> bool:
        key = trial.key
        return (
            (not trials or str(key) in trials or key.scenario_id in trials)
            and (not verdicts or trial.judged.verdict in verdicts)
            and (matches is None or matches(f"{key.scenario_id} {trial.scenario_name}".casefold()))
        )

    if not any(map(chosen, reader.trials())):
        raise SetupError(f"no trial of run {reader.header.id} matches; its trials: {_some(rows)}")
    return chosen


def _some(rows: list[TrialRow]) -> str:
    return first_few([row.key for row in rows], _SHOWN) or "none"
