"""`steadyhand validate`: check files without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say, say_json
from steadyhand.compose.cast import Casts
from steadyhand.compose.isolation import find_code
from steadyhand.compose.matrices import check_names
from steadyhand.compose.offer import check_offers
from steadyhand.compose.scenarios import combinations_of, load_files, open_registries
from steadyhand.compose.settings import Settings
from steadyhand.errors import ExitCode
from steadyhand.records.base import counted
from steadyhand.records.config import RunOptions
from steadyhand.spec.load import Loaded


@click.command()
@shared.paths
@shared.declared("validate")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@click.pass_context
def validate(
    ctx: click.Context,
    paths: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
    form: Literal["text", "json"],
) -> None:
    """Check scenarios, matrices and rubrics for errors without running anything.

    Plugins that a file names by path or module are not loaded; names that only they could define cause a warning. Add
    --plugin to check them.

    Problems are printed as file:line:column: path: message. Exit codes: 0 if every file loads, with or without
    warnings; 2 otherwise.
    """
    loaded = _load(paths, Settings(RunOptions(config=config, plugins=plugins)))
    errors = sum(problem.level == "error" for problem in loaded.problems)
    if form == "json":
        say_json(_as_json(loaded, errors))
    else:
        for problem in loaded.problems:
            say(str(problem))
        warnings = len(loaded.problems) - errors
        parts = [
            counted(len(loaded.scenarios), "scenario"),
            counted(len(loaded.matrices), "matrix", "matrices"),
            counted(len(loaded.rubrics), "rubric"),
        ]
        say(f"{', '.join(parts)}: {counted(errors, 'error')}, {counted(warnings, 'warning')}", err=True)
    ctx.exit(ExitCode.USAGE if errors else ExitCode.PASSED)


def _load(paths: tuple[str, ...], settings: Settings) -> Loaded:
    """The files, with the problems of matrix combinations, rubrics and other names they refer to."""
    registries = open_registries(settings, checking=True)
    loaded = load_files(paths, registries)
    combinations, problems = combinations_of(loaded, registries)
    for note in (*loaded.notes, *settings.notes(loaded.scenarios)):
        say(f"note: {note}", err=True)
    casts = Casts(settings, registries)
    problems += casts.rubrics.check([*loaded.scenarios, *combinations], read=True)
    if loaded.matrices:
        problems += check_names(combinations, casts)
    if not any(problem.level == "error" for problem in (*loaded.problems, *problems)):
        code = find_code([*loaded.scenarios, *combinations], registries)
        for spec in code.not_run:
            say(f"note: {spec.place}: not checked: {spec.type} runs code, which only `run` does", err=True)
        problems += code.problems
        problems += check_offers([*loaded.scenarios, *combinations], casts)
    return msgspec.structs.replace(loaded, problems=tuple(dict.fromkeys([*loaded.problems, *problems])))


def _as_json(loaded: Loaded, errors: int) -> dict[str, Any]:
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
    return msgspec.to_builtins(report)
