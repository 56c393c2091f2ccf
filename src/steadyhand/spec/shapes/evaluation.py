"""What every evaluation has beside the parameters of its type."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from steadyhand.spec.shapes.base import Name, Shape

Evaluation = dict[str, Any]


class EvaluationHead(Shape):
    """The keys that are the same for every type of evaluation."""

    type: Name
    description: str | None = None
    weight: float = Field(default=1.0, ge=0, description="Its share under the judgment strategy `weighted`")
