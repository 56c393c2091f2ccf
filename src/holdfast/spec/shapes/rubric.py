"""The rubric format, as it is written."""

from __future__ import annotations

from pydantic import Field

from holdfast.spec.shapes.base import Name, Shape, Share


class DimensionShape(Shape):
    """One thing that is scored."""

    name: Name
    weight: Share
    description: str
    anchors: dict[str, str] = Field(description="Score from 0 to 1, to what a reply of that score looks like")


class RubricShape(Shape):
    """What a judge scores a reply by. The weights of the dimensions sum to 1."""

    name: Name
    description: str = ""
    dimensions: list[DimensionShape] = Field(min_length=1)
