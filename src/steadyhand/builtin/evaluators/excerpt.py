"""Short pieces of long texts, and counts in words, for messages and evidence."""

from __future__ import annotations

import functools

LIMIT = 200


def excerpt(text: str, start: int = 0, end: int | None = None) -> str:
    """At most `LIMIT` characters around `text[start:end]`; without a place, the beginning."""
    if len(text) <= LIMIT:
        return text
    if end is None or end - start >= LIMIT:
        first = start
    else:
        first = max(0, min(start - (LIMIT - (end - start)) // 2, len(text) - LIMIT))
    last = min(len(text), first + LIMIT)
    return f"{'...' if first else ''}{text[first:last]}{'...' if last < len(text) else ''}"


@functools.lru_cache(maxsize=512)
def quoted(text: str) -> str:
    """The text in quotation marks on one line, shortened. It is what a scenario asks for, again in every trial."""
    shown = excerpt(text).replace("\r", "\\r").replace("\n", "\\n")
    mark = '"' if "'" in shown else "'"
    return f"{mark}{shown}{mark}"


def counted(number: int, noun: str) -> str:
    """Such as `1 turn` and `2 turns`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def how_often(least: int, most: int | None) -> str:
    """The bounds of a count, such as `at least once` and `2 to 3 times`."""
    if most is None:
        return f"at least {times(least)}"
    if least == most:
        return times(most) if most == 0 else f"exactly {times(most)}"
    return f"at most {times(most)}" if least == 0 else f"{least} to {most} times"
