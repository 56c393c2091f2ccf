"""Checks on a whole conversation: `conversation_length`, `conversation_flow` and `context_retention`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from steadyhand.builtin.evaluators.flow_rules import RULES, FlowPattern, Shown
from steadyhand.builtin.evaluators.judge import SET_A_JUDGE, Unjudged, ask_judge, noted, says_yes
from steadyhand.builtin.evaluators.text import CountFromZero, PositiveShare, Text, quoted
from steadyhand.judging.material import turn_materials
from steadyhand.language.answer import Certainty
from steadyhand.language.keywords import mentions
from steadyhand.ports.agent import Judgement, Material
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import EvaluationResult, Evidence, JudgeNote, Verdict, failed, inconclusive, passed
from steadyhand.records.result import ConversationTurn, ExecutionResult
from steadyhand.text_match import shows_nothing


class ConversationLengthParams(EvaluationParams):
    min_turns: CountFromZero | None = Field(default=None, description="Fewest turns")
    max_turns: CountFromZero | None = Field(default=None, description="Most turns")
    optimal_turns: CountFromZero | None = Field(
        default=None, description="Target number of turns; reported only, never a failure"
    )
    target_range: Annotated[list[CountFromZero], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="Minimum and maximum number of turns, as [min, max]"
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.min_turns and self.max_turns is None and not self.target_range:
            optimal = "; optimal_turns is only reported" if self.optimal_turns is not None else ""
            raise ValueError(f"set max_turns, target_range or a min_turns above 0{optimal}")
        if self.target_range and self.target_range[0] > self.target_range[1]:
            raise ValueError(f"target_range starts at {self.target_range[0]}, above its end {self.target_range[1]}")
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


class ConversationFlowParams(EvaluationParams):
    required_patterns: list[FlowPattern] = Field(min_length=1, description="What the conversation must show")
    flow_quality_threshold: PositiveShare = Field(default=0.7, description="Share of the patterns that must be present")


class ConversationFlow:
    type: ClassVar[str] = "conversation_flow"
    params: ClassVar[type[EvaluationParams]] = ConversationFlowParams

    def reads_text(self, params: ConversationFlowParams) -> Spoken:
        return "agent"

    def needs_judge(self, params: ConversationFlowParams) -> bool:
        return True

    async def evaluate(
        self, params: ConversationFlowParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """Passes when the share of required patterns found reaches the threshold."""
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so it has no flow; give the step a `conversation`")
        wanted = list(dict.fromkeys(params.required_patterns))
        turns = result.conversation.turns
        if context.trial.judge is None:
            return _flow_by_rules(wanted, turns, params.flow_quality_threshold)
        capabilities: dict[FlowPattern, str] = {pattern: f"{pattern}: {_MEANING[pattern]}" for pattern in wanted}
        try:
            judgement = await ask_judge(context, _FLOW_PROMPT, turn_materials(turns), tuple(capabilities.values()))
        except Unjudged as unjudged:
            return unjudged.result
        found: dict[FlowPattern, str] = {
            pattern: judgement.reasoning or "the judge said so"
            for pattern, capability in capabilities.items()
            if judgement.achieved.get(capability, False)
        }
        if len(found) == len(wanted) and not says_yes(judgement):
            said = f"the judge contradicts itself: it found every pattern and answered {judgement.judgment!r}"
            return noted(inconclusive(said), judgement.note)
        return noted(_flow_result(wanted, found, params.flow_quality_threshold, "judge"), judgement.note)


_MEANING: dict[FlowPattern, str] = {
    "question_then_answer": "the agent asks a question and the user answers it",
    "problem_then_solution": "the user states a problem and the agent provides a solution to it",
    "clarification_cycle": "agent and user go through more than one exchange to clear something up",
    "empathy_then_solution": "the agent shows empathy before it provides a solution",
    "escalation_pattern": "the agent escalates, and does so because the matter calls for it",
}
_FLOW_PROMPT = (
    "Which of the listed patterns does the conversation show? A pattern is achieved only if you can name the turns "
    "that show it. Judge `yes` if all of them are shown."
)


def _flow_by_rules(
    wanted: list[FlowPattern], turns: tuple[ConversationTurn, ...], threshold: float
) -> EvaluationResult:
    """Decided only if what cannot be told would not change the verdict."""
    shown: dict[FlowPattern, Shown] = {pattern: RULES[pattern](turns) for pattern in wanted}
    found: dict[FlowPattern, str] = {
        pattern: each.where for pattern, each in shown.items() if each.answer is Certainty.YES
    }
    result = _flow_result(wanted, found, threshold, "rules")
    unclear = {pattern: each for pattern, each in shown.items() if each.answer is Certainty.CANNOT_TELL}
    if result.verdict is Verdict.PASSED or (len(found) + len(unclear)) / len(wanted) < threshold:
        return result
    pattern, doubt = next(iter(unclear.items()))
    why = "" if doubt.reading is None else f": {quoted(doubt.reading.clause)}: {doubt.reading.why}"
    figures = {**result.figures, "unclear": list(unclear)}
    message = f"whether {pattern} is shown in {doubt.where} cannot be told by rules{why}; {SET_A_JUDGE}"
    return inconclusive(message, evidence=result.evidence, figures=figures)


def _flow_result(
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
        message += " (by simple rules, as no judge is set; a judge is more accurate)"
    return (passed if score >= threshold else failed)(message, evidence=evidence, figures=figures)


class ContextRetentionParams(EvaluationParams):
    test_memory_of: list[Text] = Field(min_length=1, description="What the agent must remember")
    retention_turns: int = Field(default=3, ge=1, description="Number of turns for which it must be remembered")
    memory_accuracy_threshold: PositiveShare = Field(
        default=0.8, description="Share of the questions to the judge that must be answered yes"
    )


class ContextRetention:
    type: ClassVar[str] = "context_retention"
    params: ClassVar[type[EvaluationParams]] = ContextRetentionParams

    def reads_text(self, params: ContextRetentionParams) -> Spoken:
        return "agent"

    def needs_judge(self, params: ContextRetentionParams) -> bool:
        return True

    async def evaluate(
        self, params: ContextRetentionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """Passes when the share of turns in which the agent still uses the items correctly reaches the threshold."""
        if result.conversation is None:
            return inconclusive(
                "this step is not a conversation, so there is nothing to retain; give it a `conversation`"
            )
        turns = result.conversation.turns
        probes: list[_Probe] = []
        for item in dict.fromkeys(params.test_memory_of):
            found = _probes(item, turns, params.retention_turns)
            if isinstance(found, str):
                return inconclusive(found, evidence=Evidence(expected=item, found=found, where="conversation"))
            probes += found
        answers: list[tuple[_Probe, Judgement]] = []
        silent = {turn.turn_number for turn in turns if shows_nothing(turn.agent_response)}
        for probe in probes:
            try:
                answers.append((probe, _SILENT if probe.turn in silent else await _ask(probe, turns, context)))
            except Unjudged as unjudged:
                return unjudged.result
        return _retention_result(answers, params.memory_accuracy_threshold)


_SILENT = Judgement(judgment="no", reasoning="the agent said nothing", note=JudgeNote(model="", prompt_hash="", raw=""))


class _Probe(Record):
    """An item, the turn it first came up in, and a later turn to ask about."""

    item: str
    since: int
    turn: int


def _probes(item: str, turns: tuple[ConversationTurn, ...], retention_turns: int) -> list[_Probe] | str:
    """The turns to ask about, or why there are none."""
    since = next(
        (turn for turn in turns if mentions(turn.user_input, item) or mentions(turn.agent_response, item)), None
    )
    if since is None:
        return f"{quoted(item)} never came up in {counted(len(turns), 'turn')}, so there was nothing to remember"
    first = since.turn_number
    later = [turn.turn_number for turn in turns if first < turn.turn_number <= first + retention_turns]
    if not later:
        return f"{quoted(item)} came up in turn {first}, the last one, so it was not tested"
    return [_Probe(item=item, since=first, turn=turn) for turn in later]


async def _ask(probe: _Probe, turns: tuple[ConversationTurn, ...], context: EvaluationContext) -> Judgement:
    prompt = (
        f"In turn {probe.since} of this conversation this came up: {probe.item!r}. Look at the agent's message of turn "
        f"{probe.turn}. Does the agent still hold it correctly in mind there? `no` if the message contradicts it, gets "
        "it wrong, asks for it again although it was said, or leaves it out where the answer depends on it. `yes` if "
        "it uses it correctly, or if nothing in this turn depended on it and nothing contradicts it."
    )
    shown = [turn for turn in turns if turn.turn_number <= probe.turn]
    latest = Material(title=f"the agent's message of turn {probe.turn}", text=shown[-1].agent_response)
    return await ask_judge(context, prompt, [*turn_materials(shown), latest])


def _retention_result(answers: list[tuple[_Probe, Judgement]], threshold: float) -> EvaluationResult:
    kept = [says_yes(judgement) for _, judgement in answers]
    accuracy = sum(kept) / len(kept)
    asked: list[dict[str, Any]] = [
        {"item": probe.item, "since_turn": probe.since, "turn": probe.turn, "kept": yes}
        for (probe, _), yes in zip(answers, kept, strict=True)
    ]
    lost = [entry for entry, yes in zip(answers, kept, strict=True) if not yes]
    expected = f"an accuracy of at least {threshold:g}"
    listed = "; ".join(f"{quoted(probe.item)} in turn {probe.turn}: {word.reasoning}" for probe, word in lost)
    result = (passed if accuracy >= threshold else failed)(
        f"kept in {sum(kept)} of {counted(len(kept), 'turn')} ({accuracy:.2f}), expected {expected}"
        + (f"; lost: {listed}" if lost else ""),
        evidence=Evidence(expected=expected, found=listed or "all kept", where="conversation"),
        figures={"accuracy": round(accuracy, 4), "asked": asked},
    )
    note = _note(lost, answers)
    return result if note is _SILENT.note else noted(result, note)


def _note(lost: list[tuple[_Probe, Judgement]], answers: list[tuple[_Probe, Judgement]]) -> JudgeNote:
    """The judgement that decided: the first that found it lost, else the last."""
    asked = [answer for answer in lost if answer[1] is not _SILENT]
    return (asked or lost or answers[-1:])[0][1].note
