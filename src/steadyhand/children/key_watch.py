"""Sees which files of the answer key agents open, where they cannot be kept from it.

`fanotify` says which process opened a file; it needs privileges. `inotify` needs none and does not say: what anything
but us opens counts for every agent that has the turn, or had one and still runs. We open none of the files from the
first trial on.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from steadyhand.children.daemons import has_limit, process_start, tree
from steadyhand.children.process import SupervisedProcess
from steadyhand.ports.agent import AgentProcess
from steadyhand.records.isolation import AnswerKey, IsolationKind

_READ = 64 * 1024
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_IN_OPEN, _IN_OVERFLOW, _IN_NEW = 0x20, 0x4000, 0x100 | 0x80
_IN_MASK = _IN_OPEN | _IN_NEW
_FAN_INIT, _FAN_ADD = 0x1 | 0x2, 0x1
_FAN_OPEN, _FAN_OVERFLOW, _FAN_ONDIR, _FAN_ON_CHILD = 0x20, 0x4000, 0x40000000, 0x08000000
_INOTIFY_EVENT = struct.Struct("=iIII")
_FANOTIFY_EVENT = struct.Struct("=IBBHQii")
_AT_FDCWD = -100
_TOO_MANY = "(more files than the system could report)"


class KeyWatch:
    """Implements `ports.isolation.Isolation` and its own `Watch`."""

    kind: IsolationKind = "watched"
    names_processes: bool = True

    def __init__(self, key: AnswerKey) -> None:
        """Raises `OSError` if this machine does not permit it."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._key = key
        self._active: set[AgentProcess] = set()
        self._opened: dict[AgentProcess, dict[str, None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: dict[str, int] = {}
        self._fd: int = self._start()
        try:
            for path in (*key.files, key.workspaces):
                self._add(path)
            for folder in _folders(key.folders):
                self._look_into(folder)
        except OSError:
            os.close(self._fd)
            raise

    @property
    def watch(self) -> KeyWatch:
        return self

    def command(self, argv: Sequence[str], visible: Sequence[Path]) -> list[str]:
        return list(argv)

    def begin(self, process: AgentProcess, workspace: Path | None = None) -> None:
        self._take()
        self._active.add(process)
        self._opened.setdefault(process, {})
        self._look_again()
        with contextlib.suppress(RuntimeError):  # outside an event loop, the end of the turn takes what there is
            loop = asyncio.get_running_loop()
            if loop is not self._loop:
                self._loop = loop
                loop.add_reader(self._fd, self._take)

    def end(self, process: AgentProcess) -> tuple[str, ...]:
        self._take()
        self._active.discard(process)
        return tuple(self._opened.get(process, ()))

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _look_again(self) -> None:
        """For files that have been made since, such as the record of the run."""

    def _look_into(self, folder: str) -> None:
        """Watch the folder and every file in it: one that is moved or linked elsewhere is still seen being opened."""
        with contextlib.suppress(FileNotFoundError):
            changed = os.stat(folder).st_mtime_ns  # noqa: PTH116 - for every folder and turn
            if self._changed.get(folder) == changed:
                return
            self._changed[folder] = changed
            self._add(folder)
            with os.scandir(folder) as entries:
                for entry in list(entries):
                    if entry.is_dir(follow_symlinks=False):
                        self._look_into(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        with contextlib.suppress(FileNotFoundError):
                            self._add(entry.path)

    def _start(self) -> int:
        raise NotImplementedError

    def _add(self, path: str) -> None:
        raise NotImplementedError

    def _take(self) -> None:
        """Read what has happened since, and assign it."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._fd, _READ):
                self._read(data)

    def _read(self, data: bytes) -> None:
        raise NotImplementedError

    def _count(self, file: str, processes: set[AgentProcess]) -> None:
        for process in processes:
            self._opened[process][file] = None

    def _check(self, result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


class NamelessWatch(KeyWatch):
    """With inotify. It is told of new files: looking for them would be seen like an agent's look."""

    names_processes = False

    def _start(self) -> int:
        self._paths: dict[int, str] = {}
        return self._check(self._libc.inotify_init1(_NONBLOCK_CLOEXEC))

    def _add(self, path: str) -> None:
        self._paths[self._check(self._libc.inotify_add_watch(self._fd, os.fsencode(path), _IN_MASK))] = path

    def _read(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            number, mask, _, size = _INOTIFY_EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + _INOTIFY_EVENT.size :][:size].rstrip(b"\0"))
            at += _INOTIFY_EVENT.size + size
            if mask & _IN_OVERFLOW:
                self._count(_TOO_MANY, self._suspects())
            elif (path := self._paths.get(number)) is not None:
                if name and path == self._key.workspaces:
                    continue  # an agent's own, or another's: only a look at the folder itself tells
                if mask & _IN_OPEN:
                    self._count(f"{path}/{name}" if name else path, self._suspects())
                elif mask & _IN_NEW:
                    self._watch_new(f"{path}/{name}")

    def _suspects(self) -> set[AgentProcess]:
        """Those that have the turn, and those that had one and still run."""
        over = [each for each in self._opened if each not in self._active and process_start(each.pid) is None]
        for each in over:
            del self._opened[each]
        return set(self._opened)

    def _watch_new(self, path: str) -> None:
        try:
            self._add(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self._count(f"{path} (cannot be watched: {error.strerror})", self._active)


class NamingWatch(KeyWatch):
    """With fanotify."""

    def _look_again(self) -> None:
        for folder in list(self._changed):
            try:
                self._look_into(folder)
            except OSError as error:
                self._count(f"{folder} (cannot be watched: {error.strerror})", self._active)

    def _start(self) -> int:
        self._workspaces: dict[str, AgentProcess] = {}
        self._key_files: dict[tuple[int, int], str] = {}
        return self._check(self._libc.fanotify_init(_FAN_INIT, os.O_RDONLY | os.O_CLOEXEC))

    def _add(self, path: str) -> None:
        there = os.stat(path)  # noqa: PTH116 - for many files
        is_folder = stat.S_ISDIR(there.st_mode)
        if not is_folder:
            self._key_files[there.st_dev, there.st_ino] = path
        mask = _FAN_OPEN | (_FAN_ONDIR | _FAN_ON_CHILD if is_folder else 0)
        self._check(self._libc.fanotify_mark(self._fd, _FAN_ADD, ctypes.c_uint64(mask), _AT_FDCWD, os.fsencode(path)))

    def begin(self, process: AgentProcess, workspace: Path | None = None) -> None:
        super().begin(process)
        if workspace is not None:
            self._workspaces[str(workspace)] = process
            with contextlib.suppress(OSError):
                for folder in _folders([str(workspace)]):
                    self._add(folder)

    def end(self, process: AgentProcess) -> tuple[str, ...]:
        opened = super().end(process)
        self._workspaces = {path: owner for path, owner in self._workspaces.items() if owner != process}
        return opened

    def _read(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            size, _, _, _, mask, descriptor, pid = _FANOTIFY_EVENT.unpack_from(data, at)
            at += size
            if mask & _FAN_OVERFLOW:
                self._count(_TOO_MANY, self._active)
                continue
            try:
                path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
                opened = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if pid != os.getpid():
                self._assign(self._key_files.get((opened.st_dev, opened.st_ino), path), pid)

    def _assign(self, path: str, pid: int) -> None:
        """To the agent that started the process; to all that have the turn if it is one of ours but not known whose, or
        if it has ended meanwhile."""
        openers = {each for each in self._opened if pid == each.pid or has_limit(pid, each.mark)}
        openers = openers or {each for each in self._opened if each.pid and pid in tree(each.pid)}
        if not openers and any(pid == own or pid in tree(own) for own in SupervisedProcess.trusted):
            return
        if not openers and (process_start(pid) is None or pid in tree(os.getpid())):
            openers = set(self._active)
        if path.startswith(f"{self._key.workspaces}/"):
            own = next((owner for place, owner in self._workspaces.items() if f"{path}/".startswith(f"{place}/")), None)
            if own is None or own in openers:
                return
        self._count(path, openers)


def find_watch(key: AnswerKey) -> KeyWatch | str:
    """The best watch that this machine permits, or why it permits none."""
    if sys.platform != "linux":
        return "watching needs Linux"
    reason = ""
    for kind in (NamingWatch, NamelessWatch):
        try:
            return kind(key)
        except (OSError, AttributeError) as error:
            reason = f"{kind.__doc__ or ''} {error}".strip()
    return reason


def _folders(tops: Sequence[str]) -> Iterator[str]:
    """The folders, with all folders in them."""
    for top in tops:
        for folder, _, _ in os.walk(top):
            yield folder
