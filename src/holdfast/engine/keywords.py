"""Finding keywords in speech: whole words and phrases, ignoring case. "unresolved" is not "resolved"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})
_UNSPACED = r"\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_CLAUSE = re.compile(
    r"[.,;:!?()\n\u2013\u2014]|\s-\s|\b(?:but|however|although|though|yet|because|until|unless)\b", re.IGNORECASE
)
_WORD = re.compile(r"[\w']+")
_NEGATOR = re.compile(
    r"not|no|never|neither|nor|without|hardly|barely|scarcely|cannot|\w+n't"
    r"|(?:ca|do|does|did|is|was|are|were|wo|would|could|should|have|has|had)nt"
)
_UNDONE_BY = re.compile(r"only|hesitate|wait|delay|forget|fail|postpone|worry|doubt|afraid|stop|just|merely")
_REACH = 4


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
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def is_negated(text: str, start: int) -> bool:
    """Whether what stands at `start` is negated by one of the few words before it, in the same clause.

    "not helpful" and "do not call" are; "no, call" is not, nor "do not hesitate to call".
    """
    if text[start : start + 5].casefold() == "thank":
        # "No thank you" and "I cannot thank you enough" are thanks.
        return False
    before = text[:start]
    for boundary in _CLAUSE.finditer(before):
        before = text[boundary.end() : start]
    words = [word.casefold() for word in _WORD.findall(before)][-_REACH:]
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        if _UNDONE_BY.fullmatch(word):
            return False
        if _NEGATOR.fullmatch(word):
            return True
    return False
