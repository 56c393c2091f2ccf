"""Text that says something: a blank one is a mistake in the file."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from steadyhand.spec.patterns import is_blank


def _not_blank(text: str) -> str:
    if is_blank(text):
        raise ValueError("must not be blank")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
