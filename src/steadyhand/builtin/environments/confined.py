"""Running one command under bubblewrap, and telling its failure from a failure of the sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from steadyhand.builtin.environments.process import Command, run_command
from steadyhand.builtin.environments.sandbox import Confinement
from steadyhand.errors import WorkspaceError
from steadyhand.records.result import ExecutionResult


async def run_confined(
    command: Command, confinement: Confinement, kill_strays: Callable[[int], None]
) -> ExecutionResult:
    """As `run_command`. Raises `WorkspaceError` when the sandbox could not be made: the command has not run then.

    Bubblewrap says on a pipe of its own that the command ended, which nothing inside can reach; the exit code and the
    output alone could be the command's as well.
    """
    report, status = os.pipe()
    try:
        try:
            argv = confinement.argv(command.argv, status=status)
            confined = msgspec.structs.replace(command, argv=argv, pass_fds=(status,))
            result = await run_command(confined, kill_strays)
        finally:
            os.close(status)
        os.set_blocking(report, False)
        if not result.timed_out and b'"exit-code"' not in _said(report):
            reason = result.stderr.strip() or f"bubblewrap ended with exit code {result.exit_code}"
            raise WorkspaceError(f"the sandbox could not be made: {reason}")
        return result
    finally:
        os.close(report)


def _said(report: int) -> bytes:
    try:
        return os.read(report, 65536)
    except BlockingIOError:
        return b""
