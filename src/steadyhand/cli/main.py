"""The command `steadyhand`: finds the subcommand, and turns errors into messages and exit codes.

A command's module is imported when it is called, so that `steadyhand --help` loads nothing else.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from steadyhand.cli import options as shared
from steadyhand.errors import ExitCode, FileError, StoreError, UsageError
from steadyhand.redaction import Redactor, secrets_of
from steadyhand.version import __version__

_COMMANDS = {
    "run": ("steadyhand.cli.run:run", "Run scenarios and judge them."),
    "validate": ("steadyhand.cli.validate:validate", "Report every problem of every file, and run nothing."),
    "lint": ("steadyhand.cli.lint:lint", "Find checks that load but cannot be meant."),
    "selftest": ("steadyhand.cli.selftest:selftest", "Try a scenario's checks on its own example answers."),
    "list": ("steadyhand.cli.scenario_list:list_scenarios", "List scenarios with id, name, domain and tags."),
    "resume": ("steadyhand.cli.resume:resume", "Do what is missing of a run, or was in error."),
    "matrix": ("steadyhand.cli.run:run", "Run every combination of a matrix; the same as `run`."),
    "runs": ("steadyhand.cli.runs:runs", "List the runs on record."),
    "show": ("steadyhand.cli.show:show", "Show a run again from its record."),
    "import": ("steadyhand.cli.importer:import_scenarios", "Turn another benchmark's scenarios into scenario files."),
    "schema": ("steadyhand.cli.schema:schema", "Write the JSON Schemas of the file formats, for editors."),
    "scenario": ("steadyhand.cli.main:scenario", "The same commands under the specification's name."),
}
_SCENARIO_COMMANDS = ("run", "validate", "lint", "selftest", "list", "matrix")


class LazyGroup(shared.Group):
    """A group that knows its commands' names and one-line helps, and imports one when it is asked for."""

    def __init__(self, *, names: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self._names: tuple[str, ...] = tuple(names)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._names:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        return getattr(importlib.import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if error.ctx is not ctx:  # about the command's own options
                raise
            raise click.UsageError(f"{error.format_message()} Commands: {', '.join(self._names)}.", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self._names])


@click.command(cls=LazyGroup, names=tuple(_COMMANDS), context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="steadyhand")
def cli() -> None:
    """Run scenarios against AI agents and models: the right thing, safely, in time."""


@click.command(cls=LazyGroup, names=_SCENARIO_COMMANDS)
def scenario() -> None:
    """Run and check scenario files."""


def main() -> None:
    """Entry point of the process. Users' mistakes end in one message and exit code 2, without a traceback."""
    # Nothing is garbage while modules and files load: collecting then costs a tenth of the start and finds nothing. A
    # run turns the collector on when its trials begin.
    gc.disable()
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as leave:
        code = leave.exit_code
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - explained, or raised again
        code = explain(error)
    _leave(code if isinstance(code, int) else 0)


def _leave(code: int) -> NoReturn:
    """End the process. Everything is closed by now; taking the interpreter apart would cost a tenth of a short run."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code)


def explain(error: BaseException) -> int:
    """Show what happened on stderr and say the exit code. A bug of ours is shown with its traceback."""
    redact = Redactor(secrets_of(os.environ)).text
    match error:
        case click.Abort() | KeyboardInterrupt():
            click.echo("interrupted", err=True)
            return ExitCode.INTERRUPTED
        case click.ClickException():
            error.show(sys.stderr)
            return ExitCode.USAGE
        case FileError():
            click.echo(redact(str(error)), err=True)
            return ExitCode.USAGE
        case UsageError() | StoreError():
            click.echo(redact(f"steadyhand: {error}"), err=True)
            return ExitCode.USAGE
        case BrokenPipeError():
            # Whoever read our output has gone; a message would have nobody to read it.
            sys.stderr.close()
            return ExitCode.FAILED
        case _:
            click.echo(redact("".join(traceback.format_exception(error))), err=True, nl=False)
            return ExitCode.FAILED
