"""Options shared by several commands."""

from __future__ import annotations

import copy
import math
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

paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")
out = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for run records. [default: .steadyhand/runs]",
)


config = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Configuration file. [default: the nearest steadyhand.toml upwards]",
)


def project(command: F) -> F:
    """--config and --plugin: what holds for all scenarios."""
    command = click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="NAME",
        help="Plugin to load: a file, package.module:name or an installed one (repeatable).",
    )(command)
    return config(command)


class Group(click.Group):
    """A group whose commands reject an option that is given twice, instead of silently using the last value."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _refuse_repeats(command, click.Context(command, parent=ctx, info_name=name), rest)
        return name, command, rest


def _refuse_repeats(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """Raises `click.UsageError` that names all the values. A flag may be repeated."""
    single = [each for each in command.params if isinstance(each, click.Option) and not (each.multiple or each.count)]
    collecting = copy.copy(command)
    collecting.params = [copy.copy(each) for each in command.params]
    for each in collecting.params:
        if isinstance(each, click.Option) and not each.count:
            each.multiple = True
    try:
        given, _, _ = collecting.make_parser(ctx).parse_args(list(args))
    except click.UsageError:
        return  # reported when the command itself is parsed
    for option in single:
        values: list[Any] = given.get(option.name or "", [])
        if len(values) > 1 and not (option.is_flag and len(set(values)) == 1):
            shown = ", ".join(repr(value) for value in values)
            raise click.UsageError(f"{option.opts[0]} takes one value, found {len(values)}: {shown}", ctx)


class PassRate(click.FloatRange):
    """A share above 0. Comparisons let `nan` through, so it is rejected here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        share = super().convert(value, param, ctx)
        if math.isnan(share):
            self.fail(f"{value} is not a share; expected more than 0 and at most 1", param, ctx)
        return share


def selection(command: F) -> F:
    """PATH..., --tag, -k and --filter, which select scenarios."""
    command = click.option(
        "--filter",
        "filters",
        multiple=True,
        metavar="PARAM=VALUE",
        help="Only matrix combinations with this value (repeatable).",
    )(command)
    command = click.option(
        "-k", "expression", metavar="EXPR", help="Only scenarios whose id or name matches, as in 'stemi and not slow'."
    )(command)
    command = click.option(
        "--tag", "tags", multiple=True, metavar="TAG", help="Only scenarios with this tag (repeatable)."
    )(command)
    return paths(command)


_FILE = click.Path(path_type=Path, dir_okay=False)


def report_files(command: F) -> F:
    """--json, --junit and --transcript."""
    command = click.option(
        "--transcript",
        "transcripts",
        type=click.Choice(["all", "failed", "none"]),
        help="Which transcripts to show. [default: trials that did not pass, or a single conversation]",
    )(command)
    command = click.option("--junit", "junit_file", type=_FILE, help="Write a JUnit XML report.")(command)
    return click.option("--json", "json_file", type=_FILE, help="Write the full report as JSON.")(command)


def number(count: int, noun: str, plural: str = "") -> str:
    """Such as `1 scenario` and `2 scenarios`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def show_run(
    reader: RunReader, *, json_file: Path | None, junit_file: Path | None, transcripts: Transcripts | None
) -> None:
    """The files, and the table. Raises `Unwritten` if a file cannot be written; the record is safe already."""
    rates = rates_of(reader)
    unwritten: list[str] = []
    if json_file is not None:
        from steadyhand.report.json import to_json

        unwritten += _write(json_file, to_json(reader.header, reader.trials(), rates))
    if junit_file is not None:
        from steadyhand.report.junit import to_junit

        unwritten += _write(junit_file, [to_junit(reader.header, reader.trials(), rates).encode()])
    show(render_stored_run(reader, rates, page(), transcripts=transcripts))
    if unwritten:
        raise Unwritten("; ".join(unwritten))


def _write(file: Path, content: Iterable[bytes]) -> list[str]:
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
