"""Opening files in a workspace so that no path and no symbolic link leads out of it.

Every component is opened relative to its parent's descriptor, without following links. We read and resolve links
ourselves, so a process that swaps a folder for a link meanwhile gains nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from steadyhand.records.base import Record
from steadyhand.records.result import CapturedFile

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40


class OutsideWorkspace(Exception):
    """The path, or a link on it, names a place outside the workspace."""


def split_path(path: str, root: Path) -> list[str]:
    """The components of `path` below the workspace: `out.txt`, `./out.txt` and `/out.txt` are the same.

    A path that spells out the workspace's own place on the host, as a command's `pwd` does, is understood too.
    Raises `OutsideWorkspace` when `..` climbs out, when nothing is left, or when it cannot be a file name.
    """
    own = f"{root}/"
    path = path.removeprefix(own)
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise OutsideWorkspace(path)
    if not parts or "\0" in path:
        raise OutsideWorkspace(path)
    return parts


def open_inside(root: Path, parts: Sequence[str], flags: int, *, make_folders: bool = False) -> int:
    """Open the regular file at `parts` and return its descriptor.

    Raises `OutsideWorkspace` when a link leads out, and `OSError` as `os.open` does. What is not a regular file raises
    `IsADirectoryError` or, for pipes, sockets and devices, `OSError` with `EINVAL`.
    """
    walk = _Walk(root, parts, make_folders=make_folders)
    try:
        descriptor = walk.open(flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        walk.close()
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code), "/".join(parts))
    return descriptor


class _Walk:
    """The folders from the root down to where we are, and the names still to go."""

    def __init__(self, root: Path, parts: Sequence[str], *, make_folders: bool) -> None:
        self._root: Path = root
        self._pending: list[str] = list(reversed(parts))
        self._make_folders: bool = make_folders
        self._links: int = 0
        self._folders: list[int] = [os.open(root, _DIRECTORY)]

    def open(self, flags: int) -> int:
        while self._pending:
            name = self._pending.pop()
            if name == "..":
                self._climb()
                continue
            last = not self._pending
            try:
                descriptor = self._step(name, flags if last else _DIRECTORY)
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) or not self._follow(name):
                    raise
                continue
            if last:
                return descriptor
            self._folders.append(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))

    def _step(self, name: str, flags: int) -> int:
        here = self._folders[-1]
        if not self._make_folders or flags != _DIRECTORY:
            return os.open(name, flags, 0o644, dir_fd=here)
        try:
            return os.open(name, flags, dir_fd=here)
        except FileNotFoundError:
            os.mkdir(name, 0o755, dir_fd=here)
            return os.open(name, flags, dir_fd=here)

    def _climb(self) -> None:
        if len(self._folders) == 1:
            raise OutsideWorkspace("..")
        os.close(self._folders.pop())

    def _follow(self, name: str) -> bool:
        """Replace the link by its target; False if `name` is not a link."""
        try:
            target = os.readlink(name, dir_fd=self._folders[-1])
        except OSError:
            return False
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OutsideWorkspace(name)
        if target.startswith("/"):
            own = f"{self._root}/"
            if not f"{target}/".startswith(own):
                raise OutsideWorkspace(target)
            target = target[len(own) :]
            while len(self._folders) > 1:
                self._climb()
        self._pending.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
        return True

    def close(self) -> None:
        for descriptor in self._folders:
            os.close(descriptor)
        self._folders.clear()


KIB = 1024
MIB = 1024 * KIB


class LocalLimits(Record):
    """Bounds of the local environment. Sizes are in bytes, times in seconds."""

    command_timeout_s: float = 60.0
    output: int = MIB
    read: int = 64 * MIB
    captured_file: int = MIB
    captured_total: int = 16 * MIB
    captured_files: int = 2_000


def regular_files(root: Path) -> list[tuple[str, int]]:
    """Relative path and size of every regular file below `root`, sorted by path. Links are not followed."""
    return sorted(_walk(root))


def _walk(root: Path) -> Iterator[tuple[str, int]]:
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            entries = list(os.scandir(root / folder))
        except OSError:
            continue  # removed meanwhile, or closed to us
        for entry in entries:
            path = f"{folder}{entry.name}"
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                pending.append(f"{path}/")
            elif stat.S_ISREG(found.st_mode):
                yield path, found.st_size


def capture_files(root: Path, limits: LocalLimits) -> dict[str, CapturedFile]:
    """Every file with its content, or only its size once a limit on size or number is reached."""
    captured: dict[str, CapturedFile] = {}
    room = limits.captured_total
    for number, (path, size) in enumerate(regular_files(root)):
        content = None
        if number < limits.captured_files and size <= min(limits.captured_file, room):
            content = _content(root, path, size)
        if content is not None:
            room -= len(content)
        captured[path] = CapturedFile(size=size, content=content)
    return captured


def _content(root: Path, path: str, size: int) -> bytes | None:
    """The first `size` bytes, which is everything unless the file is growing; None if it cannot be read."""
    try:
        descriptor = open_inside(root, path.split("/"), os.O_RDONLY)
    except (OSError, OutsideWorkspace):
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read(size)
        except OSError:
            return None
