"""Command lines for the shell in an E2B sandbox."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from steadyhand.builtin.environments.cleanup import COMMAND_MARK
from steadyhand.errors import WorkspaceError

_LOCATE = """\
at=$(readlink -f -- "$1") && here=$(pwd -P) && [ -f "$at" ] || exit 1
case $at in "$here"/*) printf '%s %s' "$(stat -c %s -- "$at")" "${at#"$here"/}" ;; *) exit 1 ;; esac"""


def command_line(command: str | Sequence[str], env: Mapping[str, str], mark: str) -> str:
    """Run `command`, then kill what it left running, and end with its exit code.

    Everything it starts carries the mark in its environment. The shell around it turns death by a signal into
    128 and the signal's number, and is kept from writing about it into the command's output. Variables are set here,
    since the sandbox's login shell would replace some of them. Raises `WorkspaceError` for what cannot be passed on.
    """
    words = [command] if isinstance(command, str) else list(command)
    if not words:
        raise WorkspaceError("there is no command to run: the list of arguments is empty")
    if any("\0" in text for text in (*words, *env, *env.values())):
        raise WorkspaceError("could not run the command: it, or a variable given to it, has a NUL character")
    if any(not name or "=" in name for name in env):
        raise WorkspaceError("could not run the command: a variable given to it has no name, or one with `=` in it")
    run = ["bash", "-c", command] if isinstance(command, str) else ["bash", "-c", 'exec "$@"', "bash", *words]
    variables = [f"{name}={value}" for name, value in {**env, COMMAND_MARK: mark}.items()]
    started = shlex.join(["env", *variables, *run])
    return f"exec 3>&2 2>/dev/null; {started} 2>&3 3>&-; code=$?; exec 3>&-; {kill_line(mark)}; exit $code"


def kill_line(mark: str) -> str:
    """Kill everything that carries the mark."""
    entry = shlex.quote(f"{COMMAND_MARK}={mark}")
    return (
        f"for number in $(grep -lzsxF {entry} /proc/[0-9]*/environ | cut -d/ -f3); do "
        "kill -KILL $number 2>/dev/null; done; true"
    )


def locate_line(path: str) -> str:
    """Print size and place of the regular file at `path`, links resolved; fail when it is not below this folder."""
    return shlex.join(["bash", "-c", _LOCATE, "bash", path])
