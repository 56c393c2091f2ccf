"""Where a command's results go: the terminal, and the report files the user asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.compose.rates import rates_of
from holdfast.errors import SetupError
from holdfast.report.page import Page
from holdfast.report.runs_table import render_stored_run
from holdfast.report.transcript import Transcripts
from holdfast.store.reader import RunReader

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
    """The table, and the files. Raises `SetupError` when a file cannot be written; the record is safe already."""
    for line in render_stored_run(reader.path, page(), transcripts=transcripts):
        click.echo(line)
    rates = rates_of(reader)
    if any(rate.planned > 1 for rate in rates):
        from holdfast.report.scenario_rates import render_scenario_rates

        click.echo("")
        for line in render_scenario_rates(rates, page()):
            click.echo(line)
    if json_file is not None:
        from holdfast.report.json_report import to_json

        _write(json_file, b"".join(to_json(reader.header, reader.trials())))
    if junit_file is not None:
        from holdfast.report.junit import to_junit

        _write(junit_file, to_junit(reader.header, reader.trials()).encode())


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise SetupError(f"the report {file} cannot be written: {error.strerror}") from error
