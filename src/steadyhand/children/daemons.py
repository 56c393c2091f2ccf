"""Finds and kills processes that a process left running, even if they left its group, its session and its parent.

Processes of a trial carry two marks that their children inherit: an environment variable, and a unique value for a
resource limit that Linux stores but does not enforce, which remains if the environment is cleared. Without `/proc`,
only the process group can be killed.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from steadyhand.records.base import Record

UNFINISHED = ".part"


class Owner(Record):
    """A process. Its start time tells it from a later one with the same ID."""

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


def write_owner(target: Path) -> None:
    """Record this process as the owner of what the file is named for. The file is written atomically."""
    part = target.with_name(f"{target.name}.{os.getpid()}{UNFINISHED}")
    part.write_bytes(msgspec.json.encode(current_owner()))
    part.replace(target)


def is_abandoned(part: Path) -> bool:
    """Whether the process that was writing this owner file is gone. The file's name has its process ID."""
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
    """Whether the process that wrote this file has ended. False if in doubt: a live workspace must not be removed."""
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
    """When the process started, in ticks since boot; None if it has ended or the system does not say."""
    fields = stat_fields(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return fields[19]


def stat_fields(pid: int) -> list[str] | None:
    """The fields of `/proc/<pid>/stat` after the program's name: state, parent, group, session, ..."""
    text = _read(f"/proc/{pid}/stat")
    # The name is in parentheses, and may itself contain parentheses and spaces.
    return text.rpartition(")")[2].split() or None


def _read(path: str) -> str:
    return _read_bytes(path).decode("utf-8", "replace").strip()


def _read_bytes(path: str) -> bytes:
    """Empty if it cannot be read. Without a file object: every process of the machine is read for every command."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts: list[bytes] = []
    try:
        while part := os.read(file, 1 << 16):
            parts.append(part)
    except OSError:
        return b""
    finally:
        os.close(file)
    return b"".join(parts)


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


TRIAL_MARK = "STEADYHAND_TRIAL"
COMMAND_MARK = "STEADYHAND_COMMAND"
_UNUSED_LIMIT = resource.RLIMIT_RSS
_UNUSED_LIMIT_NAME = "Max resident set"
_MARK_BASE = 1 << 60
_COMMAND_BITS = 20
_TOOLS = "/usr/bin:/bin"
_PROC = Path("/proc")
_PATIENCE_S = 2.0
_ROUNDS = 50
_PR_SET_CHILD_SUBREAPER = 36


def kill_group(pid: int) -> None:
    """Kill the process group that `pid` leads, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def marked(argv: Sequence[str], mark: str, *, path: str, folder: Path) -> list[str]:
    """The command line that starts `argv` with the limit that marks it; unchanged if that is not possible.

    `mark` is the name of a trial's workspace, or of one of its commands. If it is not a program, it is left unchanged,
    to fail as usual: the program that sets the limit would pass a script to a shell.
    """
    setter = _which("prlimit", _TOOLS)
    unlimited = resource.getrlimit(_UNUSED_LIMIT)[1] == resource.RLIM_INFINITY
    if setter is None or not unlimited or not _isprogram_of(argv[0], path, folder):
        return list(argv)
    value = limit_mark(mark)
    return [setter, f"--rss={value}:{value}", "--", *argv]


def _isprogram_of(name: str, path: str, folder: Path) -> bool:
    found = str(folder / name) if "/" in name else _which(name, path)
    if found is None or not Path(found).is_file() or not os.access(found, os.X_OK):
        return False
    try:
        with Path(found).open("rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"#!"))
    except OSError:
        return True  # may be run, but not read


def _which(name: str, path: str) -> str | None:
    import shutil  # takes some milliseconds, and the process of an agent does not need it

    return shutil.which(name, path=path)


def carry_mark() -> None:
    """Give this process the limit that its environment names, so that everything it starts can be found by it."""
    mark = os.environ.get(COMMAND_MARK)
    if mark is None or resource.getrlimit(_UNUSED_LIMIT)[1] != resource.RLIM_INFINITY:
        return
    value = limit_mark(mark)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(_UNUSED_LIMIT, (value, value))


def adopt_orphans() -> None:
    """Make this process, instead of init, the parent of orphaned descendants."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """The children of this process, zombies included. Almost free if there are none."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    return _children_of(os.getpid())


def collect(pids: Iterable[int]) -> set[int]:
    """Reap the children that have ended. Returns those that are still running."""
    running: set[int] = set()
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                running.add(pid)
    return running


def kill_tree(pid: int) -> None:
    """Kill everything below a child of ours, then the child and its process group.

    It is stopped first. If it adopts orphans, everything it ever started is below it.
    """
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)
    for _ in range(_ROUNDS):
        below = {each for each in tree(pid) if _alive(each)}
        for each in below:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)
        if not below:
            break
    kill_group(pid)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def tree(pid: int) -> set[int]:
    """Its descendants."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = _children_of(waiting.pop()) - found
        found |= new
        waiting.extend(new)
    return found


def _children_of(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for thread in (_PROC / str(pid) / "task").iterdir():
            found.update(map(int, (thread / "children").read_text().split()))
    except FileNotFoundError:  # a kernel without this file, or a thread that ended
        return {each for each in processes() if _parent(each) == pid}
    except OSError:
        return set()
    return found


def limit_mark(mark: str) -> int:
    """The limit's value for `<workspace>` or `<workspace>.<number of the command>`."""
    workspace, dot, number = mark.rpartition(".")
    if not dot or not number.isdigit():
        workspace, number = mark, "0"
    name = int.from_bytes(blake2b(workspace.encode(), digest_size=4).digest(), "big")
    return _MARK_BASE | name << _COMMAND_BITS | int(number) % (1 << _COMMAND_BITS)


def has_limit(pid: int, mark: str) -> bool:
    """Whether the process, or what started it, was given this mark. That of a trial's workspace covers its commands."""
    value, wanted = _limit(pid), limit_mark(mark)
    whole_trial = not wanted % (1 << _COMMAND_BITS)
    return value is not None and (
        value == wanted or (whole_trial and value >> _COMMAND_BITS == wanted >> _COMMAND_BITS)
    )


def kill_marked(mark: str) -> None:
    """Kill everything with this mark."""
    kill_command(mark, after=0)


def kill_command(mark: str, *, after: int) -> None:
    """Kill what the command with this mark left running. It was process `after`, so its children have higher IDs.

    Process IDs wrap around occasionally; `kill_trial` finds what is missed then.
    """
    value = limit_mark(mark)

    def find() -> set[int]:
        younger = [pid for pid in processes() if pid > after]
        return _marked(COMMAND_MARK, mark, younger) | {pid for pid in younger if _limit(pid) == value}

    _kill_all(find)


def kill_trial(name: str, workspace: Path) -> None:
    """Kill everything that belongs to a trial: marked, with its working folder in the workspace, or descended from such
    a process."""
    family = limit_mark(name) >> _COMMAND_BITS

    def find() -> set[int]:
        pids = processes()
        by_limit = {pid for pid in pids if (limit := _limit(pid)) is not None and limit >> _COMMAND_BITS == family}
        found = _marked(TRIAL_MARK, name, pids) | by_limit | _working_in(workspace)
        return found | _descendants(found) if found else found

    _kill_all(find)


def _kill_all(find: Callable[[], set[int]]) -> None:
    """Repeat until nothing is found: a process may fork while it is being killed."""
    give_up = time.monotonic() + _PATIENCE_S
    while found := find() - {os.getpid()}:
        _kill_round(found, find)
        if time.monotonic() > give_up:
            return
        time.sleep(0.002)


def _kill_round(found: set[int], find: Callable[[], set[int]]) -> None:
    """Open a handle to each process, check again, then kill: a new process that got an old ID is not affected."""
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


def processes() -> list[int]:
    """The processes of this machine, as far as we see them."""
    try:
        return [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit()]
    except OSError:
        return []


def _marked(variable: str, value: str, pids: Iterable[int]) -> set[int]:
    entry = f"\0{variable}={value}\0".encode()
    return {pid for pid in pids if entry in b"\0%b\0" % _read_bytes(f"{_PROC}/{pid}/environ")}


def _limit(pid: int) -> int | None:
    """The value of the limit that marks processes; None where it is not set."""
    _, named, rest = _read(f"/proc/{pid}/limits").partition(f"\n{_UNUSED_LIMIT_NAME}")
    if not named:
        return None
    value = rest.partition("\n")[0].split()[-2]  # the hard limit; the last word is the unit
    return int(value) if value.isdigit() and _alive(pid) else None


def _working_in(workspace: Path) -> set[int]:
    """Processes whose working folder is in the workspace, and whose ancestor is this process or init.

    That spares a user's shell in the workspace.
    """
    found: set[int] = set()
    for pid in processes():
        with contextlib.suppress(OSError):
            folder = os.readlink(f"{_PROC}/{pid}/cwd")  # noqa: PTH115 - for every process of the machine
            if f"{folder}/".startswith(f"{workspace}/") and _orphan_or_ours(pid):
                found.add(pid)
    return found


def _orphan_or_ours(pid: int) -> bool:
    seen: set[int] = set()
    parent = _parent(pid)
    if parent <= 1 or program_of(parent) == "systemd":
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


def program_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "comm").read_text().strip()
    return ""


def _descendants(of: set[int]) -> set[int]:
    parents = {pid: _parent(pid) for pid in processes()}
    known = set(of)
    while younger := {pid for pid, parent in parents.items() if parent in known} - known:
        known |= younger
    return {pid for pid in known - of if _alive(pid)}


def _alive(pid: int) -> bool:
    """Whether it is more than a zombie, which stays listed until its parent collects the exit code."""
    fields = stat_fields(pid)
    return fields is not None and fields[0] not in ("Z", "X")
