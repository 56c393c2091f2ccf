"""The process of a `python:` agent, for `warm_program`: forked from one that has its imports done."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator

import steadyhand.builtin.agents.python_child  # noqa: F401 - what each of them would import
from steadyhand.children.process import ChildProcess
from support.warm_program import warm

_MAIN = "steadyhand.builtin.agents.python_child:main"


@contextlib.contextmanager
def forked_agents() -> Iterator[None]:
    """Within it, processes of agents are forked. For tests of what an agent says, not of what happens to its process:
    the process that we start only stands in for that of the agent."""
    python, *client = shlex.split(warm(__name__.rpartition(".")[2]))
    ChildProcess.interpreters[_MAIN] = [python, *client[:-1], "--file", "4", client[-1]]
    try:
        yield
    finally:
        del ChildProcess.interpreters[_MAIN]


def main() -> None:
    """As an interpreter does that is started with these arguments: options, and a program with its own."""
    program = sys.argv.index("-c") + 1
    code, sys.argv = sys.argv[program], ["-c", *sys.argv[program + 1 :]]
    os.setsid()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)
    exec(code, {"__name__": "__main__"})
