"""`steadyhand mutate`: whether the checks would notice a wrong answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.run import run_in_loop
from steadyhand.cli.terminal import page, show, write_result
from steadyhand.compose.cast import Casts
from steadyhand.compose.mutation import Mutation
from steadyhand.compose.rejudgement import judging, rejudge_options
from steadyhand.compose.scenarios import load_scenarios, open_registries
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode, SetupError, StoreError
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.mutation import MutationReport
from steadyhand.report.mutants import render_mutants
from steadyhand.store.reader import RunReader, find_run


@click.command()
@shared.paths
@shared.declared("mutate")
@click.option("--min-killed", type=click.FloatRange(0, 1), help="Exit with 1 below this share of mutants killed.")
@click.option("--checks", is_flag=True, help="Also show what each check noticed.")
@click.option("--json", "json_file", metavar="FILE", help="File to write all mutants to, as JSON; - for stdout.")
@click.pass_context
def mutate(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    min_killed: float | None,
    checks: bool,
    json_file: str | None,
    **given: Any,
) -> None:
    """Make bad answers from good ones, and show which of them the checks do not notice.

    PATHS are scenarios, whose own good `examples` are changed, or one RUN, whose passing trials are: an id, a unique
    prefix of one, `last`, or the path of a record. Mutants that a person found harmless go into `mutants.yaml` beside
    the scenario. No model is asked, unless --judge names one. Exit codes: 0; 1 below --min-killed; 2 nothing to mutate.
    """
    selection = Selection(
        paths=paths, **{name: given.pop(name) for name in Selection.__struct_fields__ if name in given}
    )
    settings = Settings(RunOptions(**given))
    report = run_in_loop(mutation_report(selection, settings), network=given["judge"] is not None)
    if not any(each.originals for each in report.scenarios):
        raise SetupError("nothing to mutate: no scenario has a good answer (`examples`) on which a check holds")
    if json_file != "-":
        show(render_mutants(report, page(), checks=checks))
    write_result(report, lambda: (), json_file=json_file, markdown_file=None)
    ctx.exit(ExitCode.PASSED if min_killed is None or report.enough(min_killed) else ExitCode.FAILED)


async def mutation_report(selection: Selection, settings: Settings) -> MutationReport:
    """Raises `UsageError` for paths that are neither scenarios nor a run."""
    record = _record(selection, settings)
    if record is not None:
        selection, _ = rejudge_options(record, settings)
    registries = open_registries(settings, checking=True)
    scenarios = load_scenarios(selection, registries)
    if settings.options.judge is None:
        return await _report_of(Mutation(scenarios, registries), record)
    async with judging(scenarios, Casts(settings, registries)) as judge:
        return await _report_of(Mutation(scenarios, registries, judge.builder), record)


async def _report_of(mutation: Mutation, record: Path | None) -> MutationReport:
    return await (mutation.of_examples() if record is None else mutation.of_run(RunReader.open(record)))


def _record(selection: Selection, settings: Settings) -> Path | None:
    """The record of the run that the paths name; None if they are scenarios."""
    if len(selection.paths) != 1:
        return None
    (name,) = selection.paths
    if (Path(name).exists() and not name.endswith(".sqlite")) or name.startswith("@"):
        return None
    try:
        return find_run(settings.out, name)
    except StoreError:
        return None
