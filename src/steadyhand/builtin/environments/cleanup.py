"""Finding and killing what a command left running, even when it left its session and its parent.

Everything a trial starts carries a mark in its environment, which children inherit. Where there is no `/proc` to read
it from, only the process group can be killed.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from steadyhand.errors import WorkspaceError
from steadyhand.records.base import Record, shorten

SUFFIX = ".owner"
UNFINISHED = ".part"


class Owner(Record):
    """A process, told apart from a later one with the same number by when it started."""

    pid: int
    started: str
    boot: str
    node: str
    namespace: str


def current_owner() -> Owner:
    return Owner(
        pid=os.getpid(),
        started=process_start(os.getpid()) or "",
        boot=_read("/proc/sys/kernel/random/boot_id"),
        node=platform.node(),
        namespace=_namespace(),
    )


def write_owner(workspace: Path) -> None:
    """Name this process as the workspace's owner. Appears whole or not at all."""
    target = owner_file(workspace)
    part = target.with_name(f"{target.name}.{os.getpid()}{UNFINISHED}")
    part.write_bytes(msgspec.json.encode(current_owner()))
    part.replace(target)


def owner_file(workspace: Path) -> Path:
    return workspace.with_name(workspace.name + SUFFIX)


def is_abandoned(part: Path) -> bool:
    """Whether the process that began to write this owner's file was killed over it; its name tells which one it was."""
    pid = part.name.removesuffix(UNFINISHED).rpartition(".")[2]
    return pid.isdigit() and not _exists(int(pid))


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def is_gone(file: Path) -> bool:
    """Whether the process that wrote this file has ended. In doubt it has not: a live workspace must not be taken."""
    try:
        owner = msgspec.json.decode(file.read_bytes(), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return False
    here = current_owner()
    if owner.node != here.node:
        return False
    if owner.boot != here.boot:
        return True
    if owner.namespace != here.namespace:
        return False
    if here.started:
        return process_start(owner.pid) != owner.started
    return not _exists(owner.pid)


def process_start(pid: int) -> str | None:
    """When the process started, in ticks since boot; None when it has ended or the system does not tell."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return fields[19]


def stat_fields(pid: int) -> list[str] | None:
    """The fields of `/proc/<pid>/stat` after the program's name: state, parent, group, session, ..."""
    text = _read(f"/proc/{pid}/stat")
    # The name stands in brackets and may itself hold brackets and spaces.
    return text.rpartition(")")[2].split() or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


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


def remove_tree(path: Path) -> None:
    """Remove a file or folder with everything in it; read-only folders and very deep ones too. Gone is fine.

    Raises `WorkspaceError` when something is still there in the end.
    """
    try:
        _remove(path)
    except (OSError, RecursionError):
        _force(path)


def _remove(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _force(path: Path) -> None:
    """Open every folder to ourselves first, then leave depth and long names to `rm`, which has no limit on them."""
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    for command in (["chmod", "-R", "u+rwX", "--", str(path)], ["rm", "-rf", "--", str(path)]):
        done = subprocess.run(  # noqa: S603 - fixed programs, a path of our own making
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if path.exists() or path.is_symlink():
        raise WorkspaceError(f"workspace {path} could not be removed: {shorten(done.stderr.strip(), 500)}")


def scratch_folder(workspace: Path) -> Path:
    """Where the commands of a trial put temporary files: beside the workspace, not to be taken for output."""
    return workspace.with_name(workspace.name + ".tmp")


def remove_workspace(workspace: Path, *, ran_commands: bool = True) -> None:
    """Kill what still runs there, and remove the folder with all that belongs to it. Safe to repeat.

    The owner's file goes last: if we are killed on the way, the next sweep finishes.
    """
    if ran_commands:
        kill_trial(workspace.name, workspace)
    remove_tree(scratch_folder(workspace))
    remove_tree(workspace)
    owner_file(workspace).unlink(missing_ok=True)


def sweep(root: Path) -> list[str]:
    """Remove the workspaces below `root` whose owning process is gone, and kill what still runs in them.

    Gives the names of those removed. One that cannot be removed is left for the next time.
    """
    for part in root.resolve().glob(f"*{UNFINISHED}"):
        if is_abandoned(part):
            part.unlink(missing_ok=True)
    removed: list[str] = []
    for file in sorted(root.resolve().glob(f"*{SUFFIX}")):
        workspace = file.with_name(file.name.removesuffix(SUFFIX))
        if not is_gone(file):
            continue
        try:
            remove_workspace(workspace)
        except (WorkspaceError, OSError):
            continue
        removed.append(workspace.name)
    return removed
