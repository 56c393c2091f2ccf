"""`regex_match`: a regular expression matches somewhere in the agent's words."""

from __future__ import annotations

from typing import ClassVar

from steadyhand.builtin.evaluators.patterns import PatternText
from steadyhand.builtin.evaluators.text_search import Scope, subject
from steadyhand.builtin.evaluators.words import check_pattern
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.result import ExecutionResult


class RegexMatchParams(EvaluationParams):
    pattern: PatternText
    case_sensitive: bool = False
    scope: Scope = "reply"


class RegexMatch:
    type: ClassVar[str] = "regex_match"
    params: ClassVar[type[EvaluationParams]] = RegexMatchParams

    async def evaluate(
        self, params: RegexMatchParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return await check_pattern(words, params.pattern, case_sensitive=params.case_sensitive)
