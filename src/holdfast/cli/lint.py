"""`holdfast lint`: what loads, and still is probably not what its author meant."""

from __future__ import annotations

import click

from holdfast.cli import options as shared
from holdfast.compose.loading import load_files
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
    loaded = load_files(paths, ScenarioRegistries(build_registry()))
    if loaded.errors:
        raise FileError(loaded.errors)
    findings = [*loaded.problems, *(found for scenario in loaded.scenarios for found in lint_scenario(scenario))]
    for finding in findings:
        click.echo(str(finding))
    click.echo(f"{len(loaded.scenarios)} scenarios: {len(findings)} findings", err=True)
    ctx.exit(ExitCode.FAILED if findings else ExitCode.PASSED)
