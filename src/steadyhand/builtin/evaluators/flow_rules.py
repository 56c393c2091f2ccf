"""The patterns of `conversation_flow` by rules, which say when they cannot tell."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Literal

from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.clauses import LEXICA, Clause, clauses, marks_of
from steadyhand.language.lexicon import Mark, word_set
from steadyhand.language.statements import CONTRARY, is_courtesy, normal, small_words, stated
from steadyhand.records.base import Record
from steadyhand.records.result import ConversationTurn

Turns = Sequence[ConversationTurn]
FlowPattern = Literal[
    "question_then_answer",
    "problem_then_solution",
    "clarification_cycle",
    "empathy_then_solution",
    "escalation_pattern",
]


class Shown(Record):
    """Whether a pattern is shown, and where: `turns 1-2`."""

    answer: Certainty
    where: str = ""
    reading: Ruling | None = None


_PROBLEM = re.compile(
    r"\b(?:problem|issue|error|trouble|help|fail(?:s|ed|ing)?|broken?|wrong|stuck|lost|missing|charged|overcharged"
    r"|complain\w*|(?:can|could|does|do|did|is|was|has|have|wo)(?:n't| ?not)|unable)\b",
    re.IGNORECASE,
)
_SOLUTION = re.compile(
    r"\b(?:follow these|here(?:'s| is| are) (?:how|what|the steps)|step 1|first,"
    r"|please (?:try|go|click|open|restart|call)"
    r"|you can (?:fix|solve|resolve|try|do)|to (?:fix|solve|resolve) (?:this|it|that)"
    r"|i(?:'ve| have) (?:issued|refunded|fixed|resolved|corrected|reset|updated|cancelled|arranged|sent)"
    r"|i(?:'ll| will) (?:refund|issue|fix|correct|reset|replace|send|cancel|arrange)"
    r"|(?:is|has been|are|have been) (?:resolved|fixed|refunded|corrected|reversed))\b|^[^\S\n]*1[.)]\s",
    re.IGNORECASE | re.MULTILINE,
)
_EMPATHY = re.compile(
    r"\b(?:(?:i'm|i am|we're|we are) (?:so |very |really |truly )?sorry|i apologi[sz]e|my apologies|i understand"
    r"|i can (?:see|imagine|understand)|that (?:must|sounds)|frustrating|i know how)\b",
    re.IGNORECASE,
)
_ESCALATION = re.compile(
    r"\b(?:escalat\w+|transfer(?:ring)? you|connect(?:ing)? you (?:with|to)|put(?:ting)? you through"
    r"|pass(?:ing)? (?:you|this) on"
    r"|hand(?:ing)? (?:you|this) over|supervisor|a manager|specialist|human agent|emergency services)\b",
    re.IGNORECASE,
)


_ABUSE = word_set(
    """
    idiot idiots stupid dumb moron morons fool useless pathetic shut fuck fucking shit crap damn hell jerk liar loser
    ass asshole bastard bitch clown garbage trash joke incompetent ridiculous dummkopf idioten blöd dumm trottel scheiße
    imbécile stupide con connard merde tonto estúpido imbécil mierda
    """
)
_DATED = re.compile(
    r"\d|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tues|wednes|thurs|fri|satur|sun)\w*\b",
    re.IGNORECASE,
)
_EMPTY = word_set("hello hi hey thanks thank yes no ok okay hm hmm see sure right nice great")
"""What says nothing to any matter, beside the small words."""

_AGREEING = word_set("yes yep yeah no nope ja nein oui non sí correct right exactly")
_YES_OR_NO = word_set("is are was were do does did can could will would has have should shall may")


def _question_then_answer(turns: Turns) -> Shown:
    return _exchange(turns, 1)


def _clarification_cycle(turns: Turns) -> Shown:
    return _exchange(turns, 2)


def _exchange(turns: Turns, least: int) -> Shown:
    """Whether the agent asks, and the user answers, that often."""
    read = [
        (turn.turn_number, _answers(turn.agent_response, following.user_input))
        if "?" in turn.agent_response
        else (turn.turn_number, _unmarked(turn.agent_response))
        for turn, following in itertools.pairwise(turns)
    ]
    for answers in ((Certainty.YES,), (Certainty.YES, Certainty.CANNOT_TELL)):
        asked = [number for number, reading in read if reading.answer in answers]
        if len(asked) >= least:
            doubt = next((reading for _, reading in read if reading.answer is answers[-1]), None)
            last = asked[0] if least == 1 else asked[-1]
            return Shown(answer=answers[-1], where=f"turns {asked[0]}-{last + 1}", reading=doubt)
    return Shown(answer=Certainty.NO)


def _unmarked(said: str) -> Ruling:
    """Whether something is said that has no sign of what is looked for: not if nothing is said, else it may be."""
    words = {word for clause in clauses(said) for word in clause.folded}
    if is_courtesy(said) or words <= small_words() | _EMPTY:
        return Ruling(answer=Certainty.NO, why="it says nothing")
    why = "it has none of the words that the rules know, but others may say it"
    return Ruling(answer=Certainty.CANNOT_TELL, why=why, clause=said[:80])


def _answers(question: str, reply: str) -> Ruling:
    """Whether the user answers; a question back is not an answer, and an insult may not be one."""
    read, asked = clauses(reply), [clause for clause in clauses(question) if Mark.QUESTION in clause.marks]
    words = {word for clause in read for word in clause.folded}
    openings = {clause.folded[0] for clause in asked}
    about = {word for clause in asked for word in clause.folded} - small_words()
    fits = (
        (openings & _YES_OR_NO and read and read[0].folded[0] in _AGREEING)
        or _DATED.search(reply)
        or words & about
        or (len(words) <= 4 and "one" in words)
    )
    back = any(Mark.QUESTION in clause.marks for clause in read[-1:])
    if not words or (back and not fits and _asks(read[-1])):
        return Ruling(answer=Certainty.NO, why="it is no answer", clause=reply[:80])
    if fits and not back and not words & _ABUSE:
        return Ruling(answer=Certainty.YES, why="it answers the question", clause=read[0].text)
    why = "it may not answer the question"
    return Ruling(answer=Certainty.CANNOT_TELL, why=why, clause=read[0].text, start=read[0].start, end=read[0].end)


def _asks(clause: Clause) -> bool:
    """Whether its words make a question, and not only its mark: "Red, I guess?" answers one."""
    opening = clause.folded[0]
    return any(opening in each.asked for each in LEXICA.values()) or Mark.QUESTION in marks_of(
        clause.folded, clause.language
    )


def _problem_then_solution(turns: Turns) -> Shown:
    return _then(
        [(turn, _stated(_PROBLEM, turn.user_input, strict=False)) for turn in turns], turns, same_speaker=False
    )


def _empathy_then_solution(turns: Turns) -> Shown:
    return _then(
        [(turn, _stated(_EMPATHY, turn.agent_response, strict=False)) for turn in turns], turns, same_speaker=True
    )


def _then(opened: Sequence[tuple[ConversationTurn, tuple[Ruling, int]]], turns: Turns, *, same_speaker: bool) -> Shown:
    """Whether a solution follows what `opened` found. In the agent's own message it must stand after it."""
    doubt = Shown(answer=Certainty.NO)
    for index, (turn, (opening, end)) in enumerate(opened):
        if opening.answer is Certainty.NO:
            continue
        for later in turns[index:]:
            after = end if same_speaker and later is turn else 0
            solving, _ = _stated(_SOLUTION, later.agent_response, after=after)
            where = f"turns {turn.turn_number}-{later.turn_number}"
            if opening.answer is Certainty.YES and solving.answer is Certainty.YES:
                return Shown(answer=Certainty.YES, where=where)
            if solving.answer is not Certainty.NO and doubt.answer is Certainty.NO:
                unclear = solving if solving.answer is Certainty.CANNOT_TELL else opening
                doubt = Shown(answer=Certainty.CANNOT_TELL, where=where, reading=unclear)
    return doubt


def _escalation_pattern(turns: Turns) -> Shown:
    read = [(turn.turn_number, _stated(_ESCALATION, turn.agent_response)[0]) for turn in turns]
    for answer in (Certainty.YES, Certainty.CANNOT_TELL):
        for number, reading in read:
            if reading.answer is answer:
                return Shown(answer=answer, where=f"turn {number}", reading=reading)
    return Shown(answer=Certainty.NO)


def _stated(sign: re.Pattern[str], said: str, *, strict: bool = True, after: int = 0) -> tuple[Ruling, int]:
    """How what the sign stands for is said, and where its first place ends."""
    text = normal(said)
    spans = [match.span() for match in sign.finditer(text, after)]
    if not spans:
        return _unmarked(text[after:]), 0
    allowed = () if strict else (Mark.QUESTION, Mark.CONTRAST, Mark.WISH, Mark.HEDGE)
    rest = CONTRARY if strict else frozenset[Mark]()
    return stated(text, spans, strict=strict, rest=rest, allowed=allowed), spans[0][1]


RULES: dict[FlowPattern, Callable[[Turns], Shown]] = {
    "question_then_answer": _question_then_answer,
    "problem_then_solution": _problem_then_solution,
    "clarification_cycle": _clarification_cycle,
    "empathy_then_solution": _empathy_then_solution,
    "escalation_pattern": _escalation_pattern,
}
