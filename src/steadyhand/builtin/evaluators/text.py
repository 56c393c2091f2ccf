"""Checks on words: `string_contains`, `regex_match` and the invariants `regex`, `contains` and `not_contains`.

Where the file does not say how to read a reply, each takes the safe reading: `contains` minds the case, `not_contains`
ignores it.
"""

from __future__ import annotations

import functools
from typing import ClassVar

from pydantic import Field

from steadyhand.builtin.evaluators.parameters import Text
from steadyhand.builtin.evaluators.text_search import PatternText, Scope, Subject, excerpt, quoted, subject
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, TextCheck
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.result import ExecutionResult
from steadyhand.text_match import Span, find, find_forbidden, search


class StringContainsParams(EvaluationParams):
    value: Text = Field(min_length=1)
    case_sensitive: bool = False
    scope: Scope = "reply"


class RegexMatchParams(EvaluationParams):
    pattern: PatternText
    case_sensitive: bool = False
    scope: Scope = "reply"


class RegexInvariantParams(EvaluationParams):
    pattern: PatternText
    case_sensitive: bool = False
    scope: Scope = "reply"


class ContainsParams(EvaluationParams):
    pattern: Text = Field(min_length=1)
    case_sensitive: bool = True
    scope: Scope = "reply"


class NotContainsParams(EvaluationParams):
    pattern: Text = Field(min_length=1)
    case_sensitive: bool = False
    scope: Scope = "reply"


class StringContains:
    type: ClassVar[str] = "string_contains"
    deterministic: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = StringContainsParams

    async def evaluate(
        self, params: StringContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_contains(words, params.value, case_sensitive=params.case_sensitive)


class RegexMatch:
    type: ClassVar[str] = "regex_match"
    deterministic: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = RegexMatchParams

    async def evaluate(
        self, params: RegexMatchParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return await check_pattern(words, params.pattern, case_sensitive=params.case_sensitive)


class RegexInvariant:
    type: ClassVar[str] = "regex"
    deterministic: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = RegexInvariantParams

    async def evaluate(
        self, params: RegexInvariantParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return await check_pattern(words, params.pattern, case_sensitive=params.case_sensitive)

    def on_text(self, params: RegexInvariantParams) -> TextCheck | None:
        if params.scope != "reply":
            return None

        async def matches(text: str) -> bool:
            return await search(params.pattern, text, case_sensitive=params.case_sensitive) is not None

        return matches


class Contains:
    type: ClassVar[str] = "contains"
    deterministic: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = ContainsParams

    async def evaluate(
        self, params: ContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_contains(words, params.pattern, case_sensitive=params.case_sensitive)

    def on_text(self, params: ContainsParams) -> TextCheck | None:
        if params.scope != "reply":
            return None

        async def contains(text: str) -> bool:
            return find(text, params.pattern, case_sensitive=params.case_sensitive) is not None

        return contains


class NotContains:
    type: ClassVar[str] = "not_contains"
    deterministic: ClassVar[bool] = True
    fails_for_good: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = NotContainsParams

    async def evaluate(
        self, params: NotContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_absent(words, params.pattern, case_sensitive=params.case_sensitive)

    def on_text(self, params: NotContainsParams) -> TextCheck | None:
        if params.scope != "reply":
            return None

        async def lacks(text: str) -> bool:
            return find_forbidden(text, params.pattern, case_sensitive=params.case_sensitive) is None

        return lacks


def check_contains(subject: Subject, piece: str, *, case_sensitive: bool) -> EvaluationResult:
    """Passed when `piece` is in the subject."""
    text = subject.text
    found = find(text, piece, case_sensitive=case_sensitive)
    expected = _expected("", piece, case_sensitive)
    if found is not None:
        return passed(_contains(subject, piece, found), evidence=_seen(subject, expected, found))
    evidence = Evidence(expected=expected, found=_no_match(text), where=subject.label, excerpt=excerpt(text))
    return failed(_lacks(subject, piece), evidence=evidence)


def check_absent(subject: Subject, piece: str, *, case_sensitive: bool) -> EvaluationResult:
    """Passed when `piece` is not in the subject, either as written or as a person would read it."""
    text = subject.text
    expected = _expected("not ", piece, case_sensitive)
    try:
        found = find_forbidden(text, piece, case_sensitive=case_sensitive)
    except TimeoutError:
        return inconclusive(
            f"searching {len(text)} characters for {quoted(piece)} timed out after 1 second",
            evidence=Evidence(expected=expected, found="timed out", where=subject.label, excerpt=excerpt(text)),
        )
    if found is not None:
        return failed(_contains(subject, piece, found), evidence=_seen(subject, expected, found), rests_on="presence")
    # A pass by absence has no place to point at.
    evidence = Evidence(expected=expected, found=_no_match(text), where=subject.label)
    return passed(_lacks(subject, piece), evidence=evidence, rests_on="absence")


async def check_pattern(subject: Subject, pattern: str, *, case_sensitive: bool) -> EvaluationResult:
    """Passed when `pattern` matches somewhere in the subject; inconclusive when the search times out."""
    text = subject.text
    expected = _expected("a match for ", pattern, case_sensitive)
    try:
        span = await search(pattern, text, case_sensitive=case_sensitive)
    except TimeoutError:
        return inconclusive(
            f"searching {len(text)} characters for {quoted(pattern)} timed out after 1 second; "
            "simplify the pattern, such as by removing nested repetition",
            evidence=Evidence(expected=expected, found="timed out", where=subject.label, excerpt=excerpt(text)),
        )
    if span is None:
        return failed(
            f"{subject.label} has no match for {quoted(pattern)}" + ("; it was empty" if not text.strip() else ""),
            evidence=Evidence(expected=expected, found=_no_match(text), where=subject.label, excerpt=excerpt(text)),
        )
    message = f"{subject.label} matches {quoted(pattern)} ({subject.where(*span)})"
    # An empty match means that something is absent: `^(?!.*password)`.
    ground = "absence" if span[0] == span[1] else None
    return passed(message, evidence=_seen(subject, expected, span), rests_on=ground)


@functools.lru_cache(maxsize=512)
def _expected(what: str, piece: str, case_sensitive: bool) -> str:
    return f"{what}{quoted(piece)}, {'case-sensitive' if case_sensitive else 'ignoring case'}"


def _contains(subject: Subject, piece: str, found: Span) -> str:
    return f"{subject.label} contains {quoted(piece)} ({subject.where(*found)})"


def _lacks(subject: Subject, piece: str) -> str:
    empty = "; it was empty" if not subject.text.strip() else ""
    return f"{subject.label} does not contain {quoted(piece)}{empty}"


def _seen(subject: Subject, expected: str, span: Span) -> Evidence:
    text = subject.text
    part, offset = subject.part_at(span[0])
    return Evidence(
        expected=expected,
        found=excerpt(text[slice(*span)]),
        where=subject.where(*span),
        excerpt=excerpt(text, *span),
        span=(span[0] - offset, span[1] - offset),
        message=part.number,
    )


def _no_match(text: str) -> str:
    return "no match" if text.strip() else "empty text"
