"""What a judge scores a reply by."""

from __future__ import annotations

from holdfast.records.base import Record
from holdfast.records.place import Place


class Anchor(Record):
    """What a reply of this score looks like."""

    score: float
    text: str


class RubricDimension(Record):
    """Anchors are in the order of their scores, the lowest first."""

    name: str
    weight: float
    description: str
    anchors: tuple[Anchor, ...] = ()


class Rubric(Record):
    """The weights of the dimensions sum to one."""

    name: str
    place: Place
    digest: str
    dimensions: tuple[RubricDimension, ...]
    description: str = ""
