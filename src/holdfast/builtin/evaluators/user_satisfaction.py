"""`user_satisfaction`: how content the user is at the end of a conversation."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from holdfast.builtin.evaluators.bounds import Share
from holdfast.builtin.evaluators.no_judge import no_judge
from holdfast.builtin.evaluators.text import Text
from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult, inconclusive
from holdfast.records.execution import ExecutionResult


class SatisfactionIndicators(EvaluationParams):
    """Words and phrases that count for and against."""

    positive: list[Text] = Field(default_factory=list)
    negative: list[Text] = Field(default_factory=list)


class UserSatisfactionParams(EvaluationParams):
    satisfaction_threshold: Share = 0.7
    indicators: SatisfactionIndicators | None = None
    measurement_method: Literal["keyword_analysis", "sentiment_analysis", "llm_judge"] = "llm_judge"


class UserSatisfaction:
    type: ClassVar[str] = "user_satisfaction"
    params: ClassVar[type[EvaluationParams]] = UserSatisfactionParams

    async def evaluate(
        self, params: UserSatisfactionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so no user was there; give the step a `conversation`")
        return no_judge(f"satisfaction of at least {params.satisfaction_threshold:g}")
