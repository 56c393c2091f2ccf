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


def fit(texts: Sequence[str], total: int = TOTAL, piece: int = PIECE) -> list[tuple[str, str | None]]:
    """Each text, defused, in one piece (and None), or its beginning and its end when it does not fit."""
    whole = [defuse(text) if len(text) <= piece else None for text in texts]
    lengths = [len(text) if shown is None else len(shown) for text, shown in zip(texts, whole, strict=True)]
    rooms = shares(lengths, total, piece)
    return [
        (shown, None) if shown is not None and len(shown) <= room else _head_and_tail(text, room)
        for text, shown, room in zip(texts, whole, rooms, strict=True)
    ]


def _head_and_tail(text: str, room: int) -> tuple[str, str]:
    head, tail = room - room // 3, room // 3
    ending = defuse(text[len(text) - tail :])
    return defuse(text[:head])[:head], ending[len(ending) - tail :]
