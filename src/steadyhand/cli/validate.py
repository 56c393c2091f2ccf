"""`steadyhand validate`: every problem of every file, and nothing is run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click
import msgspec

from steadyhand.cli import options as shared
from steadyhand.compose.loading import Rubrics, combinations_of, load_files, open_registries
from steadyhand.compose.settings import RunOptions, Settings
from steadyhand.errors import ExitCode
from steadyhand.spec.load import Loaded


@click.command()
@shared.paths
@shared.project
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def validate(
    ctx: click.Context,
    paths: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
    form: Literal["text", "json"],
) -> None:
    """Check files without running them. Problems come as file:line:col: path: message.

    Exit codes: 0 when every file loads (warnings are shown), 2 otherwise.
    """
    loaded = _load(paths, Settings(RunOptions(config=config, plugins=plugins)))
    errors = sum(problem.level == "error" for problem in loaded.problems)
    if form == "json":
        click.echo(_as_json(loaded, errors))
    else:
        for problem in loaded.problems:
            click.echo(str(problem))
        click.echo(_summary(loaded, errors), err=True)
    ctx.exit(ExitCode.USAGE if errors else ExitCode.PASSED)


def _load(paths: tuple[str, ...], settings: Settings) -> Loaded:
    """With what is wrong with the combinations of matrices, and with the rubrics and other names in all of them."""
    registries = open_registries(settings)
    loaded = load_files(paths, registries)
    combinations, problems = combinations_of(loaded, registries)
    for note in settings.ignored_configs(loaded.scenarios):
        click.echo(f"note: {note}", err=True)
    problems += Rubrics(settings).check([*loaded.scenarios, *combinations], read=True)
    if loaded.matrices:
        from steadyhand.compose.matrices import check_names

        problems += check_names(combinations, settings, registries)
    return msgspec.structs.replace(loaded, problems=tuple(dict.fromkeys([*loaded.problems, *problems])))


def _summary(loaded: Loaded, errors: int) -> str:
    warnings = len(loaded.problems) - errors
    parts = [f"{len(loaded.scenarios)} scenarios", f"{len(loaded.matrices)} matrices", f"{len(loaded.rubrics)} rubrics"]
    return f"{', '.join(parts)}: {errors} errors, {warnings} warnings"


def _as_json(loaded: Loaded, errors: int) -> str:
    problems = [
        {
            "file": problem.place.file,
            "line": problem.place.line,
            "column": problem.place.column,
            "path": problem.place.path,
            "level": problem.level,
            "code": problem.code,
            "message": problem.message,
        }
        for problem in loaded.problems
    ]
    report = {
        "format": 1,
        "valid": errors == 0,
        "scenarios": len(loaded.scenarios),
        "matrices": len(loaded.matrices),
        "rubrics": len(loaded.rubrics),
        "problems": problems,
    }
    return json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False)
