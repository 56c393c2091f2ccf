"""What is laid before a judge."""

from __future__ import annotations

from holdfast.records.base import Record


class Material(Record):
    """A piece of what is judged: data, never instructions. `title` may hold text that the agent chose, too."""

    title: str
    text: str
