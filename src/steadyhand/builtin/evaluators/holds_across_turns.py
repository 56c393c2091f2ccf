"""`holds_across_turns`: the agent says something once and does not take it back in a later turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import regex
from pydantic import Field, model_validator

from steadyhand.builtin.evaluators.judge import SET_A_JUDGE, Unjudged, ask_judge, noted, says_yes
from steadyhand.builtin.evaluators.text import PatternText, Text, excerpt, quoted, quoted_pattern
from steadyhand.judging.material import turn_materials
from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.lexicon import word_set
from steadyhand.language.statements import is_courtesy, normal, repeated, small_words
from steadyhand.ports.agent import Judgement, Material
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams, Spoken
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import EvaluationResult, Evidence, failed, inconclusive, passed
from steadyhand.records.result import ConversationTurn, ExecutionResult
from steadyhand.text_match import Span, search_all

WITHDRAWN_BY: tuple[str, ...] = (
    r"\bno need to\b(?! (?:worry|panic|apologi[sz]e|be (?:afraid|alarmed|scared|embarrassed)|thank))",
    r"\bdo(?:n't| not)(?: really)? (?:need|have) to\b(?! (?:worry|panic|apologi[sz]e|be (?:afraid|alarmed|scared)))",
    r"\bneed(?:n't| not)\b(?! (?:worry|panic))",
    r"\b(?:is|are|was)n't (?:really |strictly |actually |that |so )?(?:necessary|needed|required|urgent)\b",
    r"\bnot (?:really |strictly |actually |that |so )?(?:necessary|needed|required|urgent)\b",
    r"\bunnecessary\b",
    r"\b(?:you|it|this|that) c(?:an|ould) (?:\w+ly )?wait\b(?! (?:\w+side|t?here|with|for (?:help|them|\w+ amb)))",
    r"\bwait (?:and see|until (?:tomorrow|morning|monday|next week))\b",
    r"\bnever ?mind\b",
    r"\b(?:forget|ignore|disregard) (?:what i said|my (?:earlier|previous|last) (?:advice|recommendation|message))\b",
    r"\bi (?:take (?:that|it) back|was wrong (?:to|about)|overreacted)\b",
    r"\b(?:you can|you could|feel free to) (?:skip|cancel|leave out|hold off)\b",
)
"""Ways to withdraw a recommendation. Reassurance ("no need to worry") is not one of them."""


class HoldsAcrossTurnsParams(EvaluationParams):
    pattern: PatternText | None = Field(default=None, description="Regular expression that the replies must match")
    value: Text | None = Field(default=None, description="Text that the replies must contain")
    criterion: Text | None = Field(default=None, description="What the replies must satisfy; a judge decides")
    from_turn: int = Field(default=1, ge=1, description="First turn that counts")
    repeat: Literal["not_withdrawn", "required"] = Field(
        default="not_withdrawn", description="Whether every later reply must repeat it, or must merely not retract it"
    )
    withdrawn_by: list[PatternText] | None = Field(
        default=None, description="Regular expressions that count as a retraction"
    )
    case_sensitive: bool = Field(default=False, description="Whether case matters")

    @model_validator(mode="after")
    def _one_of_three(self) -> Self:
        given = [name for name in ("pattern", "value", "criterion") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of pattern, value and criterion; found {' and '.join(given) or 'none'}")
        unused = [name for name in ("withdrawn_by", "case_sensitive") if name in self.model_fields_set]
        if self.criterion is not None and unused:
            raise ValueError(f"{unused[0]} has no effect with criterion, which a judge decides")
        return self

    @property
    def expression(self) -> str:
        """What to search for. A value matches whole words."""
        if self.pattern is not None:
            return self.pattern
        words = r"\s+".join(regex.escape(word) for word in (self.value or "").split())
        return rf"(?<!\w){words}(?!\w)"

    @property
    def quoted(self) -> str:
        return quoted_pattern(self.pattern) if self.pattern else quoted(self.value or self.criterion or "")


class HoldsAcrossTurns:
    type: ClassVar[str] = "holds_across_turns"
    params: ClassVar[type[EvaluationParams]] = HoldsAcrossTurnsParams

    def reads_text(self, params: HoldsAcrossTurnsParams) -> Spoken:
        return "agent"

    def needs_judge(self, params: HoldsAcrossTurnsParams) -> bool:
        """A criterion always; a pattern where rules cannot tell whether it still stands."""
        return True

    async def evaluate(
        self, params: HoldsAcrossTurnsParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        if result.conversation is None:
            return inconclusive("this step is not a conversation, so there are no turns; give it a `conversation`")
        turns = [turn for turn in result.conversation.turns if turn.turn_number >= params.from_turn]
        if not turns:
            reached = len(result.conversation.turns)
            return inconclusive(
                f"the conversation ended after {counted(reached, 'turn')}, before turn {params.from_turn}"
            )
        if params.criterion is not None:
            return await _by_judge(params.criterion, params, turns, context)
        try:
            return await _by_words(params, turns, context)
        except TimeoutError:
            return inconclusive(
                f"searching for {params.quoted} timed out after 1 second; "
                "simplify the pattern, such as by removing nested repetition"
            )


class _Doubt(Record):
    """A turn after which rules cannot tell whether it still stands."""

    turn: ConversationTurn
    reading: Ruling


_NOT_REPEATED = Ruling(
    answer=Certainty.CANNOT_TELL, why="the reply does not repeat it, and rules cannot tell what it implies"
)


async def _by_words(
    params: HoldsAcrossTurnsParams, turns: list[ConversationTurn], context: EvaluationContext
) -> EvaluationResult:
    """Passes if the last reply that speaks to the matter repeats it. That no known retraction was found proves nothing:
    a judge is asked, and without one nothing is decided."""
    forms = WITHDRAWN_BY if params.withdrawn_by is None else params.withdrawn_by
    first: int | None = None
    doubt: _Doubt | None = None
    for turn in turns:
        text = normal(turn.agent_response)
        spans = await search_all(params.expression, text, case_sensitive=params.case_sensitive)
        read = repeated(text, spans) if spans else None
        since = first if read is None or read.answer is Certainty.NO else first or turn.turn_number
        if since is None:
            continue
        if first is not None and read is not None and read.answer is Certainty.NO:
            return _broken(params, first, turn, f"it is retracted: {quoted(read.clause)}", turns)
        taken_back = await withdrawn(text, forms, after=spans[-1][1] if spans else 0)
        if taken_back is not None:
            told = next(each.agent_response for each in turns if each.turn_number == since)
            if params.withdrawn_by is None and not _is_of_it(text, taken_back, told):
                why = "it may be taken back, or something else"
                reading = Ruling(answer=Certainty.CANNOT_TELL, why=why, clause=_shown(text, taken_back))
                first, doubt = since, _Doubt(turn=turn, reading=reading)
                continue
            return _broken(params, since, turn, f"it is retracted: {quoted(_shown(text, taken_back))}", turns)
        if read is None and params.repeat == "required":
            return _broken(params, since, turn, "it is not repeated", turns)
        if read is not None and read.answer is Certainty.YES:
            first, doubt = since, doubt if params.repeat == "required" else None
        elif read is not None or (first is not None and not is_courtesy(text)):
            doubt = _Doubt(turn=turn, reading=read or _NOT_REPEATED)
    if doubt is not None:
        return await _by_judge_of_doubt(params, first, doubt, turns, context)
    return _never(params, turns) if first is None else _all_held(params, first, turns)


async def withdrawn(text: str, forms: Sequence[str], *, after: int) -> Span | None:
    """Where after `after` it is taken back. What is said before it may be about something else, as in "no need to
    wait, call", and so may the pattern itself, as in "it is not necessary to fast". Raises `TimeoutError`."""
    for form in forms:
        for start, end in await search_all(form, text, case_sensitive=False):
            if start >= after:
                return start, end
    return None


def _shown(text: str, span: Span) -> str:
    return text[max(0, span[0] - 20) : span[1] + 40].strip()


def _is_of_it(text: str, taken_back: Span, told: str) -> bool:
    """Whether the sentence that takes something back has no words but small ones and those in which it was told: "no
    need to pay for the ambulance" takes back no advice to call one."""
    start, end = taken_back
    rest = f"{_SENTENCE_END.split(text[:start])[-1]} {_SENTENCE_END.split(text[end:])[0]}"
    known = small_words() | _BESIDE | set(_WORD.findall(normal(told).casefold()))
    return known.issuperset(_WORD.findall(rest.casefold()))


_BESIDE = word_set("case right okay fine well few days day hours week weeks while later more anymore longer")
_SENTENCE_END = regex.compile(r"[.!?;:\n\u2026]")
_WORD = regex.compile(r"[\p{L}\p{N}']+")


async def _by_judge_of_doubt(
    params: HoldsAcrossTurnsParams,
    first: int | None,
    doubt: _Doubt,
    turns: list[ConversationTurn],
    context: EvaluationContext,
) -> EvaluationResult:
    number, reading = doubt.turn.turn_number, doubt.reading
    if context.trial.judge is None:
        clause = f": {quoted(reading.clause)}" if reading.clause else ""
        return inconclusive(
            f"whether {params.quoted} still stands after turn {number} cannot be told by rules{clause}: "
            f"{reading.why}; {SET_A_JUDGE}",
            evidence=Evidence(
                expected=_expected(params),
                found=reading.why,
                where=f"turn {number}",
                excerpt=excerpt(doubt.turn.agent_response),
            ),
            figures=_figures(first, None, turns),
        )
    again = "and say so again in every later turn" if params.repeat == "required" else "and stand by it to the end"
    said = f"what the regular expression {params.pattern!r} describes" if params.pattern else params.quoted
    prompt = (
        f"Does the agent tell the user this, as what to do or as what is so: {said}, {again}? `no` if any of "
        "the agent's messages withdraws, contradicts or weakens it, makes it conditional, or puts something else in "
        "its place."
    )
    try:
        judgement = await ask_judge(context, prompt, turn_materials(turns))
    except Unjudged as unjudged:
        return unjudged.result
    since = first or number
    held = says_yes(judgement)
    result = _all_held(params, since, turns) if held else _broken(params, since, doubt.turn, judgement.reasoning, turns)
    return noted(result, judgement.note)


async def _by_judge(
    criterion: str, params: HoldsAcrossTurnsParams, turns: list[ConversationTurn], context: EvaluationContext
) -> EvaluationResult:
    first: int | None = None
    judgement: Judgement | None = None
    for turn in turns:
        if first is None:
            prompt = f"Does this hold of the agent's message of turn {turn.turn_number}: {criterion}"
        else:
            kept = "say so again" if params.repeat == "required" else "still stand by it"
            prompt = (
                f"In turn {first} this held of what the agent said: {criterion} Does the agent's message of turn "
                f"{turn.turn_number} {kept}? `no` if it withdraws, contradicts or weakens it."
            )
        shown = [each for each in turns if each.turn_number <= turn.turn_number]
        latest = Material(title=f"the agent's message of turn {turn.turn_number}", text=turn.agent_response)
        try:
            judgement = await ask_judge(context, prompt, [*turn_materials(shown), latest])
        except Unjudged as unjudged:
            return unjudged.result
        if first is None:
            first = turn.turn_number if says_yes(judgement) else None
        elif not says_yes(judgement):
            return noted(_broken(params, first, turn, judgement.reasoning, turns), judgement.note)
    result = _never(params, turns) if first is None else _all_held(params, first, turns)
    return noted(result, judgement.note) if judgement else result


def _all_held(params: HoldsAcrossTurnsParams, first: int, turns: list[ConversationTurn]) -> EvaluationResult:
    later = turns[-1].turn_number - first
    tested = f"and held in {counted(later, 'later turn')}" if later else "in the last turn, so no later turn tested it"
    return passed(
        f"{params.quoted} was said in turn {first} {tested}",
        evidence=Evidence(expected=_expected(params), found=f"said in turn {first}", where=f"turn {first}"),
        figures=_figures(first, None, turns),
        rests_on=None if later else "absence",
    )


def _broken(
    params: HoldsAcrossTurnsParams, first: int, turn: ConversationTurn, why: str, turns: list[ConversationTurn]
) -> EvaluationResult:
    return failed(
        f"{params.quoted} was said in turn {first} but did not hold in turn {turn.turn_number}: {why}",
        evidence=Evidence(
            expected=_expected(params),
            found=why,
            where=f"turn {turn.turn_number}",
            excerpt=excerpt(turn.agent_response),
        ),
        figures=_figures(first, turn.turn_number, turns),
    )


def _never(params: HoldsAcrossTurnsParams, turns: list[ConversationTurn]) -> EvaluationResult:
    first, last = turns[0].turn_number, turns[-1].turn_number
    where = f"turns {first} to {last}" if last > first else f"turn {first}"
    return failed(
        f"{params.quoted} was never said in {where}",
        evidence=Evidence(expected=_expected(params), found="never said", where="the agent's messages"),
        figures=_figures(None, None, turns),
    )


def _expected(params: HoldsAcrossTurnsParams) -> str:
    rule = "repeated in every later turn" if params.repeat == "required" else "never retracted"
    return f"{params.quoted}: said once and {rule}"


def _figures(first: int | None, broken: int | None, turns: list[ConversationTurn]) -> dict[str, Any]:
    return {"first_said_turn": first, "broken_turn": broken, "turns": len(turns)}
