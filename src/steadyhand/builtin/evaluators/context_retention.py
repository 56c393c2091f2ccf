"""`context_retention`: the agent still knows what came up earlier in the conversation."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from steadyhand.builtin.evaluators.conversation_judging import Unjudged, ask_judge, noted, says_yes
from steadyhand.builtin.evaluators.excerpt import counted, quoted
from steadyhand.builtin.evaluators.nonblank import Text
from steadyhand.builtin.evaluators.parameters import PositiveShare
from steadyhand.engine.negation import says
from steadyhand.judging.material import turn_materials
from steadyhand.ports.agent import Judgement, Material
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.base import Record
from steadyhand.records.evaluation import EvaluationResult, Evidence, JudgeNote, failed, inconclusive, passed
from steadyhand.records.result import ConversationTurn, ExecutionResult


class ContextRetentionParams(EvaluationParams):
    test_memory_of: list[Text] = Field(min_length=1)
    retention_turns: int = Field(default=3, ge=1)
    memory_accuracy_threshold: PositiveShare = 0.8


class _Probe(Record):
    """An item, the turn it first came up in, and a later turn to look at."""

    item: str
    since: int
    turn: int


class ContextRetention:
    type: ClassVar[str] = "context_retention"
    params: ClassVar[type[EvaluationParams]] = ContextRetentionParams

    def needs_judge(self, params: ContextRetentionParams) -> bool:
        return True

    async def evaluate(
        self, params: ContextRetentionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """The share of turns in which the agent still uses an item correctly, over all items, against the threshold."""
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so nothing had to be kept; give it a `conversation`")
        turns = result.conversation.turns
        probes: list[_Probe] = []
        for item in dict.fromkeys(params.test_memory_of):
            found = _probes(item, turns, params.retention_turns)
            if isinstance(found, str):
                return inconclusive(found, evidence=Evidence(expected=item, found=found, where="conversation"))
            probes += found
        answers: list[tuple[_Probe, Judgement]] = []
        for probe in probes:
            try:
                answers.append((probe, await _ask(probe, turns, context)))
            except Unjudged as unjudged:
                return unjudged.result
        return _result(answers, params.memory_accuracy_threshold)


def _probes(item: str, turns: tuple[ConversationTurn, ...], retention_turns: int) -> list[_Probe] | str:
    """The turns to look at, or why there are none."""
    since = next((turn for turn in turns if says(turn.user_input, item) or says(turn.agent_response, item)), None)
    if since is None:
        return f"{quoted(item)} never came up in {counted(len(turns), 'turn')}, so there was nothing to remember"
    first = since.turn_number
    later = [turn.turn_number for turn in turns if first < turn.turn_number <= first + retention_turns]
    if not later:
        return f"{quoted(item)} came up in turn {first}, the last one, so it was not put to the test"
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


def _result(answers: list[tuple[_Probe, Judgement]], threshold: float) -> EvaluationResult:
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
    return noted(result, _note(lost, answers))


def _note(lost: list[tuple[_Probe, Judgement]], answers: list[tuple[_Probe, Judgement]]) -> JudgeNote:
    """The word that decided: the first turn that was lost, else the last one asked about."""
    return (lost[0] if lost else answers[-1])[1].note
