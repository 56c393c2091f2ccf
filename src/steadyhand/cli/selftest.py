"""`steadyhand selftest`: test the checks of a scenario against its own examples."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import page, say, show
from steadyhand.compose.scenarios import load_scenarios, open_registries
from steadyhand.compose.selftest import selftest as run_selftest
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode, SetupError
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions, Selection
from steadyhand.report.mutants import render_mutants


@click.command()
@shared.paths
@shared.declared("selftest")
@click.option(
    "--mutate", is_flag=True, help="Then make the good answers bad, as `mutate` does, and show what is missed."
)
@click.option("--min-killed", type=click.FloatRange(0, 1), help="With --mutate: exit with 1 below this share killed.")
@click.pass_context
def selftest(
    ctx: click.Context,
    /,
    config: Path | None,
    plugins: tuple[str, ...],
    mutate: bool,
    min_killed: float | None,
    **chosen: Any,
) -> None:
    """Run the deterministic checks of each scenario on its own `examples`, without a model.

    Reports every good answer that a check rejects and every bad answer that passes. Meaning checks only read: answers
    about which they would ask a judge are counted. Exit codes: 0 no defects; 1 defects, or fewer mutants killed than
    --min-killed; 2 nothing to test.
    """
    if min_killed is not None and not mutate:
        raise click.UsageError("--min-killed needs --mutate")
    registries = open_registries(Settings(RunOptions(config=config, plugins=plugins)), checking=True)
    scenarios = load_scenarios(Selection(**chosen), registries)
    found = asyncio.run(run_selftest(scenarios, registries))
    for defect in found.defects:
        check = f"{defect.check}: " if defect.check else ""
        say(f"{defect.place}: {defect.scenario_id}: {check}{defect.message}\n    {defect.answer}")
    if not found.answers:
        raise SetupError("nothing to test: none of these scenarios has `examples`")
    tested = len(scenarios) - len(found.without_examples)
    asked = f", {found.needs_judge} undecided without a judge" if found.needs_judge else ""
    say(
        f"{counted(tested, 'scenario')}, {counted(found.answers, 'answer')}: {counted(len(found.defects), 'defect')}"
        f"{asked}",
        err=True,
    )
    for spec in found.untested:
        say(f"{spec.place}: not tested: {spec.type} comes from a plugin; name it with --plugin", err=True)
    for spec in found.not_run:
        say(f"{spec.place}: not tested: {spec.type} checks run code, which only `run` does", err=True)
    if found.without_examples:
        say(f"no examples in: {', '.join(found.without_examples)}", err=True)
    enough = True
    if mutate:
        from steadyhand.compose.mutation import Mutation  # with the builder, which nothing else here needs

        report = asyncio.run(Mutation(scenarios, registries).of_examples())
        show(render_mutants(report, page()))
        enough = min_killed is None or report.enough(min_killed)
    ctx.exit(ExitCode.PASSED if enough and not found.defects else ExitCode.FAILED)
