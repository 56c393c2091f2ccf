"""Finds the files that paths, folders and globs name, and says what it passed over."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from steadyhand.records.base import counted, first_few
from steadyhand.records.location import Place, Problem
from steadyhand.suggestion import nearest

_ENDINGS = (".yaml", ".yml")
_OUR_ENDINGS = tuple(f"{kind}{ending}" for kind in (".scenario", ".matrix") for ending in (*_ENDINGS, ".json"))
_NAMED = re.compile(r"\.(?:scenario|matrix)(?:\.\w+)*~?$", re.IGNORECASE)
_SKIPPED = frozenset({"node_modules", "__pycache__"})
MUTANTS = "mutants.yaml"
"""Stands beside scenarios, and is none."""
NOT_OURS = "not a scenario, matrix or rubric"
_HIDDEN = "hidden"
_LINKED = "a link to a folder, which is not followed"
_NAMED_ALIKE = "not named .yaml or .yml"
_SHOWN = 3


def skip_notes(passed_over: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A line for each reason why files of folders were passed over."""
    for reason, files in passed_over.items():
        if not files:
            continue
        what = "YAML file" if reason is NOT_OURS else "folder" if reason is _LINKED else "file"
        yield f"skipped {counted(len(files), what)} ({reason}): {first_few(files, _SHOWN)}"


class Found(NamedTuple):
    """`named` is whether the user named this file itself rather than a folder that contains it."""

    path: str
    file: str
    named: bool

    @property
    def must_load(self) -> bool:
        """Whether it is an error if the file has no known format.

        It is if the user named the file, if its name says what it is, or if it ends in `.YAML`, as people write it.
        """
        return self.named or self.path.lower().endswith(_OUR_ENDINGS) or not self.path.endswith(_ENDINGS)


def discover(paths: Sequence[str | os.PathLike[str]]) -> tuple[list[Found], list[Problem], dict[str, list[str]]]:
    """Every file once, in the order named, folders sorted; a problem for each name that matches nothing; and, by
    reason, what looks like one of our files and is not read."""
    skipped: list[tuple[str, str]] = []
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    base = os.getcwd()  # noqa: PTH109
    for each in paths:
        given = os.fspath(each)
        matches, problem = _expand(given, skipped)
        if problem is not None:
            problems.append(problem)
        for path, named in matches:
            key = os.path.realpath(path) if len(paths) > 1 else path
            known = found.get(key)
            if known is None or (named and not known.named):
                found[key] = Found(path, show_file(path, base), named)
    passed_over: dict[str, list[str]] = {}
    for path, reason in dict.fromkeys(skipped):
        passed_over.setdefault(reason, []).append(show_file(path, base))
    return list(found.values()), problems, passed_over


def show_file(path: str, base: str) -> str:
    """`path` as messages name it: relative when it is below the folder `base`."""
    prefix = base if base.endswith(os.sep) else base + os.sep
    return path.removeprefix(prefix).removeprefix(f".{os.sep}")


def _expand(given: str, skipped: list[tuple[str, str]]) -> tuple[list[tuple[str, bool]], Problem | None]:
    if os.path.isdir(given):  # noqa: PTH112
        below = [(path, False) for path in _walk(given, skipped)]
        return below, None if below else _problem(given, "the folder contains no .yaml or .yml files", "no-scenarios")
    if os.path.isfile(given):  # noqa: PTH113
        return [(given, True)], None
    if os.path.exists(given):  # noqa: PTH110
        return [], _problem(given, "expected a file or folder, found a pipe or device", "unreadable")
    if not glob.has_magic(given):
        return [], _problem(given, f"no such file or folder{nearest_file(given)}", "missing-file")
    matches = sorted(glob.glob(given, recursive=True), key=_natural)  # noqa: PTH207
    expanded: list[tuple[str, bool]] = []
    for match in matches:
        if os.path.isdir(match):  # noqa: PTH112
            expanded.extend((path, False) for path in _walk(match, skipped))
        elif _is_yaml(match) and os.path.isfile(match):  # noqa: PTH113
            expanded.append((match, False))
    return expanded, None if expanded else _problem(given, "the pattern matches no .yaml or .yml files", "no-match")


def nearest_file(given: str) -> str:
    """A hint at a similar name in the same folder."""
    folder, name = os.path.split(given.rstrip("/\\"))
    try:
        near = nearest(name, os.listdir(folder or "."))  # noqa: PTH208
    except OSError:
        return ""
    return f"; did you mean {os.path.join(folder, near)}?" if near else ""  # noqa: PTH118


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Orders `q2` before `q10`. Names that differ only in leading zeros are compared as text."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part) if at % 2 else 0, "" if at % 2 else part) for at, part in enumerate(parts)], name


def _walk(folder: str, skipped: list[tuple[str, str]]) -> list[str]:
    """The YAML files below a folder, in order, without hidden folders, virtual environments and `node_modules`.

    Adds to `skipped` what else may have been meant, with the reason.
    """
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: _natural(entry.name)):
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if not name.startswith(".") and name not in _SKIPPED:
                    folders.append(entry.path)
            elif _is_folder(entry):
                skipped += [(entry.path, _LINKED)] if _has_yaml(entry) else []
            elif _is_yaml(name) and name != MUTANTS:
                if name.startswith("."):
                    skipped += [(entry.path, _HIDDEN)] if name.lower().endswith(_OUR_ENDINGS) else []
                else:
                    files.append(entry.path)
            elif _NAMED.search(name):
                skipped.append((entry.path, _NAMED_ALIKE))
    for below in folders:
        if not os.path.exists(os.path.join(below, "pyvenv.cfg")):  # noqa: PTH110, PTH118
            files.extend(_walk(below, skipped))
    return files


def _is_yaml(name: str) -> bool:
    """By its ending. JSON is YAML, and is read if the name says that it is a scenario or matrix."""
    return name.lower().endswith((*_ENDINGS, *_OUR_ENDINGS))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Links to folders are not followed. A pipe, or a link to nowhere or to itself, is kept and reported."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _has_yaml(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _SKIPPED:
        return False
    try:
        return any(map(_is_yaml, os.listdir(entry.path)))  # noqa: PTH208
    except OSError:
        return False


def _problem(given: str, message: str, code: str) -> Problem:
    return Problem(place=Place(file=given), message=message, code=code)
