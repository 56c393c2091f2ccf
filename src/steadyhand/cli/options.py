"""Options shared by several commands."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.types import FloatParamType, IntParamType

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


def _complete_path(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completed by the shell: a path may also be a glob or the name of a library, so this is not a file type."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class _Named(click.Path):
    """A file or folder to write; `-` is not allowed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) == "-":
            kind = "file" if self.file_okay else "folder"
            self.fail(f"this cannot be written to stdout; name a {kind}", param, ctx)
        return super().convert(value, param, ctx)


FOLDER = _Named(path_type=Path, file_okay=False)
FILE = _Named(path_type=Path, dir_okay=False)
paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=_complete_path)
optional_paths = click.argument("paths", nargs=-1, metavar="PATH...", shell_complete=_complete_path)
out = click.option(
    "--out",
    type=FOLDER,
    help="Folder for run records. [default: .steadyhand/runs]",
)


config = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Configuration file. [default: steadyhand.toml in this folder or the nearest parent]",
)


trust = click.option(
    "--trust",
    is_flag=True,
    help="Allow code, commands and files named by scenarios outside the project.",
)

max_cost = click.option(
    "--max-cost", type=click.FloatRange(min=0, min_open=True), help="Stop starting trials once this much is spent."
)

max_tokens = click.option(
    "--max-tokens", type=click.IntRange(min=1), help="Stop starting trials once this many tokens are used."
)

no_progress = click.option("--no-progress", is_flag=True, help="Do not show progress.")

retries = click.option(
    "--retries", type=click.IntRange(0, 20), help="Number of retries for a failed model call. [default: 2]"
)

stall_limit = click.option(
    "--stall-limit",
    "stall_limit_s",
    type=click.FloatRange(min=0, min_open=True),
    help="End the run if providers fail and nothing has succeeded for this long, in seconds. [default: 300]",
)

strict_judge = click.option(
    "--strict-judge", is_flag=True, help="Refuse to let a model be judged by itself or by a model from the same vendor."
)

timeout = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    help="Time limit for a model call, in seconds.",
)

votes = click.option(
    "--votes",
    type=click.IntRange(min=1),
    help="Number of times to ask, for checks that do not set it. [default: as configured, or 1]",
)


wait_limit = click.option(
    "--wait-limit",
    "wait_limit_s",
    type=click.FloatRange(min=0, min_open=True),
    help="How long a trial may wait for servers in all, in seconds. [default: 120]",
)


def workers(command: F) -> F:
    """--workers, --engine, --ray-address and --ray-env: where trials run."""
    command = click.option(
        "--ray-env",
        multiple=True,
        metavar="NAME",
        help="Environment variable to send to the nodes (repeatable). [default: nodes use their own environment]",
    )(command)
    command = click.option(
        "--ray-address", metavar="HOST:PORT", help="Ray cluster to use. [default: start one on this machine]"
    )(command)
    command = click.option(
        "--engine", type=click.Choice(["local", "ray"]), help="Where the workers run. [default: local]"
    )(command)
    return click.option(
        "--workers",
        type=click.IntRange(1, 10_000),
        metavar="N",
        help="Number of processes that run trials. [default: 1; with Ray, one per processor]",
    )(command)


def project(command: F) -> F:
    """--config and --plugin, which apply to all scenarios."""
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


class Headed(click.Command):
    """A command with many options, whose help lists them under headings."""

    def __init__(self, *args: Any, headings: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.headings: Mapping[str, Sequence[str]] = headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = {
            name: record
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None
            for name in param.opts[-1:]
        }
        for heading, names in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl([rows.pop(name) for name in names])
        with formatter.section("Other"):
            formatter.write_dl(list(rows.values()))


def name_numbers(command: click.Command) -> click.Command:
    """Numbers are shown as N in the help, unless the option has its own metavar."""
    for param in command.params:
        if param.metavar is None and isinstance(param.type, IntParamType | FloatParamType):
            param.metavar = "N"
    return command


def _refuse_repeats(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """Raises a `click.UsageError` that lists all the values. A flag may be repeated."""
    if sum(each.startswith("-") for each in args) < 2:
        return  # parsing twice would take a millisecond of every start
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


def result_files(command: F) -> F:
    """--json and --markdown."""
    command = click.option(
        "--markdown", "markdown_file", metavar="FILE|-", help="Write it as Markdown, to a file or to stdout."
    )(command)
    return click.option("--json", "json_file", metavar="FILE|-", help="Write it as JSON, to a file or to stdout.")(
        command
    )


def one_to_stdout(json_file: str | None, markdown_file: str | None) -> None:
    """Raises `click.UsageError` if both are written to stdout."""
    if json_file == markdown_file == "-":
        raise click.UsageError("--json - and --markdown - cannot both be written to stdout; give one of them a file")


class PassRateRange(click.FloatRange):
    """A share above 0. Comparisons let `nan` through, so it is rejected here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        share = super().convert(value, param, ctx)
        if math.isnan(share):
            self.fail(f"{value} is out of range; expected more than 0 and at most 1", param, ctx)
        return share


def selection(command: F) -> F:
    """PATH..., --tag, -k and --filter, which select scenarios."""
    return paths(filters(command))


def filters(command: F) -> F:
    """--tag, -k and --filter."""
    command = click.option(
        "--filter",
        "filters",
        multiple=True,
        metavar="PARAM=VALUE",
        help="Only matrix combinations or targets with this value (repeatable).",
    )(command)
    command = click.option(
        "-k", "expression", metavar="EXPR", help="Only scenarios whose id or name matches, as in 'stemi and not slow'."
    )(command)
    return click.option(
        "--tag", "tags", multiple=True, metavar="TAG", help="Only scenarios with this tag (repeatable)."
    )(command)
