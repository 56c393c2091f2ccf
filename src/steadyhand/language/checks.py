"""What meaning checks ask of an answer."""

from __future__ import annotations

from steadyhand.records.base import Record


class Advises(Record):
    """The answer orders the act, now and without a condition; `action` has the ways to name it.

    `at_once`: an act that is ordered only on a condition, for later, or left to somebody else is not ordered.
    `before`: the acts that come later, if the answer has them.
    """

    action: tuple[str, ...]
    at_once: bool = False
    before: tuple[str, ...] = ()


class Forbids(Record):
    """The answer orders the act nowhere."""

    action: tuple[str, ...]


class States(Record):
    """The answer gives a value for one of `of`, and it is within `value`; or none at all, if it is `optional`."""

    of: tuple[str, ...]
    value: str
    optional: bool = False


class Chooses(Record):
    """The answer names one of `options`, which is among `expected`; `line` is how, with `{option}` for the name."""

    options: tuple[str, ...]
    expected: tuple[str, ...]
    line: str | None = None


class NothingElse(Record):
    """Every clause of the answer is read by another check, or orders one of the acts in `also`."""

    also: tuple[str, ...] = ()


Check = Advises | Forbids | States | Chooses | NothingElse
