"""Regular expressions in the parameters of a check."""

from __future__ import annotations

from typing import Annotated

import regex
from pydantic import AfterValidator, Field

from steadyhand.spec.patterns import inspect_pattern
from steadyhand.text_match import compiled


def _compiles(pattern: str) -> str:
    try:
        compiled(pattern, case_sensitive=True)
        compiled(pattern, case_sensitive=False)
    except regex.error as error:
        raise ValueError(f"not a valid regular expression: {error}") from error
    if inspect_pattern(pattern).always:
        raise ValueError("matches every text, even an empty one, so it can never fail")
    return pattern


PatternText = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
"""A regular expression in a file: compiled when the file is loaded, so that a bad one is an error there."""
