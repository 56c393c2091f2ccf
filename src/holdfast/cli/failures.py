"""What ends a command early, as a message and an exit code."""

from __future__ import annotations

import sys

import click

from holdfast.errors import ExitCode, FileError, StoreError, UsageError


def explain(error: BaseException) -> int:
    """Show what happened on stderr and say the exit code. A bug of ours is raised again, with its traceback."""
    match error:
        case click.Abort() | KeyboardInterrupt():
            click.echo("interrupted", err=True)
            return ExitCode.INTERRUPTED
        case click.ClickException():
            error.show(sys.stderr)
            return ExitCode.USAGE
        case FileError():
            click.echo(str(error), err=True)
            return ExitCode.USAGE
        case UsageError() | StoreError():
            click.echo(f"holdfast: {error}", err=True)
            return ExitCode.USAGE
        case BrokenPipeError():
            # Whoever read our output has gone; a message would have nobody to read it.
            sys.stderr.close()
            return ExitCode.FAILED
        case _:
            raise error
