"""The rubric format, as it is written."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from steadyhand.spec.shapes.base import FreeForm, Name, Shape, Share


class DimensionShape(Shape):
    """One thing that is scored."""

    name: Name
    weight: Share
    description: str
    anchors: dict[str, str] = Field(
        default={}, description="Score from 0 to 1, to what a reply of that score looks like"
    )


class RubricShape(Shape):
    """What a judge scores a reply by. The weights of the dimensions sum to 1."""

    name: Name
    version: str | int | float | None = None
    domain: str | None = None
    description: str = ""
    dimensions: list[DimensionShape] = Field(min_length=1)
    failure_classes: FreeForm | list[Any] = Field(
        default={}, description="What the author calls each class; reports use the classes A to E"
    )
