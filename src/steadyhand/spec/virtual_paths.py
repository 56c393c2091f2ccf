"""Paths of `setup.virtual_fs`: all land inside the workspace."""

from __future__ import annotations

import posixpath
from typing import Any, cast

from steadyhand.spec.findings import Findings
from steadyhand.spec.naming import Path


def read_virtual_fs(files: Any, path: Path, findings: Findings) -> dict[str, str]:
    """The files by their path relative to the workspace. `/out.txt`, `./out.txt` and `out.txt` are the same."""
    if not isinstance(files, dict):
        return {}
    found: dict[str, str] = {}
    written: dict[str, str] = {}
    for name, content in cast("dict[str, Any]", files).items():
        relative = _relative(name)
        if isinstance(relative, _Refused):
            findings.error((*path, name), f"{relative.reason}, found `{name}`", "bad-path", key=True)
        elif relative in written:
            message = f"is the same file as `{written[relative]}`"
            findings.error((*path, name), message, "duplicate-key", key=True)
        else:
            written[relative] = name
            if isinstance(content, str):
                found[relative] = content
    for relative, name in written.items():
        for folder in _folders(relative):
            if folder in written:
                message = f"`{written[folder]}` is a file, so there cannot be a file inside it"
                findings.error((*path, name), message, "bad-path", key=True)
    return found


class _Refused:
    def __init__(self, reason: str) -> None:
        self.reason: str = reason


def _relative(name: str) -> str | _Refused:
    if "\0" in name or "\\" in name:
        return _Refused("expected a path with `/` between its parts")
    if name.endswith("/"):
        return _Refused("expected the path of a file, not a folder")
    relative = posixpath.normpath(name.lstrip("/"))
    if relative == ".." or relative.startswith("../"):
        return _Refused("expected a path inside the workspace")
    if relative == ".":
        return _Refused("expected the path of a file")
    return relative


def _folders(relative: str) -> list[str]:
    parts = relative.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
