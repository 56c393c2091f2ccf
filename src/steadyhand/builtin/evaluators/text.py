"""The safety invariants that need no judge: `regex`, `contains` and `not_contains`.

They differ in how they read a reply when the file does not say: the safe reading of each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from pydantic import Field

from steadyhand.builtin.evaluators.nonblank import Text
from steadyhand.builtin.evaluators.patterns import PatternText
from steadyhand.builtin.evaluators.text_search import Scope, subject
from steadyhand.builtin.evaluators.words import check_absent, check_contains, check_pattern
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.result import ExecutionResult
from steadyhand.text_match import find, find_forbidden, search


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


class RegexInvariant:
    type: ClassVar[str] = "regex"
    params: ClassVar[type[EvaluationParams]] = RegexInvariantParams

    async def evaluate(
        self, params: RegexInvariantParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return await check_pattern(words, params.pattern, case_sensitive=params.case_sensitive)

    def on_text(self, params: RegexInvariantParams) -> Callable[[str], Awaitable[bool]]:
        async def matches(text: str) -> bool:
            return await search(params.pattern, text, case_sensitive=params.case_sensitive) is not None

        return matches


class Contains:
    type: ClassVar[str] = "contains"
    params: ClassVar[type[EvaluationParams]] = ContainsParams

    async def evaluate(
        self, params: ContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_contains(words, params.pattern, case_sensitive=params.case_sensitive)

    def on_text(self, params: ContainsParams) -> Callable[[str], Awaitable[bool]]:
        async def contains(text: str) -> bool:
            return find(text, params.pattern, case_sensitive=params.case_sensitive) is not None

        return contains


class NotContains:
    type: ClassVar[str] = "not_contains"
    fails_for_good: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = NotContainsParams

    async def evaluate(
        self, params: NotContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_absent(words, params.pattern, case_sensitive=params.case_sensitive)

    def on_text(self, params: NotContainsParams) -> Callable[[str], Awaitable[bool]]:
        async def lacks(text: str) -> bool:
            return find_forbidden(text, params.pattern, case_sensitive=params.case_sensitive) is None

        return lacks
