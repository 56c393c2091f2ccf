"""`conversation_flow`: patterns that a conversation must show."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from steadyhand.builtin.evaluators.conversation_judging import Unjudged, ask_judge, noted, says_yes
from steadyhand.builtin.evaluators.excerpt import counted
from steadyhand.builtin.evaluators.flow_rules import found_by_rules
from steadyhand.builtin.evaluators.parameters import PositiveShare
from steadyhand.judging.material import turn_materials
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.result import ConversationTurn, ExecutionResult

FlowPattern = Literal[
    "question_then_answer",
    "problem_then_solution",
    "clarification_cycle",
    "empathy_then_solution",
    "escalation_pattern",
]
_MEANING: dict[FlowPattern, str] = {
    "question_then_answer": "the agent asks a question and the user answers it",
    "problem_then_solution": "the user states a problem and the agent provides a solution to it",
    "clarification_cycle": "agent and user go through more than one exchange to clear something up",
    "empathy_then_solution": "the agent shows empathy before it provides a solution",
    "escalation_pattern": "the agent escalates, and does so because the matter calls for it",
}
_PROMPT = (
    "Which of the listed patterns does the conversation show? A pattern is achieved only if you can name the turns "
    "that show it. Judge `yes` if all of them are shown."
)


class ConversationFlowParams(EvaluationParams):
    required_patterns: list[FlowPattern] = Field(min_length=1)
    flow_quality_threshold: PositiveShare = 0.7


class ConversationFlow:
    type: ClassVar[str] = "conversation_flow"
    params: ClassVar[type[EvaluationParams]] = ConversationFlowParams

    def needs_judge(self, params: ConversationFlowParams) -> bool:
        return True

    async def evaluate(
        self, params: ConversationFlowParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """The share of the required patterns that were found is compared with the threshold, inclusive."""
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so it has no flow; give the step a `conversation`")
        wanted = list(dict.fromkeys(params.required_patterns))
        turns = result.conversation.turns
        if context.trial.judge is None:
            return _by_rules(wanted, turns, params.flow_quality_threshold)
        capabilities: dict[FlowPattern, str] = {pattern: f"{pattern}: {_MEANING[pattern]}" for pattern in wanted}
        try:
            judgement = await ask_judge(context, _PROMPT, turn_materials(turns), tuple(capabilities.values()))
        except Unjudged as unjudged:
            return unjudged.result
        found: dict[FlowPattern, str] = {
            pattern: judgement.reasoning or "the judge said so"
            for pattern, capability in capabilities.items()
            if judgement.achieved.get(capability, False)
        }
        if len(found) == len(wanted) and not says_yes(judgement):
            said = f"the judge finds every pattern and still says {judgement.judgment!r}, which contradict each other"
            return noted(inconclusive(said), judgement.note)
        return noted(_result(wanted, found, params.flow_quality_threshold, "judge"), judgement.note)


def _by_rules(wanted: list[FlowPattern], turns: tuple[ConversationTurn, ...], threshold: float) -> EvaluationResult:
    found: dict[FlowPattern, str] = {}
    for pattern in wanted:
        place = found_by_rules(pattern, turns)
        if place is not None:
            found[pattern] = place
    return _result(wanted, found, threshold, "rules")


def _result(
    wanted: list[FlowPattern], found: dict[FlowPattern, str], threshold: float, method: Literal["judge", "rules"]
) -> EvaluationResult:
    score = len(found) / len(wanted)
    missing = [pattern for pattern in wanted if pattern not in found]
    figures: dict[str, Any] = {"score": round(score, 4), "found": list(found), "missing": missing, "method": method}
    evidence = Evidence(
        expected=f"{', '.join(wanted)}; a share of at least {threshold:g}",
        found="; ".join(f"{pattern} ({place})" for pattern, place in found.items()) or "none of them",
        where="conversation",
    )
    message = f"{len(found)} of {counted(len(wanted), 'pattern')} found, expected a share of at least {threshold:g}"
    if missing:
        message += f"; missing: {', '.join(missing)}"
    if method == "rules":
        message += " (by plain rules, as there is no judge; name one for a better reading)"
    return (passed if score >= threshold else failed)(message, evidence=evidence, figures=figures)
