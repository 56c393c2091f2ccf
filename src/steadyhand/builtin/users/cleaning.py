"""A model's answer, without what is around the user's words."""

from __future__ import annotations

import re

_THINKING = re.compile(r"^\s*<think(?:ing)?>.*?</think(?:ing)?>", re.IGNORECASE | re.DOTALL)
_PREFIX = re.compile(r"^[*_]*(?:user|customer|you)[*_]*\s*:[*_]*\s*", re.IGNORECASE)
_MARK = re.compile(r"^<<<(?:data|end) [0-9a-f]{20}[^\n]*>>>$", re.MULTILINE)
_PAIRS = {'"': '"', "\u201c": "\u201d", "'": "'", "\u2018": "\u2019", "\u00ab": "\u00bb", "\u201e": "\u201c"}


def clean(text: str) -> str:
    """The words alone: no thinking aloud, no `User:` in front, no marks or quotation marks around all of it."""
    text = _MARK.sub("", _THINKING.sub("", text)).strip()
    while True:
        before = text
        text = _unquoted(_PREFIX.sub("", text, count=1).strip())
        if text == before:
            return text


def _unquoted(text: str) -> str:
    closing = _PAIRS.get(text[:1])
    inside = text[1:-1]
    if len(text) < 2 or closing is None or text[-1] != closing or closing in inside or text[0] in inside:
        return text
    return inside.strip()
