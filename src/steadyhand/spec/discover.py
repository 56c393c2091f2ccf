"""Files, folders and globs, as a user names them, to the files they stand for."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import NamedTuple

from steadyhand.records.location import Place, Problem

_ENDINGS = (".yaml", ".yml")
_PROMISING = tuple(f"{kind}{ending}" for kind in (".scenario", ".matrix") for ending in (*_ENDINGS, ".json"))
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class Found(NamedTuple):
    """`named` is whether the user named this very file, rather than a folder it is in."""

    path: str
    file: str
    named: bool

    @property
    def must_load(self) -> bool:
        """Whether it is a mistake when the file is in no known format.

        It is when somebody named the file, its own name says what it is, or ends in `.YAML`: tools write it small.
        """
        return self.named or self.path.lower().endswith(_PROMISING) or not self.path.endswith(_ENDINGS)


def discover(paths: Sequence[str | os.PathLike[str]]) -> tuple[list[Found], list[Problem]]:
    """Every file once, in the order named, folders sorted; and a problem for each name that stands for nothing."""
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    base = os.getcwd()  # noqa: PTH109
    for each in paths:
        given = os.fspath(each)
        matches, problem = _expand(given)
        if problem is not None:
            problems.append(problem)
        for path, named in matches:
            key = os.path.realpath(path) if len(paths) > 1 else path
            known = found.get(key)
            if known is None or (named and not known.named):
                found[key] = Found(path, show_file(path, base), named)
    return list(found.values()), problems


def show_file(path: str, base: str) -> str:
    """`path` as messages name it: relative when it is below the folder `base`."""
    prefix = base if base.endswith(os.sep) else base + os.sep
    return path.removeprefix(prefix).removeprefix(f".{os.sep}")


def _expand(given: str) -> tuple[list[tuple[str, bool]], Problem | None]:
    if os.path.isdir(given):  # noqa: PTH112
        below = [(path, False) for path in _walk(given)]
        return below, None if below else _problem(given, "the folder holds no .yaml or .yml file", "no-scenarios")
    if os.path.isfile(given):  # noqa: PTH113
        return [(given, True)], None
    if os.path.exists(given):  # noqa: PTH110
        return [], _problem(given, "expected a file or folder, found a pipe or device", "unreadable")
    if not glob.has_magic(given):
        return [], _problem(given, "no such file or folder", "missing-file")
    matches = sorted(glob.glob(given, recursive=True))  # noqa: PTH207
    expanded: list[tuple[str, bool]] = []
    for match in matches:
        if os.path.isdir(match):  # noqa: PTH112
            expanded.extend((path, False) for path in _walk(match))
        elif _is_yaml(match) and os.path.isfile(match):  # noqa: PTH113
            expanded.append((match, False))
    return expanded, None if expanded else _problem(given, "the pattern matches no .yaml or .yml file", "no-match")


def _walk(folder: str) -> list[str]:
    """The YAML files below a folder, in order. Hidden folders, environments and packages are left out."""
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if not name.startswith(".") and name not in _SKIPPED:
                    folders.append(entry.path)
            elif _is_yaml(name) and not name.startswith(".") and _readable(entry):
                files.append(entry.path)
    for below in folders:
        if not os.path.exists(os.path.join(below, "pyvenv.cfg")):  # noqa: PTH110, PTH118
            files.extend(_walk(below))
    return files


def _is_yaml(name: str) -> bool:
    """By its ending. JSON is YAML, and is read where the name says that it is for us."""
    return name.lower().endswith((*_ENDINGS, *_PROMISING))


def _readable(entry: os.DirEntry[str]) -> bool:
    """Not a pipe or device, which would block. A link to nowhere stays in, to be reported."""
    return entry.is_file() or not os.path.exists(entry.path)  # noqa: PTH110


def _problem(given: str, message: str, code: str) -> Problem:
    return Problem(place=Place(file=given), message=message, code=code)
