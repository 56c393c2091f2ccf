"""What ends a command early, as a message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback

import click

from steadyhand.errors import ExitCode, FileError, StoreError, UsageError
from steadyhand.redaction import Redactor, secrets_of


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
