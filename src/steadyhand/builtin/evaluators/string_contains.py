"""`string_contains`: the agent's words contain a piece of text."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from steadyhand.builtin.evaluators.nonblank import Text
from steadyhand.builtin.evaluators.text_search import Scope, subject
from steadyhand.builtin.evaluators.words import check_contains
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.result import ExecutionResult


class StringContainsParams(EvaluationParams):
    value: Text = Field(min_length=1)
    case_sensitive: bool = False
    scope: Scope = "reply"


class StringContains:
    type: ClassVar[str] = "string_contains"
    params: ClassVar[type[EvaluationParams]] = StringContainsParams

    async def evaluate(
        self, params: StringContainsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        words = subject(result, params.scope, context)
        return check_contains(words, params.value, case_sensitive=params.case_sensitive)
