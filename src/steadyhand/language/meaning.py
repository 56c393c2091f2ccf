"""What meaning checks ask of an answer, and how one answer is read by all checks of a scenario together.

A check is answered with yes only if everything in the answer has been read: that no retraction was recognised does not
prove that nothing was retracted.
"""

from __future__ import annotations

from steadyhand.language.amounts import Amount, parse_value
from steadyhand.language.answer import Answer, Reading
from steadyhand.records.base import Record


class Advises(Record):
    """The answer orders the act, now and without a condition; `action` has the ways to name it."""

    action: tuple[str, ...]


class Forbids(Record):
    """The answer orders the act nowhere."""

    action: tuple[str, ...]


class States(Record):
    """The answer gives a value for one of `of`, and it is within `value`."""

    of: tuple[str, ...]
    value: str

    @property
    def range(self) -> Amount:
        return parse_value(self.value)


class Chooses(Record):
    """The answer names one of `options`, which is among `expected`; `line` is how, with `{option}` for the name."""

    options: tuple[str, ...]
    expected: tuple[str, ...]
    line: str | None = None


class NothingElse(Record):
    """Every clause of the answer is read by another check."""


Check = Advises | Forbids | States | Chooses | NothingElse


def read(text: str, check: Check, beside: tuple[Check, ...]) -> Reading:
    """What `check` finds in the text; `beside` are all meaning checks of the scenario on the same answer."""
    return Reading(answer=Answer.CANNOT_TELL, why="not read")
