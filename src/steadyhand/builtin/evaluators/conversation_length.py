"""`conversation_length`: how many turns a conversation took."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from steadyhand.builtin.evaluators.excerpt import counted
from steadyhand.builtin.evaluators.parameters import Count
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.result import ExecutionResult


class ConversationLengthParams(EvaluationParams):
    min_turns: Count | None = None
    max_turns: Count | None = None
    optimal_turns: Count | None = None
    target_range: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.min_turns and self.max_turns is None and not self.target_range:
            optimal = "; optimal_turns is reported and never fails" if self.optimal_turns is not None else ""
            raise ValueError(f"needs at least one of max_turns, target_range and a min_turns above 0{optimal}")
        if self.target_range and self.target_range[0] > self.target_range[1]:
            raise ValueError(f"target_range goes from {self.target_range[0]} down to {self.target_range[1]}")
        low, high = self.bounds
        if high is not None and low > high:
            raise ValueError(f"no conversation can have at least {low} and at most {high} turns")
        return self

    @property
    def bounds(self) -> tuple[int, int | None]:
        """What `min_turns`, `max_turns` and `target_range` allow together, inclusive."""
        lows = [self.min_turns, self.target_range[0] if self.target_range else None]
        highs = [self.max_turns, self.target_range[1] if self.target_range else None]
        return (
            max((low for low in lows if low is not None), default=0),
            min((high for high in highs if high is not None), default=None),
        )


class ConversationLength:
    type: ClassVar[str] = "conversation_length"
    params: ClassVar[type[EvaluationParams]] = ConversationLengthParams

    async def evaluate(
        self, params: ConversationLengthParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """Bounds are inclusive; `optimal_turns` is reported and never fails."""
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so it has no turns; give the step a `conversation`")
        turns = len(result.conversation.turns)
        low, high = params.bounds
        if high is None:
            expected = f"at least {counted(low, 'turn')}"
        else:
            expected = f"{low} to {high} turns" if low else f"at most {counted(high, 'turn')}"
        figures: dict[str, Any] = {"turns": turns}
        note = ""
        if params.optimal_turns is not None:
            figures |= {"optimal_turns": params.optimal_turns, "off_optimal": turns - params.optimal_turns}
            note = f" (optimal {params.optimal_turns})"
        evidence = Evidence(
            expected=expected,
            found=counted(turns, "turn"),
            where="conversation",
            excerpt=f"ended by {result.conversation.termination_reason or 'no condition'}",
        )
        holds = low <= turns and (high is None or turns <= high)
        message = f"{counted(turns, 'turn')}, expected {expected}{note}"
        return (passed if holds else failed)(message, evidence=evidence, figures=figures)
