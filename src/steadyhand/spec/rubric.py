"""Rubric files, lowered to their record."""

from __future__ import annotations

import math
from typing import Any, cast

from pydantic import Field

from steadyhand.records.evaluation import Anchor, Rubric, RubricDimension
from steadyhand.spec.validation import FieldPath, Findings, FreeForm, Name, Shape, Share, mappings, validate
from steadyhand.spec.yaml import Document

_TOLERANCE = 0.001


class DimensionShape(Shape):
    """One thing that is scored."""

    name: Name = Field(description="Name of the dimension")
    weight: Share = Field(description="Its share of the overall score")
    description: str = Field(description="What is scored")
    anchors: dict[str, str] = Field(
        default={}, description="Score from 0 to 1, to what a reply of that score looks like"
    )


class RubricShape(Shape):
    """What a judge scores a reply by. The weights of the dimensions sum to 1."""

    name: Name = Field(description="Name of the rubric")
    version: str | int | float | None = Field(default=None, description="Version of the rubric")
    domain: str | None = Field(default=None, description="Domain that the rubric is for")
    description: str = Field(default="", description="What the rubric is for")
    dimensions: list[DimensionShape] = Field(min_length=1, description="What is scored")
    failure_classes: FreeForm | list[Any] = Field(
        default={}, description="What the author calls each class; reports use the classes A to E"
    )


def read_rubric(document: Document, findings: Findings) -> Rubric | None:
    """The rubric, or None when `findings` holds an error."""
    data = cast("dict[str, Any]", document.data)
    shape = validate(RubricShape, data, (), findings)
    _check_dimensions(data.get("dimensions"), findings)
    if shape is None or findings.failed:
        return None
    dimensions = tuple(
        RubricDimension(
            name=dimension.name,
            weight=dimension.weight,
            description=dimension.description,
            anchors=_anchors(dimension.anchors),
        )
        for dimension in shape.dimensions
    )
    return Rubric(
        name=shape.name,
        place=document.locate(()),
        digest=document.digest,
        dimensions=dimensions,
        description=shape.description,
        version=None if shape.version is None else str(shape.version),
        domain=shape.domain,
    )


def _anchors(anchors: dict[str, str]) -> tuple[Anchor, ...]:
    found = [Anchor(score=float(score), text=text) for score, text in anchors.items()]
    return tuple(sorted(found, key=lambda anchor: anchor.score))


def _check_dimensions(dimensions: Any, findings: Findings) -> None:
    names: set[str] = set()
    weights: list[float] = []
    for index, dimension in mappings(dimensions):
        name, weight, anchors = dimension.get("name"), dimension.get("weight"), dimension.get("anchors")
        if isinstance(name, str):
            if name in names:
                message = f"another dimension is also called `{name}`"
                findings.error(("dimensions", index, "name"), message, "duplicate-name")
            names.add(name)
        if isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight <= 1:
            weights.append(weight)
        if isinstance(anchors, dict):
            _check_anchors(cast("dict[str, Any]", anchors), ("dimensions", index, "anchors"), findings)
    complete = isinstance(dimensions, list) and len(weights) == len(cast("list[Any]", dimensions)) > 0
    if complete and abs(math.fsum(weights) - 1) > _TOLERANCE + 1e-9:
        message = f"expected weights that sum to 1, found a sum of {math.fsum(weights):g}"
        findings.error(("dimensions",), message, "out-of-range")


def _check_anchors(anchors: dict[str, Any], path: FieldPath, findings: Findings) -> None:
    seen: set[float] = set()
    for score in anchors:
        try:
            number = float(score)
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1:
            message = f"expected a score from 0 to 1 as the key, found `{score}`"
            findings.error((*path, score), message, "out-of-range", key=True)
        elif number in seen:
            findings.error((*path, score), f"score {number:g} already has an anchor", "duplicate-key", key=True)
        seen.add(number)
