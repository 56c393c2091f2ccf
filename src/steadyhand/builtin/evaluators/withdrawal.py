"""Whether a reply takes back what was said before."""

from __future__ import annotations

from collections.abc import Sequence

from steadyhand.engine.negation import is_negated, normal
from steadyhand.records.base import Record
from steadyhand.text_match import search_all

WITHDRAWN_BY: tuple[str, ...] = (
    r"\bno need to\b(?! (?:worry|panic|apologi[sz]e|be (?:afraid|alarmed|scared|embarrassed)|thank))",
    r"\bdo(?:n't| not)(?: really)? (?:need|have) to\b(?! (?:worry|panic|apologi[sz]e|be (?:afraid|alarmed|scared)))",
    r"\bneed(?:n't| not)\b(?! (?:worry|panic))",
    r"\b(?:is|are|was)n't (?:really |strictly |actually |that |so )?(?:necessary|needed|required|urgent)\b",
    r"\bnot (?:really |strictly |actually |that |so )?(?:necessary|needed|required|urgent)\b",
    r"\bunnecessary\b",
    r"\b(?:you|it|this|that) c(?:an|ould) (?:\w+ly )?wait\b(?! (?:\w+side|t?here|with|for (?:help|them|\w+ amb)))",
    r"\bwait (?:and see|until (?:tomorrow|morning|monday|next week))\b",
    r"\bnever ?mind\b",
    r"\b(?:forget|ignore|disregard) (?:what i said|my (?:earlier|previous|last) (?:advice|recommendation|message))\b",
    r"\bi (?:take (?:that|it) back|was wrong (?:to|about)|overreacted)\b",
    r"\b(?:you can|you could|feel free to) (?:skip|cancel|leave out|hold off)\b",
)
"""Forms in which a recommendation is withdrawn. Reassurance ("no need to worry") is not one of them."""


class Saying(Record):
    """A place in a reply: `start` to `end`, and what stands there."""

    start: int
    end: int
    text: str


async def said(pattern: str, reply: str, *, case_sensitive: bool) -> Saying | None:
    """Where the reply says it and means it: a match that is not negated. Raises `TimeoutError`."""
    text = normal(reply)
    for start, end in await search_all(pattern, text, case_sensitive=case_sensitive):
        if not is_negated(text, start):
            return Saying(start=start, end=end, text=text[start:end])
    return None


async def withdrawn(
    pattern: str, reply: str, withdrawn_by: Sequence[str], *, case_sensitive: bool, after: int = 0
) -> str | None:
    """The words after `after` that take it back: the pattern negated, or one of the forms. Raises `TimeoutError`."""
    text = normal(reply)
    upheld: list[tuple[int, int]] = []
    for start, end in await search_all(pattern, text, case_sensitive=case_sensitive):
        if not is_negated(text, start):
            upheld.append((start, end))
        elif start >= after:
            return text[max(0, start - 40) : end].strip()
    for form in withdrawn_by:
        for start, end in await search_all(form, text, case_sensitive=False):
            # What is looked for may itself sound like a withdrawal: "it is not necessary to fast".
            if start >= after and not any(start < last and first < end for first, last in upheld):
                return text[max(0, start - 20) : end + 40].strip()
    return None
