"""`holdfast lint`: what loads, and still is probably not what its author meant."""

from __future__ import annotations

import click

from holdfast.cli import options as shared
from holdfast.compose.loading import combinations_of, load_files
from holdfast.compose.plugins import ScenarioRegistries
from holdfast.compose.registry import build_registry
from holdfast.errors import ExitCode, FileError
from holdfast.spec.lint import lint_scenario


@click.command()
@shared.paths
@click.pass_context
def lint(ctx: click.Context, paths: tuple[str, ...]) -> None:
    """Find checks that can never match, match almost anything, or contradict the scenario they stand in.

    Exit codes: 0 when nothing is found, 1 when something is, 2 when a file does not load.
    """
    registries = ScenarioRegistries(build_registry())
    loaded = load_files(paths, registries)
    combinations, problems = combinations_of(loaded, registries)
    if loaded.errors or problems:
        raise FileError([*loaded.errors, *problems])
    scenarios = [*loaded.scenarios, *combinations]
    # Combinations share most of what they are: what all of them have is one finding.
    found = (problem for scenario in scenarios for problem in lint_scenario(scenario))
    findings = list(dict.fromkeys([*loaded.problems, *found]))
    for finding in findings:
        click.echo(str(finding))
    click.echo(f"{len(scenarios)} scenarios: {len(findings)} findings", err=True)
    ctx.exit(ExitCode.FAILED if findings else ExitCode.PASSED)
