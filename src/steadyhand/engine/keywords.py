"""Finding keywords in speech: whole words and phrases, ignoring case. "unresolved" is not "resolved"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import regex

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})
_UNSPACED = r"\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"


def normal(text: str) -> str:
    """Text as it is compared: one spelling of accented letters, straight quotation marks."""
    return unicodedata.normalize("NFC", text).translate(_QUOTES)


def first_keyword(keywords: Iterable[str], text: str) -> str | None:
    """The first of the keywords that the text says, or None."""
    for keyword in keywords:
        if says(text, keyword):
            return keyword
    return None


def says(text: str, keyword: str) -> bool:
    """Whether the text holds the keyword as whole words; runs of white space are alike."""
    return bool(places(normal(text), keyword))


def places(text: str, keyword: str) -> list[tuple[int, int]]:
    """Where `text`, which is `normal` already, says the keyword: start and end of each place."""
    words = normal(keyword).split()
    if not words:
        return []
    pattern = r"\s+".join(re.escape(word) for word in words)
    if not re.match(f"[{_UNSPACED}]", words[0]):
        # A hyphen joins: "un-resolved" is not "resolved".
        pattern = r"(?<!\w)(?<!\w-)" + pattern
    if not re.search(f"[{_UNSPACED}]$", words[-1]):
        pattern += r"(?!\w)(?!-\w)(?!'t\b)"
    return [match.span() for match in regex.finditer(pattern, text, regex.IGNORECASE | regex.FULLCASE)]
