"""The settings of a project: `steadyhand.toml`, or `[tool.steadyhand]` in `pyproject.toml`."""

from __future__ import annotations

from pathlib import Path

from steadyhand.records.config import Config

FILE = "steadyhand.toml"
PROJECT = "pyproject.toml"


def find_config(folder: Path) -> Config:
    """The settings that hold in a folder: its own file or the nearest above it, or the defaults when there is none.

    Raises `FileError` when the file found is wrong.
    """
    start = folder.absolute()
    for place in (start, *start.parents):
        own, project = place / FILE, place / PROJECT
        if own.is_file():
            return _read(own)
        if project.is_file() and _mentions_us(project):
            return _read(project)
    return Config(folder=start)


def _read(file: Path) -> Config:
    from steadyhand.spec.config_files import (
        read_config,  # most folders have no settings, and need not know how to read any
    )

    return read_config(file)


def _mentions_us(project: Path) -> bool:
    """Whether the table is there. A broken file counts when it names the table, so that it is not passed over."""
    content = project.read_bytes()
    if b"steadyhand" not in content:
        return False
    import tomllib

    try:
        data = tomllib.loads(content.decode())
    except ValueError:
        return b"tool.steadyhand" in content
    tool = data.get("tool")
    return isinstance(tool, dict) and "steadyhand" in tool
