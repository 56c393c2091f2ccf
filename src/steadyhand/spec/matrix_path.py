"""Paths of a matrix's parameters: `run[0].conversation.max_turns` in a base scenario."""

from __future__ import annotations

import re
from typing import Any, cast

from steadyhand.spec.findings import describe
from steadyhand.spec.naming import Path, advice, show_path

_PART = re.compile(r"(?:^|\.)([^.\[\]'\"]+)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
OPEN_ROOT = "character"
"""May be varied in a scenario that does not have it."""


class WrongPath(Exception):
    """The path is malformed, or leads nowhere in the base scenario; the message says where it stops."""


def parse_path(text: str) -> Path:
    """Raises `WrongPath` unless it is names joined by dots, with indexes and quoted names in brackets."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            raise WrongPath(f"`{text}` is not a path; expected one such as `run[0].conversation.max_turns`")
        name, index, single, double = match.groups()
        parts.append(int(index) if index is not None else next(x for x in (name, single, double) if x is not None))
        at = match.end()
    if not parts:
        raise WrongPath("the path is empty; expected one such as `run[0].input`")
    return tuple(parts)


def check_path(data: Any, path: Path) -> None:
    """Raises `WrongPath` when nothing of the base scenario stands there.

    A field that is left out in the base is no parameter: a misspelt one among free-form keys would be varied to no
    effect. Only `character` may be new, since it is ours to give.
    """
    if path[0] == OPEN_ROOT and len(path) > 1 and all(isinstance(part, str) for part in path):
        return
    value = data
    for depth, part in enumerate(path):
        where = f"`{show_path(path[:depth])}`" if depth else "the base scenario"
        value = _item(value, part, where) if isinstance(part, int) else _member(value, part, where)


def _item(value: Any, index: int, where: str) -> Any:
    if not isinstance(value, list):
        raise WrongPath(f"{where} is {describe(value)}, not a list, so it has no entry [{index}]")
    entries = cast("list[Any]", value)
    if index >= len(entries):
        held = f"entries [0] to [{len(entries) - 1}]" if len(entries) > 1 else "one entry, [0]" if entries else "none"
        raise WrongPath(f"index [{index}] is out of bounds: {where} has {held}")
    return entries[index]


def _member(value: Any, name: str, where: str) -> Any:
    if not isinstance(value, dict):
        raise WrongPath(f"{where} is {describe(value)}, so it has no `{name}`")
    members = cast("dict[str, Any]", value)
    if name not in members:
        hint = advice(name, members)
        raise WrongPath(f"{where} has no `{name}`{hint}; a parameter must be set in the base scenario to be varied")
    return members[name]


def with_value(data: Any, path: Path, value: Any) -> Any:
    """A copy of `data` in which `value` stands at `path`; what is not on the way is shared."""
    part, rest = path[0], path[1:]
    if isinstance(part, int):
        entries = list(cast("list[Any]", data))
        entries[part] = with_value(entries[part], rest, value) if rest else value
        return entries
    members = dict(cast("dict[str, Any]", data)) if isinstance(data, dict) else dict[str, Any]()
    members[part] = with_value(members.get(part), rest, value) if rest else value
    return members
