"""Finding and killing what a command left running, even when it left its session and its parent.

Everything a trial starts carries a mark in its environment, which children inherit. Where there is no `/proc` to read
it from, only the process group can be killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from steadyhand.builtin.environments.owner import stat_fields

TRIAL_MARK = "STEADYHAND_TRIAL"
COMMAND_MARK = "STEADYHAND_COMMAND"
_PROC = Path("/proc")
_PATIENCE_S = 2.0


def kill_group(pid: int) -> None:
    """Kill the process group that `pid` leads; it may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def kill_command(mark: str, *, after: int) -> None:
    """Kill what the command with this mark left running. It was process `after`, so its children are younger.

    Process numbers start over once in a long while; what that hides, `kill_trial` finds.
    """
    _kill_all(lambda: _marked(COMMAND_MARK, mark, (pid for pid in _pids() if pid > after)))


def kill_trial(name: str, workspace: Path) -> None:
    """Kill everything of a trial: marked, at work in its workspace, or descended from such a process."""

    def find() -> set[int]:
        found = _marked(TRIAL_MARK, name, _pids()) | _working_in(workspace)
        return found | _descendants(found) if found else found

    _kill_all(find)


def _kill_all(find: Callable[[], set[int]]) -> None:
    """Kill until nothing is found any more: what is being killed may still fork."""
    give_up = time.monotonic() + _PATIENCE_S
    while found := find() - {os.getpid()}:
        _kill_round(found, find)
        if time.monotonic() > give_up:
            return
        time.sleep(0.002)


def _kill_round(found: set[int], find: Callable[[], set[int]]) -> None:
    """Kill through handles taken before a second look, so that a new process that got an old number is not hit."""
    if not hasattr(os, "pidfd_open"):
        return
    handles: dict[int, int] = {}
    try:
        for pid in found:
            with contextlib.suppress(OSError):
                handles[pid] = os.pidfd_open(pid)
        for pid in find() & handles.keys():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)
    finally:
        for handle in handles.values():
            os.close(handle)


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit()]
    except OSError:
        return []


def _marked(variable: str, value: str, pids: Iterable[int]) -> set[int]:
    entry = f"{variable}={value}".encode()
    return {pid for pid in pids if entry in _environ(pid).split(b"\0")}


def _environ(pid: int) -> bytes:
    """Empty for a process that has ended or is another user's."""
    try:
        return (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return b""


def _working_in(workspace: Path) -> set[int]:
    """Processes with their working folder in the workspace that are ours or nobody's.

    That finds a daemon that wiped its environment, and spares a shell in which somebody looks around.
    """
    found: set[int] = set()
    for pid in _pids():
        with contextlib.suppress(OSError):
            folder = (_PROC / str(pid) / "cwd").readlink()
            if (folder == workspace or workspace in folder.parents) and _orphan_or_ours(pid):
                found.add(pid)
    return found


def _orphan_or_ours(pid: int) -> bool:
    seen: set[int] = set()
    parent = _parent(pid)
    if parent <= 1 or _program(parent) == "systemd":
        return True
    while parent > 1 and parent not in seen:
        if parent == os.getpid():
            return True
        seen.add(parent)
        parent = _parent(parent)
    return False


def _parent(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def _program(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text().strip()
    return ""


def _descendants(of: set[int]) -> set[int]:
    parents = {pid: _parent(pid) for pid in _pids()}
    known = set(of)
    while younger := {pid for pid, parent in parents.items() if parent in known} - known:
        known |= younger
    return {pid for pid in known - of if _alive(pid)}


def _alive(pid: int) -> bool:
    """A process that has ended stays listed until its parent asks for its exit code."""
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in ("Z", "X")
