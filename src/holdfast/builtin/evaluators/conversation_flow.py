"""`conversation_flow`: patterns that a conversation must show."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from holdfast.builtin.evaluators.bounds import Share
from holdfast.builtin.evaluators.no_judge import no_judge
from holdfast.ports.evaluator import EvaluationContext, EvaluationParams
from holdfast.records.evaluation import EvaluationResult, inconclusive
from holdfast.records.execution import ExecutionResult

FlowPattern = Literal[
    "question_then_answer",
    "problem_then_solution",
    "clarification_cycle",
    "empathy_then_solution",
    "escalation_pattern",
]


class ConversationFlowParams(EvaluationParams):
    required_patterns: list[FlowPattern] = Field(min_length=1)
    flow_quality_threshold: Share = 0.7


class ConversationFlow:
    type: ClassVar[str] = "conversation_flow"
    params: ClassVar[type[EvaluationParams]] = ConversationFlowParams

    async def evaluate(
        self, params: ConversationFlowParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so it has no flow; give the step a `conversation`")
        return no_judge(f"shows {', '.join(params.required_patterns)}")
