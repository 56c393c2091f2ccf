"""The matrix format, as it is written."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from steadyhand.spec.shapes.base import Name, Shape, Trials


class MatrixAxisShape(Shape):
    """One field of the base scenario, and the values it takes."""

    parameter: Name = Field(description="Path of a field of the base scenario, such as run[0].input")
    values: list[Any] = Field(min_length=1)


class MatrixShape(Shape):
    """A scenario to run in every combination of some values."""

    name: Name | None = Field(default=None, description="Default: made from the file's name")
    description: str = ""
    base_scenario: Name = Field(description="Path of the scenario, relative to this file")
    runs_per_combination: Trials | None = Field(
        default=None, description="Default: as often as the base scenario says, or once. --trials wins"
    )
    matrix: list[MatrixAxisShape] = Field(min_length=1)
