"""Listing and keeping the files of a workspace."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from steadyhand.builtin.environments.files import LeadsOut, open_inside
from steadyhand.builtin.environments.limits import LocalLimits
from steadyhand.records.result import CapturedFile


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
    """Every file with its content; past the limits on size and number only its size."""
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
    """The first `size` bytes, which is all unless the file grows under our hands; None when it cannot be read."""
    try:
        descriptor = open_inside(root, path.split("/"), os.O_RDONLY)
    except (OSError, LeadsOut):
        return None
    with os.fdopen(descriptor, "rb") as file:
        try:
            return file.read(size)
        except OSError:
            return None
