"""`steadyhand selftest`: are a scenario's checks right?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.compose.loading import load_scenarios, open_registries
from steadyhand.compose.selftest import selftest as run_selftest
from steadyhand.compose.settings import RunOptions, Selection, Settings
from steadyhand.errors import ExitCode, SetupError


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
    """Run every deterministic check against the scenario's own `examples`, with no model.

    A good answer that a check rejects, or a bad one that passes, is reported with the check and the text.
    Exit codes: 0 when none is found, 1 when one is, 2 when there is nothing to test.
    """
    registries = open_registries(Settings(RunOptions(config=config, plugins=plugins)))
    selection = Selection(paths=paths, tags=tags, expression=expression, filters=filters)
    scenarios = load_scenarios(selection, registries)
    found = asyncio.run(run_selftest(scenarios, registries))
    for defect in found.defects:
        check = f"{defect.check}: " if defect.check else ""
        click.echo(f"{defect.place}: {defect.scenario_id}: {check}{defect.message}\n    {defect.answer}")
    if not found.answers:
        raise SetupError("no scenario here carries `examples`, so nothing was tested")
    tested = len(scenarios) - len(found.without_examples)
    click.echo(f"{tested} scenarios, {found.answers} answers: {len(found.defects)} defects", err=True)
    if found.without_examples:
        click.echo(f"without examples: {', '.join(found.without_examples)}", err=True)
    ctx.exit(ExitCode.FAILED if found.defects else ExitCode.PASSED)
