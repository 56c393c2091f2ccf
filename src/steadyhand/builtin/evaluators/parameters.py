"""Parameter types that evaluators share. Numbers are finite: NaN would slip past any bound."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from steadyhand.spec.patterns import is_blank

Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
PositiveMilliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]

PositiveShare = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
"""A threshold that a value can fall below."""


def _not_blank(text: str) -> str:
    if is_blank(text):
        raise ValueError("must not be blank")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
