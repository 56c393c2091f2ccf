"""How often a check counts a deed, and how it reports that."""

from __future__ import annotations

from collections.abc import Iterable

from steadyhand.builtin.evaluators.action_match import Status


def least_of(min_count: int | None, max_count: int | None) -> int:
    """Once, unless the file says otherwise; `max_count: 0` alone means never."""
    if min_count is None:
        return 0 if max_count == 0 else 1
    return min_count


def check_bounds(min_count: int | None, max_count: int | None) -> None:
    """Raises `ValueError` for bounds that nothing, or everything, is within."""
    if min_count == 0 and max_count is None:
        raise ValueError("`min_count: 0` without `max_count` always holds; set `max_count`, or leave `min_count` out")
    least = least_of(min_count, max_count)
    if max_count is not None and least > max_count:
        raise ValueError(f"`min_count` ({least}) is above `max_count` ({max_count})")


COUNTS = {"min_count", "max_count"}


def opposite_bounds(least: int, most: int | None) -> dict[str, int]:
    """The bounds of the counts outside these. Raises `ValueError` if they lie on both sides."""
    if most is None:
        return {"max_count": 0} if least == 1 else {"min_count": 0, "max_count": least - 1}
    if least > 0:
        raise ValueError("too few and too many are both outside its bounds; ask for one of them")
    return {"min_count": most + 1}


def in_bounds(count: int, least: int, most: int | None) -> bool:
    return count >= least and (most is None or count <= most)


def is_settled(count: int, least: int, most: int | None) -> bool:
    """Whether more of the same could not change the verdict."""
    return exceeds(count, most) or (count >= max(least, 1) and most is None)


def exceeds(count: int, most: int | None) -> bool:
    return most is not None and count > most


def how_often(least: int, most: int | None) -> str:
    """The bounds of a count, such as `at least once` and `2 to 3 times`."""
    if most is None:
        return f"at least {times(least)}"
    if least == most:
        return times(most) if most == 0 else f"exactly {times(most)}"
    return f"at most {times(most)}" if least == 0 else f"{least} to {most} times"


def times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def with_conditions(asked: list[str], status: Status | None) -> str:
    asked = [*asked, f"status {status}"] if status not in (None, "any") else asked
    return f" with {' and '.join(asked)}" if asked else ""


def fewest(candidates: Iterable[list[str]]) -> str:
    """How the candidate that came nearest differed."""
    return ", and ".join(min(candidates, key=len))
