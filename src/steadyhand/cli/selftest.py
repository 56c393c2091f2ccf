"""`steadyhand selftest`: are a scenario's checks right?"""

from __future__ import annotations

import asyncio

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say
from steadyhand.compose.loading import ScenarioRegistries, build_registry, load_scenarios
from steadyhand.compose.selftest import selftest as run_selftest
from steadyhand.compose.settings import Selection
from steadyhand.errors import ExitCode, SetupError


@click.command()
@shared.selection
@click.pass_context
def selftest(
    ctx: click.Context,
    paths: tuple[str, ...],
    tags: tuple[str, ...],
    expression: str | None,
    filters: tuple[str, ...],
) -> None:
    """Run every deterministic check against the scenario's own `examples`, with no model.

    A good answer that a check rejects, or a bad one that passes, is reported with the check and the text.
    Exit codes: 0 when none is found, 1 when one is, 2 when there is nothing to test.
    """
    registries = ScenarioRegistries(build_registry())
    selection = Selection(paths=paths, tags=tags, expression=expression, filters=filters)
    scenarios = load_scenarios(selection, registries)
    found = asyncio.run(run_selftest(scenarios, registries))
    for defect in found.defects:
        check = f"{defect.check}: " if defect.check else ""
        say(f"{defect.place}: {defect.scenario_id}: {check}{defect.message}\n    {defect.answer}")
    if not found.answers:
        raise SetupError("no scenario here carries `examples`, so nothing was tested")
    tested = len(scenarios) - len(found.without_examples)
    say(f"{tested} scenarios, {found.answers} answers: {len(found.defects)} defects", err=True)
    if found.without_examples:
        say(f"without examples: {', '.join(found.without_examples)}", err=True)
    ctx.exit(ExitCode.FAILED if found.defects else ExitCode.PASSED)
