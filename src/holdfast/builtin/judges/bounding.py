"""Sharing a limited room among texts, so that a long one can neither push out the question nor the other texts."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.builtin.judges.defuse import defuse

TOTAL = 96_000
PIECE = 32_000


def shares(lengths: Sequence[int], total: int = TOTAL, piece: int = PIECE) -> list[int]:
    """How many characters each may take: short ones all of theirs, the others equal parts of what is left."""
    room = total
    granted = [0] * len(lengths)
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    for position, index in enumerate(order):
        fair = room // (len(order) - position)
        granted[index] = min(lengths[index], fair, piece)
        room -= granted[index]
    return granted


def head_and_tail(text: str, room: int) -> tuple[str, str | None]:
    """The text, defused, as one piece (and None), or its beginning and its end when it does not fit."""
    if len(text) <= room:
        whole = defuse(text)
        if len(whole) <= room + room // 4:
            return whole, None
    head, tail = room - room // 3, room // 3
    return defuse(text[:head])[:head], defuse(text[len(text) - tail :])[-tail:] if tail else ""
