"""Where a command's results go: the terminal, and the report files the user asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from steadyhand.compose.running import rates_of
from steadyhand.errors import SetupError
from steadyhand.report.details import Transcripts
from steadyhand.report.table import Page
from steadyhand.report.terminal import render_stored_run
from steadyhand.store.reader import RunReader

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, dir_okay=False)


def report_files(command: F) -> F:
    """--json, --junit and --transcript."""
    command = click.option(
        "--transcript",
        "transcripts",
        type=click.Choice(["all", "failed", "none"]),
        help="Whose transcript to show. [default: those that did not pass, and a single conversation's]",
    )(command)
    command = click.option("--junit", "junit_file", type=_FILE, help="Write a JUnit report.")(command)
    return click.option("--json", "json_file", type=_FILE, help="Write the whole report as JSON.")(command)


def page() -> Page:
    """As wide as the terminal; coloured only when a person reads it."""
    return Page(width=shutil.get_terminal_size((100, 24)).columns, colour=sys.stdout.isatty())


def show_run(
    reader: RunReader, *, json_file: Path | None, junit_file: Path | None, transcripts: Transcripts | None
) -> None:
    """The files, and the table. Raises `SetupError` when a file cannot be written; the record is safe already.

    The files come first: whoever reads the table may stop in the middle (`| head`), which ends the process.
    """
    rates = rates_of(reader)
    unwritten: list[str] = []
    if json_file is not None:
        from steadyhand.report.json import to_json

        unwritten += _write(json_file, to_json(reader.header, reader.trials(), rates))
    if junit_file is not None:
        from steadyhand.report.junit import to_junit

        unwritten += _write(junit_file, [to_junit(reader.header, reader.trials(), rates).encode()])
    for line in render_stored_run(reader, rates, page(), transcripts=transcripts):
        click.echo(line)
    if unwritten:
        raise SetupError("; ".join(unwritten))


def _write(file: Path, content: Iterable[bytes]) -> list[str]:
    """What went wrong, if anything did."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as stream:
            stream.writelines(content)
    except OSError as error:
        return [f"the report {file} cannot be written: {error.strerror}"]
    return []
