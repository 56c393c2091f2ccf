"""`judge`: a safety invariant that only a judge can tell."""

from __future__ import annotations

from typing import ClassVar

from holdfast.builtin.evaluators.excerpt import excerpt
from holdfast.builtin.evaluators.llm_judge import Text
from holdfast.builtin.evaluators.no_judge import no_judge
from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult
from holdfast.records.execution import ExecutionResult


class JudgeParams(EvaluationParams):
    judge_criterion: Text


class Judge:
    type: ClassVar[str] = "judge"
    params: ClassVar[type[EvaluationParams]] = JudgeParams

    async def evaluate(
        self, params: JudgeParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        return no_judge(f"holds: {excerpt(params.judge_criterion)}")
