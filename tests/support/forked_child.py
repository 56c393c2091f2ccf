"""Child processes that are forked from one that has already done their imports, instead of being started.

For tests of what a child says and does, and not of what happens to its process: the process that we start only stands
in for the child, which ends with it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator

from steadyhand.children.process import ChildProcess
from support.warm_program import warm

_DESCRIPTOR = "4"
"""Which argument of an interpreter is the child's end of its connection."""


@contextlib.contextmanager
def forked(child: str, program: str) -> Iterator[None]:
    """Within it, `child`, a `module:function`, is forked from `program`, a module in `support`. Commands that tests
    have a `command_server` run do the same."""
    *client, server = shlex.split(warm(program))
    ChildProcess.interpreters[child] = [*client, "--file", _DESCRIPTOR, server]
    try:
        yield
    finally:
        del ChildProcess.interpreters[child]


def main() -> None:
    """As an interpreter started with these arguments does: options, and a program with its own."""
    program = sys.argv.index("-c") + 1
    code, sys.argv = sys.argv[program], ["-c", *sys.argv[program + 1 :]]
    os.setsid()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)
    exec(code, {"__name__": "__main__"})
