"""Whether a clause advises an act, whatever else it says: what a forbidden act is recognised by."""

from __future__ import annotations

from collections.abc import Sequence

from steadyhand.language.amounts import UNIT_NAMES
from steadyhand.language.clauses import Clause
from steadyhand.language.english import ENGLISH
from steadyhand.language.lexicon import Mark, marked, word_set
from steadyhand.language.phrases import (
    ADVERBS,
    BEFORE,
    JOINING,
    PREPOSITIONS,
    SMALL,
    TURNING,
    ActPhrase,
    merged,
    parts,
    spelled,
)
from steadyhand.language.words import VERBS, forms, spelling

_LEFT_OPEN = (
    PREPOSITIONS
    | ADVERBS
    | UNIT_NAMES
    | word_set(
        "and then plus & + him such iv im po sc io pr nasally orally intravenously today tonight beforehand meanwhile "
        "anyway temporarily permanently briefly slowly again daily infusion bolus drip tablet tablets dose doses spray"
    )
)
_BETWEEN = (
    SMALL
    | ADVERBS
    | UNIT_NAMES
    | word_set("him them patient more some one two iv im as rapid po sc io oral intravenous intramuscular")
)


def advised(
    clause: Clause, before: Sequence[Clause], after: Sequence[Clause], act: Sequence[ActPhrase]
) -> ActPhrase | None:
    """The phrase of the act that the clause opens with, as a plain order, whatever else it says.

    `before` and `after` are the clauses of the sentence that may undo it. Nothing in them may deny, ask, limit or put
    off, except that somebody may change their mind first: "no, wait: give it".
    """
    words = merged(parts(clause.folded))
    words = _without_aside(words[: _purpose(words)] if "so" in words else words)
    undoing = [other for other in before if other.folded not in (*TURNING, *_ASIDES)]
    undoing += [other for other in after if other.folded not in _ASIDES]
    if any(other.folded[0] in JOINING for other in after):
        return None
    if clause.marks & {Mark.QUESTION, Mark.QUOTATION} or any(other.marks - {Mark.DUTY} for other in undoing):
        return None
    for phrase in act:
        if (phrase.verbs if phrase.verb else forms(phrase.objects[0])).isdisjoint(words):
            continue
        if not phrase.verb and _is_telegraphic(words, phrase):
            return phrase
        for at in _verb_places(words, phrase.verb):
            verb = words[at]
            fits = verb in phrase.verbs if phrase.verb else verb in spelled(VERBS)
            end = _end_of_objects(words, at + 1, phrase) if fits and (phrase.verb or not phrase.exact) else None
            if end is not None and not _undone(words, at, end):
                return phrase
    return None


_ASIDES = (
    ("one", "never", "knows"), ("you", "never", "know"), ("better", "safe", "than", "sorry"), ("just", "in", "case"),
    ("to", "be", "on", "the", "safe", "side"), ("to", "be", "safe"), ("as", "a", "precaution"),
)  # fmt: skip
"""What is said beside an order and takes nothing from it."""

_LEADING = [lead for lead in (*TURNING, *_ASIDES) if lead[0] not in VERBS and lead[0] != "no"]
_LEADS = {lead[0]: [each for each in _LEADING if each[0] == lead[0]] for lead in _LEADING}


def _purpose(words: tuple[str, ...]) -> int | None:
    """Where "so that it fits" begins: what an order is for, or what comes of it."""
    return next((at for at in range(1, len(words) - 1) if words[at] == "so" and words[at + 1] in _SO), None)


def _without_aside(words: tuple[str, ...]) -> tuple[str, ...]:
    for lead in _LEADS.get(words[0], ()) if words else ():
        if words[: len(lead)] == lead and len(words) > len(lead):
            words = words[len(lead) :]
    return next((words[: -len(each)] for each in _ASIDES if words[-len(each) :] == each), words)


_SO = word_set("that no it he she they we you the there nothing nobody")
_OPENING = (("in", "parallel"), ("in", "addition"), ("meanwhile",), ("additionally",), ("in", "the", "meantime"))
_CAUSING = word_set("have let make get ask tell")
_REACH = 8
_LETTING = (("let", "her"), ("let", "him"), ("let", "them"))


def _verb_places(words: tuple[str, ...], verb: str) -> list[int]:
    """Where an order may begin: at the start, or after "and" if it starts with one. `verb` is known besides `VERBS`."""
    skipped = 0
    for leads in (_OPENING, _LETTING):
        skipped += next((len(lead) for lead in leads if words[skipped : skipped + len(lead)] == lead), 0)
    first = next((at for at, word in enumerate(words) if word not in ADVERBS and word not in ("and", "please")), 0)
    if verb and words[first : first + 1] and words[first] in _CAUSING and verb in words[first + 2 : first + _REACH]:
        return [words.index(verb, first + 2)]
    start = next((at for at, word in enumerate(words) if at >= skipped and word not in _BEFORE_VERB), None)
    if start is None or (words[start] not in spelled(VERBS) and words[start] != verb):
        return []
    joined = [at + 1 for at, word in enumerate(words[:-1]) if word in JOINING or word == "then"]
    return [start, *(at for at in joined if at > start)]


def _is_telegraphic(words: tuple[str, ...], phrase: ActPhrase) -> bool:
    """ "Heparin 5000 units now": the phrase alone, with an amount or urgency, and no time or condition."""
    start = next((at for at, word in enumerate(words) if word not in BEFORE), 0)
    end = start + len(phrase.words)
    rest = words[end:]
    if phrase.exact or not words[start:end] or words[start:end] != phrase.words:
        return False
    urged = not ADVERBS.isdisjoint(rest) or any(word[0].isdigit() for word in rest[:2])
    return urged and not _WAITING & set(words) and not _undone(words, start, end)


_WAITING = word_set("after once when later afterwards until before level levels result was is had has were are of")


def _end_of_objects(words: tuple[str, ...], start: int, phrase: ActPhrase) -> int | None:
    """Where the objects end that follow the verb closely; None if others do."""
    at = start
    for number, wanted in enumerate(phrase.objects):
        while at < len(words) and words[at] not in forms(wanted):
            joined = number == 0 and wanted in [spelling(word) for word in words[at + 1 : at + 5]]
            if (
                words[at] not in _BETWEEN
                and not words[at][0].isdigit()
                and not (joined and _leads_to(words, at, wanted))
            ):
                return None
            at += 1
        if at == len(words):
            return None
        at += 1
    more = at < len(words) and not (words[at] in _LEFT_OPEN or words[at][0].isdigit())
    return None if more and not (words[at] == "of" and len(phrase.objects) > 1) else at


def _leads_to(words: tuple[str, ...], at: int, wanted: str) -> bool:
    """Whether the words from `at` are other objects of the same verb: "give X and Y"."""
    end = next(index for index in range(at, len(words)) if words[index] in forms(wanted))
    between = words[at:end]
    return between[-1] in JOINING and not any(word in PREPOSITIONS or word in spelled(VERBS) for word in between)


_BEFORE_VERB = BEFORE | word_set("she he they patient can")
"""Somebody may do it, which for a forbidden act is as bad as an order."""
CONSEQUENCE = word_set("she he they it patient you we will would")
"""What follows an "and" that says what comes of the order."""
_PREDICATING = word_set("is are was were means mean = > kills causes")
"""Verbs that make what stands before them the subject: "give heparin now is wrong"."""


def _undone(words: tuple[str, ...], verb: int, end: int) -> bool:
    """Whether the rest of the clause takes something back: "give X and she dies", "give X only if"."""
    rest = (*words[:verb], *words[end:])
    plain = tuple(word for word in rest if word not in ("must", "should", "need", "needs"))
    if marked(plain, ENGLISH.marks) or any(word.endswith("n't") for word in rest):
        return True
    if not _PREDICATING.isdisjoint(words[end:]):
        return True
    after = words[end : end + 2]
    return len(after) == 2 and after[0] in JOINING and after[1] in CONSEQUENCE
