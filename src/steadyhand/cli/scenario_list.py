"""`steadyhand list`: list scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from steadyhand.cli import options as shared
from steadyhand.cli.terminal import say, say_json
from steadyhand.compose.scenarios import load_scenarios, open_registries
from steadyhand.compose.settings import Settings
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.scenario import Scenario
from steadyhand.spec.load import resolved_files

_COLUMNS = ("id", "name", "domain", "tags")


@click.command("list")
@shared.paths
@shared.declared("list")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@click.option(
    "--resolved",
    is_flag=True,
    help="Print each file with what it is put together from, and the place of every line.",
)
def list_scenarios(
    paths: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
    form: Literal["text", "json"],
    resolved: bool,
    **chosen: Any,
) -> None:
    """List scenarios with their id, name, domain and tags. Takes the same filters as `run`."""
    registries = open_registries(Settings(RunOptions(config=config, plugins=plugins)), checking=True)
    if resolved:
        for line, place in resolved_files(paths, registries.defaults):
            say(f"{line}  # {place.file}:{place.line}")
        return
    selection = Selection(paths=paths, **chosen)
    scenarios = load_scenarios(selection, registries, note=lambda note: say(f"note: {note}", err=True))
    if form == "json":
        rows = [
            {**dict(zip(_COLUMNS, _row(s), strict=True)), "tags": list(s.tags), "file": s.place.file} for s in scenarios
        ]
        say_json(rows)
        return
    table = [tuple(column.upper() for column in _COLUMNS), *(_row(scenario) for scenario in scenarios)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
    for row in table:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(scenario: Scenario) -> tuple[str, str, str, str]:
    return (scenario.id, scenario.name, scenario.domain or "", ", ".join(scenario.tags))
