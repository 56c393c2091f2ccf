"""`steadyhand lint`: checks that are valid but probably not what the author meant."""

from __future__ import annotations

from pathlib import Path

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say
from steadyhand.compose.cast import Casts
from steadyhand.compose.offer import check_offers
from steadyhand.compose.scenarios import combinations_of, load_files, open_registries
from steadyhand.compose.selftest import passes
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode, FileError
from steadyhand.lint.cases import lint_scenarios
from steadyhand.lint.ignores import FileIgnores, unknown_code
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions
from steadyhand.spec.agent import UNLOADED


def _codes(ctx: click.Context, param: click.Parameter, codes: tuple[str, ...]) -> frozenset[str]:
    for code in codes:
        if (wrong := unknown_code(code)) is not None:
            raise click.BadParameter(wrong, ctx, param)
    return frozenset(codes)


@click.command()
@shared.paths
@shared.declared("lint")
@click.option(
    "--ignore",
    multiple=True,
    metavar="CODE",
    callback=_codes,
    help="Ignore findings with this code (repeatable).",
)
@click.pass_context
def lint(
    ctx: click.Context,
    paths: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
    ignore: frozenset[str],
) -> None:
    """Find checks that can never match, match almost anything, or contradict their own scenario.

    Each finding ends with its code. To silence a code, put `x-lint-ignore: CODE` at the top of a file or in a check.

    Exit codes: 0 no findings; 1 findings; 2 a file does not load.
    """
    settings = Settings(RunOptions(config=config, plugins=plugins))
    registries = open_registries(settings, checking=True)
    loaded = load_files(paths, registries)
    combinations, problems = combinations_of(loaded, registries)
    if loaded.errors or problems:
        raise FileError([*loaded.errors, *problems])
    for note in loaded.notes:
        say(f"note: {note}", err=True)
    for problem in loaded.problems:
        if problem.code == UNLOADED:
            say(str(problem), err=True)
    scenarios = [*loaded.scenarios, *combinations]
    # Combinations of a matrix mostly agree: report what they share only once.
    found = lint_scenarios(scenarios, lambda scenario, answer: passes(scenario, registries, answer))
    ignores = FileIgnores({each.case.place.file: each.place.file for each in scenarios if each.case is not None})
    faults = ignores.faults(scenario.place.file for scenario in scenarios)
    unoffered = check_offers(scenarios, Casts(settings, registries))
    every = list(dict.fromkeys([*loaded.problems, *found, *unoffered, *faults]))
    every = [finding for finding in every if finding.code != UNLOADED]
    findings = [finding for finding in every if finding.code not in ignore and not ignores.covers(finding)]
    for finding in findings:
        say(f"{finding} [{finding.code}]")
    left_out = f", {len(every) - len(findings)} ignored" if len(every) > len(findings) else ""
    say(f"{counted(len(scenarios), 'scenario')}: {counted(len(findings), 'finding')}{left_out}", err=True)
    ctx.exit(ExitCode.FAILED if findings else ExitCode.PASSED)
