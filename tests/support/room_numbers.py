"""The numbers of processes in rooms, as the rest of the machine knows them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from steadyhand.children.daemons import tree


def number_outside(number: int, below: int) -> int:
    """The number of a process that gave its own, started by the process `below`; the same if it has no room."""
    for pid in tree(below):
        with contextlib.suppress(OSError):
            status = (Path("/proc") / str(pid) / "status").read_text()
            numbers = status.partition("NSpid:")[2].partition("\n")[0].split()
            if len(numbers) > 1 and int(numbers[-1]) == number:
                return pid
    return number
