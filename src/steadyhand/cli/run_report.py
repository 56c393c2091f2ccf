"""A run as a command shows it: the table on the terminal, and the report files that were asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from steadyhand.cli.terminal import Unwritten, page, show
from steadyhand.compose.running import rates_of
from steadyhand.report.details import Transcripts
from steadyhand.report.terminal import render_stored_run
from steadyhand.store.reader import RunReader

F = TypeVar("F", bound=Callable[..., Any])
_FILE = click.Path(path_type=Path, dir_okay=False)


def report_files(command: F) -> F:
    """--json, --junit, --html and --transcript."""
    command = click.option(
        "--transcript",
        "transcripts",
        type=click.Choice(["all", "failed", "none"]),
        help="Which transcripts to show. [default: trials that did not pass, or a single conversation]",
    )(command)
    command = click.option("--html", "html_file", type=_FILE, help="Write an HTML report, one file for a browser.")(
        command
    )
    command = click.option("--junit", "junit_file", type=_FILE, help="Write a JUnit XML report.")(command)
    return click.option("--json", "json_file", type=_FILE, help="Write the full report as JSON.")(command)


def show_run(
    reader: RunReader,
    *,
    json_file: Path | None,
    junit_file: Path | None,
    html_file: Path | None,
    transcripts: Transcripts | None,
) -> None:
    """The files, and the table. Raises `Unwritten` if a file cannot be written; the record is safe already."""
    rates = rates_of(reader)
    unwritten: list[str] = []
    if json_file is not None:
        from steadyhand.report.json import to_json

        unwritten += write_report(json_file, to_json(reader.header, reader.trials(), rates))
    if junit_file is not None:
        from steadyhand.report.junit import to_junit

        unwritten += write_report(junit_file, [to_junit(reader.header, reader.trials(), rates).encode()])
    if html_file is not None:
        from steadyhand.report.html.page import to_html

        unwritten += write_report(html_file, to_html(reader, rates))
    show(render_stored_run(reader, rates, page(), transcripts=transcripts))
    if unwritten:
        raise Unwritten("; ".join(unwritten))


def write_report(file: Path, content: Iterable[bytes]) -> list[str]:
    """What went wrong, if anything did. A report is there as a whole or not at all."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not file.is_file():
            with file.open("wb") as stream:  # a pipe or device
                stream.writelines(content)
            return []
        part = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            with part.open("wb") as stream:
                stream.writelines(content)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        return [f"cannot write the report {file}: {error.strerror}"]
    return []
