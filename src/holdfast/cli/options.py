"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")
out = click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of run records. [default: .holdfast/runs]"
)


class PassRate(click.FloatRange):
    """A share of more than nothing. `nan` is in no range, but no comparison says so."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        share = super().convert(value, param, ctx)
        if math.isnan(share):
            self.fail(f"{value} is not a share; expected more than 0 and at most 1", param, ctx)
        return share


def selection(command: F) -> F:
    """PATH..., --tag, -k and --filter: which scenarios."""
    command = click.option(
        "--filter",
        "filters",
        multiple=True,
        metavar="PARAM=VALUE",
        help="Only combinations of a matrix with this value (repeatable).",
    )(command)
    command = click.option("-k", "expression", metavar="EXPR", help="Only ids and names matching words, and/or/not.")(
        command
    )
    command = click.option(
        "--tag", "tags", multiple=True, metavar="TAG", help="Only scenarios with this tag (repeatable)."
    )(command)
    return paths(command)
