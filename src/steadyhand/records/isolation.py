"""How agents that we start are kept from what their trials are judged by."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from steadyhand.records.base import Record

IsolationKind = Literal["room", "watched", "none"]
IsolationChoice = Literal["auto", "room", "watched", "none"]
_WEAKEST_FIRST: tuple[IsolationKind, ...] = ("none", "watched", "room")


def weakest(kinds: Collection[IsolationKind | None]) -> IsolationKind | None:
    """What can be said of several processes or trials together; None if there was nothing to isolate."""
    return next((kind for kind in _WEAKEST_FIRST if kind in kinds), None)


class AnswerKey(Record):
    """What trials are judged by: `files` and `folders` that an agent must neither read nor write, by their real paths,
    and the folder of all trials' `workspaces`. `readable` is what the user lets agents read all the same, and `fixed`
    what all may read and none may change: the program that judges."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    workspaces: str = ""
    readable: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
