"""Digests of the files that a run is made from, each read once."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

_SAMPLE = 1024 * 1024
_LENGTH = 12


class Sources:
    """What a file holds, in short. A file that cannot be read has no digest: whoever needs it says why."""

    def __init__(self) -> None:
        self._digests: dict[Path, str | None] = {}

    def digest(self, file: Path) -> str | None:
        """Of the whole file; of a very large one, of its size, its beginning and its end."""
        if file not in self._digests:
            self._digests[file] = _digest(file)
        return self._digests[file]

    def python(self, file: Path) -> str | None:
        """Of a Python file and of what it imports from beside it, and so on."""
        found = sorted(_with_neighbours(file))
        if not found:
            return None
        folder = file.resolve().parent
        return short([[each.relative_to(folder).as_posix(), self.digest(each)] for each in found])

    def module(self, name: str, folder: Path) -> str | None:
        """The same of a module by its name, found as if from `folder`."""
        file = _file_of(name, folder)
        return None if file is None else self.python(file)


def short(value: object) -> str:
    """A digest of anything made of texts, numbers, lists and dictionaries."""
    return hashlib.sha256(repr(value).encode()).hexdigest()[:_LENGTH]


def _digest(file: Path) -> str | None:
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            if size <= 64 * _SAMPLE:
                return hashlib.file_digest(stream, "sha256").hexdigest()[:_LENGTH]
            sampled = hashlib.sha256(str(size).encode())
            sampled.update(stream.read(_SAMPLE))
            stream.seek(-_SAMPLE, 2)
            sampled.update(stream.read(_SAMPLE))
            return sampled.hexdigest()[:_LENGTH]
    except OSError:
        return None


def _file_of(name: str, folder: Path) -> Path | None:
    """Where a module is, without importing it; only its parent packages are imported."""
    import importlib.util

    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    finally:
        sys.path.remove(entry)
    origin = None if spec is None else spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None


def _with_neighbours(file: Path) -> set[Path]:
    """The file, and every file of its folder and below that it imports, directly or not."""
    import ast  # only for agents and plugins in Python

    start = file.resolve()
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        each = waiting.pop()
        if each in found or not each.is_file():
            continue
        found.add(each)
        try:
            tree = ast.parse(each.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for name in _imported(tree):
            waiting += _places(name, each.parent, start.parent)
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    """The names of modules, as far as they are written down; `from a import b` may mean the module `a.b`."""
    import ast

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _places(name: str, *folders: Path) -> list[Path]:
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return []
    return [
        place
        for folder in folders
        for place in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py"))
        if place.is_file()
    ]
