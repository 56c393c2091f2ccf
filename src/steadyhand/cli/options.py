"""Options of commands: those that a run declares, and what several commands share."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, get_args, get_origin

import click
from click.types import FloatParamType, IntParamType

from steadyhand.cli.terminal import say
from steadyhand.errors import ExitCode
from steadyhand.suggestion import did_you_mean

if TYPE_CHECKING:
    import msgspec
    from click.shell_completion import CompletionItem

    from steadyhand.records.base import Record
    from steadyhand.records.config import Option

F = TypeVar("F", bound=Callable[..., Any])


def _complete_path(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Completed by the shell: a path may also be a glob or the name of a library, so this is not a file type."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


class _WritablePath(click.Path):
    """A file or folder to write; `-` is not allowed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) == "-":
            kind = "file" if self.file_okay else "folder"
            self.fail(f"this cannot be written to stdout; name a {kind}", param, ctx)
        return super().convert(value, param, ctx)


class Grouped(click.Option):
    """An option that stands in a group, where the help has groups.

    `former_flag` is accepted too, unless it could mean another option of the command; help and messages do not show it.
    """

    def __init__(self, *args: Any, heading: str = "", former_flag: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        self.heading: str = heading
        self.former_flag: str = former_flag

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        others = {flag for each in ctx.command.params for flag in each.opts}
        if self.former_flag and others.isdisjoint({self.former_flag, f"{self.former_flag}-dir"}):
            action = "append" if self.multiple else "store"
            parser.add_option(self, [self.former_flag], dest=self.name, action=action)


FOLDER = _WritablePath(path_type=Path, file_okay=False)
FILE = _WritablePath(path_type=Path, dir_okay=False)
paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...", shell_complete=_complete_path)
optional_paths = click.argument("paths", nargs=-1, metavar="PATH...", shell_complete=_complete_path)
no_progress = click.option("--no-progress", is_flag=True, cls=Grouped, heading="Output", help="Do not show progress.")


class Group(click.Group):
    """A group whose commands reject an option that is given twice, instead of silently using the last value.

    Without a command it shows its help, as an error. Its errors know the command that they are about.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            say(ctx.get_help(), err=True)
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if error.ctx is None:  # the parser's own; found before the command has a context
                command = self.get_command(ctx, ctx.invoked_subcommand or "") or self
                error.ctx = click.Context(command, parent=ctx, info_name=ctx.invoked_subcommand)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] not in names and not ctx.resilient_parsing and not args[0].startswith("-"):
            hint = did_you_mean(args[0], names)
            stop = "" if hint else "."
            raise click.UsageError(f"no such command {args[0]!r}{hint}{stop} Commands: {', '.join(names)}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _refuse_repeats(command, click.Context(command, parent=ctx, info_name=name), rest)
        return name, command, rest


class Headed(click.Command):
    """A command with many options, whose help lists them under headings."""

    def __init__(self, *args: Any, headings: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.headings: Sequence[str] = headings

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*self.headings, "Other")}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)) is not None:
                rows[(isinstance(param, Grouped) and param.heading) or "Other"].append(record)
        for heading, found in rows.items():
            with formatter.section(heading):
                formatter.write_dl(found)


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


class FiniteRange(click.FloatRange):
    """A number in a range. Comparisons let `nan` through, so it is rejected here."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        amount = super().convert(value, param, ctx)
        if math.isnan(amount):
            bounds = [f"{'more than' if self.min_open else 'at least'} {self.min:g}"] if self.min is not None else []
            if self.max is not None:
                bounds.append(f"{'less than' if self.max_open else 'at most'} {self.max:g}")
            self.fail(f"{value} is out of range; expected {' and '.join(bounds)}", param, ctx)
        return amount


class _OrAuto(click.IntRange):
    """A number in a range, or `auto`: as if it were not given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "auto" else super().convert(value, param, ctx)


_OPENS: dict[str, click.Path] = {
    "existing file": click.Path(path_type=Path, dir_okay=False, exists=True),
    "existing folder": click.Path(path_type=Path, file_okay=False),
    "file": click.Path(path_type=Path, dir_okay=False),
    "folder": FOLDER,
}


def declared(command: str, *records: type[Record]) -> Callable[[F], F]:
    """The options of a run that the command takes, and those of `records`, named as their fields. What an option is,
    its field declares: see `Option` in `records/config.py`."""
    import msgspec  # it and the records would take half as long as `--help`

    from steadyhand.records.config import RunOptions, Selection, declared_by, plain_type

    def add(function: F) -> F:
        for record in reversed((Selection, RunOptions, *records)):
            fields = {field.name: field for field in msgspec.structs.fields(record)}
            for name, option in reversed(declared_by(record).items()):
                if option.flag and command in option.commands:
                    value = _value(*plain_type(fields[name].type), option)
                    function = _option(option, fields[name], value, command)(function)
        return function

    return add


def _option(option: Option, field: msgspec.structs.FieldInfo, value: dict[str, Any], command: str) -> Callable[[F], F]:
    text = option.elsewhere.get(command, option.help)
    return click.option(
        *option.flag.split("/"),
        field.name,
        cls=Grouped,
        heading=option.heading,
        former_flag=option.former_flag,
        help=text if "[default" in text or not option.default_text else f"{text} [default: {option.default_text}]",
        metavar=option.metavar,
        **({"default": field.default} if isinstance(field.default, str) else {}),
        **value,
    )


def _value(kind: Any, bounds: msgspec.Meta | None, option: Option) -> dict[str, Any]:
    """What click has to know of the type."""
    if kind is bool:
        return {"is_flag": True}
    if get_origin(kind) is tuple:
        return {"multiple": True}
    if get_origin(kind) is Literal:
        return {"type": click.Choice(get_args(kind))}
    if kind is Path:
        return {"type": _OPENS[option.opens]}
    if kind is int:
        least, most = (None, None) if bounds is None else cast("tuple[int | None, ...]", (bounds.ge, bounds.le))
        range_of = _OrAuto if option.or_auto else click.IntRange
        return {"type": range_of(least, most) if bounds is not None else int}
    if kind is float and bounds is not None:
        least, most = (bounds.gt if bounds.ge is None else bounds.ge), (bounds.lt if bounds.le is None else bounds.le)
        return {"type": FiniteRange(least, most, min_open=bounds.gt is not None, max_open=bounds.lt is not None)}
    return {}
