"""What all file shapes share: strict types, unknown keys forbidden."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """What a user may write. A key that may be left out has a default; `null` is accepted where that is None."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True
    )


Name = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0, le=2)]
Milliseconds = Annotated[int, Field(gt=0)]
FreeForm = dict[str, Any]
Trials = Annotated[int, Field(ge=1, le=100_000)]
PassRate = Annotated[float, Field(gt=0, le=1)]
