"""What a judge scores a reply by, and how the reply scored."""

from __future__ import annotations

from steadyhand.records.base import Record
from steadyhand.records.evaluation import JudgeNote
from steadyhand.records.location import Place


class Anchor(Record):
    """What a reply of this score looks like."""

    score: float
    text: str


class RubricDimension(Record):
    """Anchors are in the order of their scores, the lowest first."""

    name: str
    weight: float
    description: str = ""
    anchors: tuple[Anchor, ...] = ()


class Rubric(Record):
    """The weights of the dimensions sum to one."""

    name: str
    place: Place
    dimensions: tuple[RubricDimension, ...]
    digest: str = ""
    description: str = ""
    version: str | None = None
    domain: str | None = None


class RubricScore(Record):
    """How a reply scored, from 0 to 1 by dimension. A score that could not be had is absent, and then so is `overall`.

    `reason` says what is missing. `fabricated` is None when nobody could tell.
    """

    name: str
    scores: dict[str, float] = {}
    overall: float | None = None
    fabricated: bool | None = None
    evidence: str | None = None
    reason: str | None = None
    note: JudgeNote | None = None
