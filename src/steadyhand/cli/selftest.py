"""`steadyhand selftest`: test the checks of a scenario against its own examples."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say
from steadyhand.compose.scenarios import load_scenarios, open_registries
from steadyhand.compose.selftest import selftest as run_selftest
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode, SetupError
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions, Selection


@click.command()
@shared.selection
@shared.project
@click.pass_context
def selftest(
    ctx: click.Context,
    paths: tuple[str, ...],
    tags: tuple[str, ...],
    expression: str | None,
    filters: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
) -> None:
    """Run the deterministic checks of each scenario on its own `examples`, without a model.

    Reports every good answer that a check rejects and every bad answer that passes. Meaning checks only read: answers
    about which they would ask a judge are counted. Exit codes: 0 no defects; 1 defects; 2 nothing to test.
    """
    registries = open_registries(Settings(RunOptions(config=config, plugins=plugins)), checking=True)
    selection = Selection(paths=paths, tags=tags, expression=expression, filters=filters)
    scenarios = load_scenarios(selection, registries)
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
    if found.without_examples:
        say(f"no examples in: {', '.join(found.without_examples)}", err=True)
    ctx.exit(ExitCode.FAILED if found.defects else ExitCode.PASSED)
