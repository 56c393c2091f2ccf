"""Whether something that was found in a text is plainly stated there: an act advised, an apology, a solution.

As with keywords, yes takes a clause without a mark that could turn its sense, and in a strict reading one whose every
word is known.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.clauses import LEXICA, Clause, clauses, marks_of
from steadyhand.language.lexicon import Mark, Phrase, phrases, word_set
from steadyhand.text_match import Span, nfc

TURNING = frozenset(Mark) - {Mark.DUTY}
"""The marks that a plain statement does not have. What one must do is plain."""

CONTRARY = frozenset((Mark.NEGATION, Mark.CONTRAST, Mark.RETRACTION, Mark.IRONY))
"""The marks that the rest of the text does not have either."""

_STRAIGHT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u02bc": "'", "\u201c": '"', "\u201d": '"'})
_WIDTHLESS = dict.fromkeys((0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF))
LONGEST = 100
"""The words of a clause beyond which it is not plain."""

_UNDOING = CONTRARY | {Mark.CONDITION, Mark.DELAY}
_DENYING = frozenset((Mark.NEGATION, Mark.RETRACTION, Mark.HEDGE))
_MOST_PLACES = 50
_URGES = phrases(
    """
    do not hesitate to; don't hesitate to; please do not hesitate to; please don't hesitate to;
    never hesitate to; do not wait to; don't wait to; zögern sie nicht; n' hésitez pas à; no dude en
    """
)
_RIGHT_NOW = (("right", "now"), ("right", "away"))
_FORBIDDING = phrases("do not; don't; never; please do not; please don't; and do not; and don't")
_FORBIDDEN = word_set("drive wait delay eat drink move touch use enter hang stay lift smoke run walk open")
_POINTING = word_set("it that this one them these those so")
_TURNS_DENIAL = word_set(
    "only just hesitate wait delay forget fail postpone worry doubt afraid stop merely cancel skip ignore"
)


def normal(text: str) -> str:
    """The text for patterns: accented letters normalised, quotation marks straight, without soft hyphens and spaces of
    no width."""
    return nfc(text).translate(_STRAIGHT | _WIDTHLESS)


def stated(
    text: str,
    spans: Sequence[Span],
    *,
    strict: bool = True,
    rest: frozenset[Mark] = CONTRARY,
    allowed: Sequence[Mark] = (),
) -> Ruling:
    """How what stands at the spans is said. One that is denied makes it no; otherwise one that is plain makes it yes.

    `strict`: every other word of its sentence is known. `rest` are the marks that make a doubt of it in another
    sentence of the text, `allowed` those that its own may have.
    """
    if len(spans) > _MOST_PLACES:
        return Ruling(answer=Certainty.CANNOT_TELL, why="it is said too often to read each place")
    read = clauses(text)
    found = [_at(read, span, strict=strict, rest=rest, allowed=frozenset(allowed)) for span in spans]
    for answer in (Certainty.NO, Certainty.YES):
        for reading in found:
            if reading.answer is answer:
                return reading
    return found[0] if found else Ruling(answer=Certainty.NO, why="it is not said")


def repeated(text: str, spans: Sequence[Span]) -> Ruling:
    """Whether the advice or the statement at the spans still stands at the end of the text.

    Its sentence has nothing but words that go with advice, and so has what follows it; what goes before it may give
    reasons.
    """
    plain = stated(text, spans, rest=_UNDOING)
    if plain.answer is not Certainty.YES:
        return plain
    read = clauses(text)
    # What is said last counts.
    last = _at(read, spans[-1], strict=True, rest=_UNDOING, allowed=frozenset())
    for clause in read if last.answer is Certainty.YES else ():
        if clause.start < last.start or _is_neutral(clause):
            continue
        before, after = _outside(clause, spans[-1])
        if clause.start > spans[-1][1] and (marks := clause.marks & TURNING):
            return _reading(Certainty.CANNOT_TELL, because(marks), clause)
        if unknown := _not_advising((*before, *after), clause.language):
            return _reading(Certainty.CANNOT_TELL, not_known(unknown), clause)
    return last


def _is_neutral(clause: Clause) -> bool:
    return _forbids(clause) or clause.folded in _courtesies()


def _not_advising(words: Sequence[str], language: str | None) -> list[str]:
    found: list[list[str]] = []
    for code in [language] if language else LEXICA:
        known = LEXICA[code].advising
        found.append([word for at, word in enumerate(words) if word not in known and not _is_right_now(words, at)])
    return min(found, key=len)


def _is_right_now(words: Sequence[str], at: int) -> bool:
    return tuple(words[at : at + 2]) in _RIGHT_NOW or tuple(words[max(0, at - 1) : at + 1]) in _RIGHT_NOW


@functools.cache
def _courtesies() -> frozenset[Phrase]:
    return frozenset(phrase for each in LEXICA.values() for phrase in each.courtesies)


def is_courtesy(text: str) -> bool:
    """Whether a text has nothing but thanks and farewells, and so nothing to do with any matter."""
    read = clauses(text)
    return bool(read) and all(clause.folded in _courtesies() and Mark.QUESTION not in clause.marks for clause in read)


def _at(read: Sequence[Clause], span: Span, *, strict: bool, rest: frozenset[Mark], allowed: frozenset[Mark]) -> Ruling:
    here = [clause for clause in read if clause.start < span[1] and span[0] < clause.end]
    if not here:
        return Ruling(answer=Certainty.CANNOT_TELL, why="it is not part of a clause")
    sentences = {clause.sentence for clause in here}
    first: Ruling | None = None
    for clause in read:
        if here[0].start <= clause.start <= here[-1].start:
            reading = _clause(clause, span, strict=strict, allowed=allowed)
        elif clause.sentence in sentences:
            reading = _beside(clause, TURNING - allowed, strict=strict)
        else:
            reading = _beside(clause, rest, strict=False)
        if reading is not None and reading.answer is Certainty.NO:
            return reading
        first = first or reading
    return first or _reading(Certainty.YES, "it is said plainly", here[0])


def _clause(clause: Clause, span: Span, *, strict: bool, allowed: frozenset[Mark]) -> Ruling | None:
    """What its own clause leaves of it; None if nothing speaks against it."""
    if len(clause.words) > LONGEST:
        return _reading(Certainty.CANNOT_TELL, "the clause is too long", clause)
    before, after = _outside(clause, span)
    around = clause.marks - marks_of(clause.folded, clause.language)
    marks = (marks_of((*before, "", *after), clause.language) | around) & (TURNING - allowed)
    if marks and marks <= _DENYING and _is_denied(before, clause.language):
        return _reading(Certainty.NO, "it is negated", clause)
    if marks:
        return _reading(Certainty.CANNOT_TELL, because(marks), clause)
    if ".." in clause.closing or "\u2026" in clause.closing:
        return _reading(Certainty.CANNOT_TELL, "it trails off", clause)
    if strict and (unknown := unknown_words([*before, *after], clause.language)):
        return _reading(Certainty.CANNOT_TELL, not_known(unknown), clause)
    return None


def _outside(clause: Clause, span: Span) -> tuple[Phrase, Phrase]:
    """The words of the clause before the span, without an urge such as "do not hesitate to", and after it."""
    before = tuple(word.text for word in clause.words if word.end <= span[0])
    urged = next((urge for urge in _URGES if before[: len(urge)] == urge), ())
    after = tuple(word.text for word in clause.words if word.start >= span[1])
    return before[len(urged) :], after


def _is_denied(before: Phrase, language: str | None) -> bool:
    """Whether what stands before it denies it, and not another deed: "do not cancel it", "no need to pay for it"."""
    marks = marks_of((*before, ""), language)
    turned = [marks_of((*before[:at], *before[at + 1 :], ""), language) != marks for at in range(len(before))]
    plain = [word for word, turns in zip(before, turned, strict=True) if not turns and word not in small_words()]
    denied = Mark.NEGATION in marks and not _TURNS_DENIAL & set(before)
    return denied and not unknown_words(plain, language)


def _beside(clause: Clause, marks: frozenset[Mark], *, strict: bool) -> Ruling | None:
    if _is_neutral(clause):
        return None
    if found := clause.marks & marks:
        return _reading(Certainty.CANNOT_TELL, f"the text also says {clause.text[:80]!r}: {because(found)}", clause)
    if strict and (unknown := unknown_words(clause.folded, clause.language)):
        return _reading(Certainty.CANNOT_TELL, not_known(unknown), clause)
    return None


def _forbids(clause: Clause) -> bool:
    """Whether it is a warning of something else: "do not drive"."""
    words = clause.folded
    opening = next((phrase for phrase in _FORBIDDING if words[: len(phrase)] == phrase), None)
    if opening is None or len(words) == len(opening) or words[len(opening)] not in _FORBIDDEN:
        return False
    rest = words[len(opening) + 1 :]
    return Mark.NEGATION not in marks_of(("", *rest), clause.language) and not _POINTING & set(rest)


@functools.cache
def known_words(code: str, *, advice: bool) -> frozenset[str]:
    """The words that a plain clause of the language may have; more in the words of an agent that gives advice."""
    each = LEXICA[code]
    known = (each.closed - each.asked - each.others) | each.content | each.topics
    return known | each.acts | each.advising if advice else known


@functools.cache
def small_words() -> frozenset[str]:
    """The pronouns, articles, question words and the like of every language."""
    return frozenset(word for each in LEXICA.values() for word in each.closed | each.asked)


def unknown_words(words: Sequence[str], language: str | None) -> list[str]:
    """The words that are not known in the language; without one, in the language that knows most of them."""
    found: list[list[str]] = []
    for code in [language] if language else LEXICA:
        known = known_words(code, advice=True)
        found.append([word for word in words if word not in known and not word[:1].isdigit()])
    return min(found, key=len)


def because(marks: frozenset[Mark]) -> str:
    return f"it has a {', a '.join(sorted(marks))}".replace("a irony", "irony")


def not_known(words: Sequence[str]) -> str:
    listed = ", ".join(repr(word[:40]) for word in dict.fromkeys(words[:3]))
    return f"{listed} may change what it means"


def _reading(answer: Certainty, why: str, clause: Clause) -> Ruling:
    return Ruling(answer=answer, why=why, clause=clause.text, start=clause.start, end=clause.end)
