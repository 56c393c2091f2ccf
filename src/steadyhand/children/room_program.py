"""Starts a program in a room of its own, where bubblewrap is not installed. Run as a file, and imports nothing of ours.

    python -I -S room_program.py (namespaces|landlock) OPTIONS -- PROGRAM ARGUMENTS

`--file F` and `--folder F` are hidden, `--workspaces F` too; `--show F` is what stays visible of it. `--fix F` can only
be read, and `--pin F` not be renamed. With namespaces, the room has masks over what is hidden, and its own processes.
With Landlock, everything around what is hidden is granted, and no file can be made in the folders that lead there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
from collections.abc import Iterator, Sequence

NEWNS, NEWUSER, NEWPID = 0x20000, 0x10000000, 0x20000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, SLAVE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 19
_FLAGS = {2: NOSUID, 4: NODEV, 8: NOEXEC, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""What `statvfs` shows of a mount, and the flag to mount it with."""
_PDEATHSIG, _SET_NAME, _CAPBSET_DROP, _NO_NEW_PRIVS = 1, 15, 24, 38
KEEPER = "steadyhand-room"
"""The name of the processes that stay outside and wait."""
CAPABILITIES = {
    "CAP_DAC_READ_SEARCH": 2, "CAP_SYS_MODULE": 16, "CAP_SYS_RAWIO": 17, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21,
    "CAP_MKNOD": 27, "CAP_PERFMON": 38, "CAP_BPF": 39, "CAP_CHECKPOINT_RESTORE": 40,
}  # fmt: skip
"""What root could leave the room with."""
KERNEL = ("/proc/sys", "/sys")
"""Where root could have the kernel start a program outside."""
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_SETATTR, _ATTR_RDONLY, _RECURSIVE = 442, 1, 0x8000
_READ_FILE, _WRITE_FILE, _TRUNCATE = 1 << 2, 1 << 1, 1 << 14
_CHANGE = sum(1 << bit for bit in range(4, 13))  # remove and make files and folders
_OF_FILES = _READ_FILE | _WRITE_FILE | _TRUNCATE

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), None if data is None else data.encode()), f"mount {target}")


class RoomPlan:
    def __init__(self, words: Sequence[str]) -> None:
        self.given: dict[str, list[str]] = {name: [] for name in ("file", "folder", "workspaces", "show", "fix", "pin")}
        names = iter(words)
        for name in names:
            self.given[name.removeprefix("--")].append(next(names))

    def __getattr__(self, name: str) -> list[str]:
        return self.given[name]

    def enter_namespaces(self) -> None:
        """A mount namespace with the masks, and for what is started next a process namespace."""
        user, group = os.getuid(), os.getgid()
        _check(_libc.unshare(NEWNS | NEWPID | (NEWUSER if user else 0)), "unshare")
        if user:
            for file, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{file}", "w") as stream:  # noqa: PTH123 - no need to load pathlib
                    stream.write(text)
        _mount("none", "/", None, REC | SLAVE)

    def mask(self) -> None:
        """Hide everything behind one empty folder and one empty file, which become read-only at the end."""
        for path in (*self.pin, *self.fix):
            _bind(path, path, REC)
        for path in self.fix:
            _make_read_only(path)
        blank = self.workspaces[0]
        shown = {path: os.open(path, os.O_PATH) for path in self.show}
        _mount("tmpfs", blank, "tmpfs", NOSUID | NODEV, "mode=755")
        file, folder = f"{blank}/.hidden", f"{blank}/.nothing"
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o444))
        os.mkdir(folder, 0o555)  # noqa: PTH102 - no need to load pathlib
        for hidden in self.folder:
            _bind(folder, hidden)
        for hidden in self.file:
            _bind(file, hidden)
        for path, descriptor in shown.items():
            os.makedirs(path, exist_ok=True)  # noqa: PTH103
            _bind(f"/proc/self/fd/{descriptor}", path)
            os.close(descriptor)
        _mount("none", blank, None, REMOUNT | RDONLY | NOSUID | NODEV)

    def restrict(self) -> None:
        """Landlock: grant everything but what is hidden."""
        version = _check(_libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1), "landlock")
        handled = (_OF_FILES if version >= 3 else _READ_FILE | _WRITE_FILE) | _CHANGE
        rules = _check(_libc.syscall(_CREATE, struct.pack("=Q", handled), ctypes.c_size_t(8), 0), "landlock")
        hidden = {*self.folder, *self.file, *self.workspaces}
        for path, fixed in (*_around(hidden, set(self.fix)), *((path, False) for path in self.show)):
            _grant(rules, path, _READ_FILE if fixed else handled)
        _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
        _check(_libc.syscall(_RESTRICT, rules, 0), "landlock")
        os.close(rules)


def _bind(source: str, target: str, flags: int = 0) -> None:
    with contextlib.suppress(FileNotFoundError):  # it has gone meanwhile, so there is nothing to hide
        _mount(source, target, None, BIND | flags)


def _make_read_only(path: str) -> None:
    """The other flags of the mount stay: an ordinary user may not take them away."""
    with contextlib.suppress(FileNotFoundError):
        has = os.statvfs(path).f_flag
        kept = sum(mount for shown, mount in _FLAGS.items() if has & shown)
        _mount("none", path, None, REMOUNT | BIND | RDONLY | kept)


def _make_all_read_only(path: str) -> None:
    """With the mounts below it, for root."""
    given = struct.pack("=QQQQ", _ATTR_RDONLY, 0, 0, 0)
    _check(_libc.syscall(_SETATTR, -100, os.fsencode(path), _RECURSIVE, given, ctypes.c_size_t(32)), f"mount {path}")


def _around(hidden: set[str], fixed: set[str]) -> Iterator[tuple[str, bool]]:
    """Everything that neither is hidden nor leads to what is hidden or fixed, and whether it is fixed."""
    to_hidden, to_fixed = _leading(hidden), _leading(fixed)
    waiting = [("/", False)]
    while waiting:
        inside, within = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(inside) as entries:
            for entry in entries:
                if entry.path in hidden or entry.is_symlink():
                    continue
                kept = within or entry.path in fixed
                if entry.path in to_hidden or (not kept and entry.path in to_fixed):
                    waiting.append((entry.path, kept))
                else:
                    yield entry.path, kept


def _leading(paths: set[str]) -> set[str]:
    """The folders above them."""
    return {each[:at] or "/" for each in paths for at in range(len(each)) if each[at] == "/"}


def _grant(rules: int, path: str, access: int) -> None:
    with contextlib.suppress(OSError):  # gone, or not ours: then it cannot be reached anyway
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(path):  # noqa: PTH112
                access &= _OF_FILES
            rule = struct.pack("=Qi", access, descriptor)
            _check(_libc.syscall(_ADD, rules, 1, rule, 0), "landlock")
        finally:
            os.close(descriptor)


def _stand_by(child: int) -> None:
    """Wait for the child, and end as it did."""
    _libc.prctl(_SET_NAME, KEEPER.encode(), 0, 0, 0)
    os.closerange(0, 1 << 20)
    while (ended := os.waitpid(-1, 0))[0] != child:
        pass  # an orphan: the first process of a namespace collects them
    code = os.waitstatus_to_exitcode(ended[1])
    if os.getpid() == 1:  # signals do not kill it: the one outside understands the number
        os._exit(128 - code if code < 0 else code)
    if code > 128:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(code - 128, signal.SIG_DFL)
        os.kill(os.getpid(), code - 128)
    os._exit(code)


def _go_on_below() -> None:
    """Fork: the child returns, and we end as it does. It does not outlive us."""
    child = os.fork()
    if child:
        _stand_by(child)
    _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def main() -> None:
    kind, *rest = sys.argv[1:]
    end = rest.index("--")
    plan, argv = RoomPlan(rest[:end]), rest[end + 1 :]
    try:
        if kind == "landlock":
            plan.restrict()
        else:
            _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            plan.enter_namespaces()
            _go_on_below()
            plan.mask()
            _mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
            for path in KERNEL if os.getuid() == 0 else ():
                _bind(path, path, REC)
                _make_all_read_only(path)
            _go_on_below()
        if os.getuid() == 0:
            for number in CAPABILITIES.values():
                _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0)  # fails for one that this kernel does not have
        os.execvp(argv[0], argv)  # noqa: S606 - the program that the user named
    except OSError as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
