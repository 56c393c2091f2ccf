"""`user_satisfaction`: how satisfied the user is at the end of a conversation, by keywords or by a judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from steadyhand.builtin.evaluators.judge import Unjudged, ask_judge, noted
from steadyhand.builtin.evaluators.text import PositiveShare, Text, quoted
from steadyhand.judging.material import turn_materials
from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.keywords import keyword_readings
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
    """Counts from turn 2 on: the opening is the author's, not the user's reaction.

    What cannot be told is counted both ways; if that changes the verdict, there is none.
    """
    indicators = params.indicators or SatisfactionIndicators()
    spoken = [(turn.turn_number, turn.user_input) for turn in turns if turn.turn_number > 1]
    found = hits(spoken, indicators.positive or POSITIVE, indicators.negative or NEGATIVE)
    positive = sum(hit.positive is True for hit in found)
    negative = sum(hit.positive is False for hit in found)
    unclear = [hit for hit in found if hit.positive is None]
    counted = positive + negative
    expected = f"a share of at least {params.satisfaction_threshold:g}"
    listed = "; ".join(f"{_SIGNS[hit.positive]} {hit.text!r} (turn {hit.turn})" for hit in found)
    evidence = Evidence(expected=expected, found=listed or "no indicator", where="the user's messages from turn 2 on")
    figures = {"positive": positive, "negative": negative, "unclear": len(unclear), "method": "keyword_analysis"}
    praise = sum(hit.sign for hit in unclear)
    highest = _share(positive + praise, counted + praise)
    lowest = _share(positive, counted + len(unclear))
    if highest is None:
        said = "the user used none of the words that show satisfaction"
        return inconclusive(f"{said}; use another measurement_method", evidence=evidence, figures=figures)
    reached = [share is not None and share >= params.satisfaction_threshold for share in (lowest, highest)]
    if unclear and (reached[0] != reached[1] or not counted):
        return inconclusive(_doubt(unclear[0]), evidence=evidence, figures=figures)
    score = positive / counted
    return (passed if reached[0] else failed)(
        f"{positive} of {counted} indicators are positive ({score:.2f}), expected {expected}",
        evidence=evidence,
        figures={"score": round(score, 4), **figures},
    )


def _share(positive: int, counted: int) -> float | None:
    return positive / counted if counted else None


def _doubt(hit: Hit) -> str:
    return (
        f"whether {hit.text!r} in turn {hit.turn} shows satisfaction cannot be told by rules: "
        f"{quoted(hit.reading.clause)}, {hit.reading.why}; "
        "set measurement_method to llm_judge and name a judge with `--judge provider/model`"
    )


class Hit(Record):
    """A word that was said. `sign` is whether it is one for satisfaction; `positive` is what it counts for as it was
    said, None if that cannot be told."""

    turn: int
    text: str
    sign: bool
    positive: bool | None
    reading: Ruling


def hits(spoken: Iterable[tuple[int, str]], positive: Sequence[str], negative: Sequence[str]) -> list[Hit]:
    """What the user's messages, given as turn and text, say for and against.

    A word counts once, under the longest phrase it is part of. "not helpful" counts against; "not frustrated" counts
    for nothing.
    """
    against = set(negative)
    found: list[Hit] = []
    for turn, message in spoken:
        for said in keyword_readings(message, positive, contrary=negative):
            sign, answer = said.keyword not in against, said.reading.answer
            if answer is Certainty.NO and not sign:
                continue
            text = f"not {said.keyword}" if answer is Certainty.NO else said.keyword
            counts = None if answer is Certainty.CANNOT_TELL else sign and answer is Certainty.YES
            found.append(Hit(turn=turn, text=text, sign=sign, positive=counts, reading=said.reading))
    return found


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
    sections = [
        f" Signs {kind} it: {', '.join(words)}."
        for kind, words in (("of", indicators.positive), ("against", indicators.negative))
        if words
    ]
    return "".join(sections)
