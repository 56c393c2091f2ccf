"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")
out = click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of run records. [default: .holdfast/runs]"
)


def selection(command: F) -> F:
    """PATH..., --tag and -k: which scenarios."""
    command = click.option("-k", "expression", metavar="EXPR", help="Only ids and names matching words, and/or/not.")(
        command
    )
    command = click.option(
        "--tag", "tags", multiple=True, metavar="TAG", help="Only scenarios with this tag (repeatable)."
    )(command)
    return paths(command)
