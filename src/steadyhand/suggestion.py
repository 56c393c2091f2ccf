"""The name that was probably meant, for messages about a wrong one."""

from __future__ import annotations

from collections.abc import Iterable

_SEPARATORS = str.maketrans("", "", "_- ")


def nearest(name: str, allowed: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """The allowed name most like `name`, or None when none is close. Of several, one as long as `name`, else the first.

    `likeness` is the share of letters that must agree; of two letters, one. Case and separators do not count, so
    `maxTurns` is `max_turns`, and two letters that changed places are one mistake.
    """
    wanted = _letters(name)
    best: tuple[float, int] | None = None
    found: str | None = None
    for right in allowed:
        letters = _letters(right)
        if letters == wanted:
            return right
        longer = max(len(wanted), len(letters))
        most = max(int((1 - likeness) * longer + 1e-9), longer == 2)
        distance = edit_distance(wanted, letters, most)
        rank = (distance / max(longer, 1), abs(len(wanted) - len(letters)))
        if distance <= most and (best is None or rank < best):
            best, found = rank, right
    return found


def edit_distance(one: str, other: str, most: int) -> int:
    """The number of letters to insert, remove, replace or swap with their neighbour (optimal string alignment).

    At least `most + 1` when it is more than `most`.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, start=1):
        line = [row]
        for column, against in enumerate(other, start=1):
            cost = min(last[column] + 1, line[column - 1] + 1, last[column - 1] + (letter != against))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == against:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        if min(line) > most:
            return most + 1
        before, last = last, line
    return last[-1]


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing."""
    near = nearest(name, allowed)
    return f"; did you mean {near!r}?" if near else ""


def _letters(name: str) -> str:
    return name.translate(_SEPARATORS).lower()
