"""What is laid before a judge."""

from __future__ import annotations

from steadyhand.records.base import Record


class Material(Record):
    """A piece of what is judged: data, never instructions. `title` may hold text that the agent chose, too.

    A piece that is not `whole` lacks something that nobody can show any more; its text says what.
    """

    title: str
    text: str
    whole: bool = True
