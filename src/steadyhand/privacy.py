"""Protects this process from other programs of the same user: its environment, its memory and its descriptors.

Commands, agents and models run programs as the same user, which could read our process. The variables that a process
was started with stay readable in `/proc/PID/environ` even after they have been removed from `os.environ`, and a
debugger may read the rest. Event loops that do not close inherited descriptors would pass them on. This module prevents
all three. It is only for our own processes: the command line, and the children it starts.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Container

STAY_DUMPABLE = "STEADYHAND_DUMPABLE"
"""If set to 1, a debugger or profiler of the same user may attach, and core dumps are written."""

_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48  # among the fields of /proc/self/stat that follow the program's name


def close_to_others(*, keep: Container[str] = ()) -> None:
    """Clear the environment block, except for the variables to `keep`; make descriptors non-inheritable; block
    debuggers.

    `os.environ`, `getenv` and what children inherit stay as they are. Does nothing without `/proc`. Privileged
    processes are not affected: root can read any memory.
    """
    if sys.platform != "linux":
        return
    keep_descriptors()
    blank_environment(keep=keep)
    if os.environ.get(STAY_DUMPABLE) != "1":
        refuse_debuggers()


def blank_environment(*, keep: Container[str] = ()) -> None:
    """Overwrite the values of the variables this process was started with. Call it before other threads start."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:  # noqa: PTH123 - no need to load pathlib
            memory.seek(start)
            block = memory.read(end - start)
            # The C library's variables still point into the block: give it copies of its own first.
            for name, value in os.environ.items():
                os.putenv(name, value)
            memory.seek(start)
            memory.write(_blanked(block, keep))


def keep_descriptors() -> None:
    """Make all open descriptors non-inheritable, except the three standard ones."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):  # the one that the folder was read through
            if int(name) > 2:
                os.set_inheritable(int(name), False)


def refuse_debuggers() -> None:
    """Make the process undumpable: other processes of this user can read neither its memory nor its environment."""
    import ctypes  # takes some milliseconds

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _blanked(block: bytes, keep: Container[str]) -> bytes:
    """The block with the same length and its zeros in place, and nothing to read in the entries not kept."""
    entries = block.split(b"\0")
    return b"\0".join(
        entry if os.fsdecode(entry.partition(b"=")[0]) in keep else b"\0" * len(entry) for entry in entries
    )
