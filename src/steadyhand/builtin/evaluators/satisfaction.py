"""`user_satisfaction`: how satisfied the user is at the end of a conversation, by keywords or by a judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from steadyhand.builtin.evaluators.judge import Unjudged, ask_judge, noted
from steadyhand.builtin.evaluators.text import PositiveShare, Text
from steadyhand.engine.negation import Reading, is_negated, normal, places, reading
from steadyhand.judging.material import turn_materials
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken
from steadyhand.records.base import Record
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.result import ConversationTurn, ExecutionResult

POSITIVE = (
    "thank you", "thanks", "great", "perfect", "excellent", "wonderful", "awesome", "fantastic", "amazing", "helpful",
    "resolved", "solved", "fixed", "satisfied", "happy", "pleased", "glad", "appreciate", "works now", "that works",
    "that helps", "problem solved", "good job", "well done",
)  # fmt: skip
NEGATIVE = (
    "frustrated", "frustrating", "annoyed", "annoying", "angry", "upset", "disappointed", "disappointing", "useless",
    "unhelpful", "terrible", "awful", "horrible", "ridiculous", "unacceptable", "worse", "worst", "wrong", "unresolved",
    "unsatisfied", "dissatisfied", "unhappy", "confused", "confusing", "waste of time", "thanks for nothing",
    "still broken", "give up", "fed up", "complaint",
)  # fmt: skip
_PROMPTS = {
    "sentiment_analysis": (
        "Follow the user's sentiment through the conversation, from the first message to the last, and judge by where "
        "it ends and how it moved: does the user end up satisfied?"
    ),
    "llm_judge": (
        "Is the user satisfied at the end of this conversation? Consider whether the user got what was wanted, how "
        "much effort it took, and how the user speaks."
    ),
}
_SCALE = (
    " Read the user's messages; the agent's own claim that all is well counts for nothing. Your confidence is how sure "
    "you are that the user is satisfied, whichever word you answer with: 0 is certainly not satisfied, 1 is certainly "
    "satisfied."
)
_MOST_PLACES = 200
_SIGNS = {True: "+", False: "-", None: "?"}


class SatisfactionIndicators(EvaluationParams):
    """Words and phrases that count for and against. An omitted list keeps its default."""

    positive: list[Text] | None = Field(
        default=None, min_length=1, description="Words and phrases that count for satisfaction"
    )
    negative: list[Text] | None = Field(
        default=None, min_length=1, description="Words and phrases that count against it"
    )


class UserSatisfactionParams(EvaluationParams):
    satisfaction_threshold: PositiveShare = Field(default=0.7, description="Minimum satisfaction, 0 to 1")
    indicators: SatisfactionIndicators | None = Field(
        default=None, description="Words and phrases to count, for keyword_analysis"
    )
    measurement_method: Literal["keyword_analysis", "sentiment_analysis", "llm_judge"] = Field(
        default="llm_judge", description="How satisfaction is measured"
    )


class UserSatisfaction:
    type: ClassVar[str] = "user_satisfaction"
    params: ClassVar[type[EvaluationParams]] = UserSatisfactionParams

    def reads_text(self, params: UserSatisfactionParams) -> Spoken:
        return "agent"

    def needs_judge(self, params: UserSatisfactionParams) -> bool:
        return params.measurement_method != "keyword_analysis"

    async def evaluate(
        self, params: UserSatisfactionParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so there is no user; give the step a `conversation`")
        turns = result.conversation.turns
        if params.measurement_method == "keyword_analysis":
            return _by_words(params, turns)
        return await _by_judge(params, turns, context)


def _by_words(params: UserSatisfactionParams, turns: tuple[ConversationTurn, ...]) -> EvaluationResult:
    """Counts from turn 2 on: the opening is the author's, not the user's reaction."""
    indicators = params.indicators or SatisfactionIndicators()
    spoken = [(turn.turn_number, turn.user_input) for turn in turns if turn.turn_number > 1]
    found = hits(spoken, indicators.positive or POSITIVE, indicators.negative or NEGATIVE)
    positive = sum(hit.positive is True for hit in found)
    counted = sum(hit.positive is not None for hit in found)
    listed = "; ".join(f"{_SIGNS[hit.positive]} {hit.text!r} (turn {hit.turn})" for hit in found)
    figures = {"positive": positive, "negative": counted - positive, "method": "keyword_analysis"}
    expected = f"a share of at least {params.satisfaction_threshold:g}"
    if not counted:
        said = (
            "said nothing that clearly shows satisfaction" if found else "used none of the words that show satisfaction"
        )
        return inconclusive(
            f"the user {said}; use another measurement_method",
            evidence=Evidence(
                expected=expected, found=listed or "no indicator", where="the user's messages from turn 2 on"
            ),
            figures=figures,
        )
    score = positive / counted
    return (passed if score >= params.satisfaction_threshold else failed)(
        f"{positive} of {counted} indicators are positive ({score:.2f}), expected {expected}",
        evidence=Evidence(expected=expected, found=listed, where="the user's messages from turn 2 on"),
        figures={"score": round(score, 4), **figures},
    )


class Hit(Record):
    """A word that was said. `positive` takes negation into account; None counts for neither side."""

    turn: int
    text: str
    positive: bool | None


def hits(spoken: Iterable[tuple[int, str]], positive: Sequence[str], negative: Sequence[str]) -> list[Hit]:
    """What counts in the user's messages, given as turn and text.

    A word counts once, under the longest phrase it is part of. "not helpful" counts against; "not frustrated" counts
    for neither side, nor does a positive word in a clause whose sense is unclear.
    """
    found: list[Hit] = []
    wanted = sorted({(phrase, True) for phrase in positive} | {(phrase, False) for phrase in negative})
    wanted.sort(key=lambda each: -len(each[0]))
    for turn, message in spoken:
        text = normal(message)
        taken: list[tuple[int, int]] = []
        for phrase, is_positive in wanted:
            for start, end in places(text, phrase)[:_MOST_PLACES]:
                if any(start < other_end and other_start < end for other_start, other_end in taken):
                    continue
                taken.append((start, end))
                read = reading(text, start, end)
                negated = read is Reading.NEGATED or (not is_positive and is_negated(text, start))
                shown = f"not {text[start:end]}" if negated else text[start:end]
                found.append(Hit(turn=turn, text=shown, positive=_counts_for(read, is_positive, negated)))
    return found


def _counts_for(read: Reading, is_positive: bool, negated: bool) -> bool | None:
    if not is_positive:
        return None if negated else False
    return read is Reading.MEANT if negated or read is Reading.MEANT else None


async def _by_judge(
    params: UserSatisfactionParams, turns: tuple[ConversationTurn, ...], context: EvaluationContext
) -> EvaluationResult:
    """The score is the judge's confidence that the user is satisfied, whichever word it answers with."""
    prompt = _PROMPTS[params.measurement_method] + _SCALE + _signs(params.indicators)
    try:
        judgement = await ask_judge(context, prompt, turn_materials(turns))
    except Unjudged as unjudged:
        return unjudged.result
    answer, confidence = judgement.judgment.strip().casefold(), judgement.confidence
    if confidence is None or answer not in ("yes", "no"):
        said = f"the judge answered {judgement.judgment!r} with confidence {confidence}, which is not a score"
        return noted(inconclusive(said), judgement.note)
    expected = f"at least {params.satisfaction_threshold:g}"
    evidence = Evidence(expected=expected, found=f"{answer} with confidence {confidence:g}", where="conversation")
    reached = confidence >= params.satisfaction_threshold
    if reached and answer == "no" and confidence > 0.5:
        # It may be sure of "satisfied" or sure of its "no", and taking the wrong one would be a wrong pass.
        said = f"the judge contradicts itself: it answered 'no' and is {confidence:g} sure that the user is satisfied"
        return noted(inconclusive(said, evidence=evidence), judgement.note)
    result = (passed if reached else failed)(
        f"satisfaction {confidence:.2f}, expected {expected}: {judgement.reasoning}",
        evidence=evidence,
        figures={"score": round(confidence, 4), "method": params.measurement_method},
    )
    return noted(result, judgement.note)


def _signs(indicators: SatisfactionIndicators | None) -> str:
    if indicators is None:
        return ""
    told = [
        f" Signs {kind} it: {', '.join(words)}."
        for kind, words in (("of", indicators.positive), ("against", indicators.negative))
        if words
    ]
    return "".join(told)
