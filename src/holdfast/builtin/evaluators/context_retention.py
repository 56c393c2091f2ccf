"""`context_retention`: the agent still knows what came up earlier in the conversation."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from holdfast.builtin.evaluators.bounds import Share
from holdfast.builtin.evaluators.no_judge import no_judge
from holdfast.builtin.evaluators.text import Text
from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult, inconclusive
from holdfast.records.execution import ExecutionResult


class ContextRetentionParams(EvaluationParams):
    test_memory_of: list[Text] = Field(min_length=1)
    retention_turns: int = Field(default=3, ge=1)
    memory_accuracy_threshold: Share = 0.8


class ContextRetention:
    type: ClassVar[str] = "context_retention"
    params: ClassVar[type[EvaluationParams]] = ContextRetentionParams

    async def evaluate(
        self, params: ContextRetentionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so nothing had to be kept; give it a `conversation`")
        return no_judge(f"remembers {', '.join(params.test_memory_of)} for {params.retention_turns} turns")
