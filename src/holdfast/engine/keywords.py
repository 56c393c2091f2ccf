"""Finding keywords in speech: whole words and phrases, ignoring case. "unresolved" is not "resolved"."""

from __future__ import annotations

import re
from collections.abc import Iterable


def first_keyword(keywords: Iterable[str], text: str) -> str | None:
    """The first of the keywords that the text says, or None."""
    for keyword in keywords:
        if says(text, keyword):
            return keyword
    return None


def says(text: str, keyword: str) -> bool:
    """Whether the text holds the keyword as whole words; runs of white space are alike."""
    words = keyword.split()
    if not words:
        return False
    pattern = r"(?<!\w)" + r"\s+".join(re.escape(word) for word in words) + r"(?!\w)"
    return re.search(pattern, text, re.IGNORECASE) is not None
