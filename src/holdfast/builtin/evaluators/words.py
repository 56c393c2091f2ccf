"""The two checks on words that the others are made of: a piece of text is there, or a pattern matches."""

from __future__ import annotations

import functools

from holdfast.builtin.evaluators.containment import find
from holdfast.builtin.evaluators.excerpt import excerpt, quoted
from holdfast.builtin.evaluators.patterns import search
from holdfast.builtin.evaluators.subject import Subject
from holdfast.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed


def check_contains(subject: Subject, piece: str, *, case_sensitive: bool, wanted: bool = True) -> EvaluationResult:
    """Passed when `piece` is in the subject, or with `wanted` false when it is not."""
    text = subject.text
    found = find(text, piece, case_sensitive=case_sensitive)
    expected = _expected("" if wanted else "not ", piece, case_sensitive)
    if found is None:
        # Where it is well that nothing was found, there is nothing to point at.
        shown = excerpt(text) if wanted else None
        evidence = Evidence(expected=expected, found=_nothing(text), where=subject.label, excerpt=shown)
        empty = "; it was empty" if not text.strip() else ""
        message = f"{subject.label} does not contain {quoted(piece)}{empty}"
    else:
        where = subject.where(found.start, found.end)
        evidence = Evidence(
            expected=expected,
            found=excerpt(found.text[found.start : found.end]),
            where=where,
            excerpt=excerpt(found.text, found.start, found.end),
        )
        message = f"{subject.label} contains {quoted(piece)} ({where})"
    holds = (found is not None) is wanted
    if wanted:
        return passed(message, evidence=evidence) if holds else failed(message, evidence=evidence)
    if holds:
        return passed(message, evidence=evidence, rests_on="absence")
    return failed(message, evidence=evidence, rests_on="presence")


async def check_pattern(subject: Subject, pattern: str, *, case_sensitive: bool) -> EvaluationResult:
    """Passed when `pattern` matches somewhere in the subject; inconclusive when that could not be told in time."""
    text = subject.text
    expected = _expected("a match of ", pattern, case_sensitive)
    try:
        span = await search(pattern, text, case_sensitive=case_sensitive)
    except TimeoutError:
        return inconclusive(
            f"the search for {quoted(pattern)} in {len(text)} characters was given up after one second; "
            "write the pattern without nested repetition",
            evidence=Evidence(expected=expected, found="no answer in time", where=subject.label, excerpt=excerpt(text)),
        )
    if span is None:
        return failed(
            f"{subject.label} has no match of {quoted(pattern)}" + ("; it was empty" if not text.strip() else ""),
            evidence=Evidence(expected=expected, found=_nothing(text), where=subject.label, excerpt=excerpt(text)),
        )
    where = subject.where(*span)
    return passed(
        f"{subject.label} matches {quoted(pattern)} ({where})",
        evidence=Evidence(
            expected=expected, found=excerpt(text[slice(*span)]), where=where, excerpt=excerpt(text, *span)
        ),
        # A match of no characters has found that something is not there: `^(?!.*password)`.
        rests_on="absence" if span[0] == span[1] else None,
    )


@functools.lru_cache(maxsize=512)
def _expected(what: str, piece: str, case_sensitive: bool) -> str:
    return f"{what}{quoted(piece)}, {'case included' if case_sensitive else 'ignoring case'}"


def _nothing(text: str) -> str:
    return "nothing of the kind" if text.strip() else "an empty text"
