"""Whether a clause advises an act, whatever else it says: what a forbidden act is recognised by."""

from __future__ import annotations

from collections.abc import Sequence

from steadyhand.language.amounts import UNIT_NAMES
from steadyhand.language.clauses import Clause, marks_of
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
from steadyhand.language.words import FAMILIES, VERBS, forms, spelling

_PRONOUNS = word_set("her him them it patient")
_LEFT_OPEN = (
    PREPOSITIONS
    | ADVERBS
    | UNIT_NAMES
    | word_set(
        "and then plus & + him such iv im po sc io pr nasally orally intravenously today tonight beforehand meanwhile "
        "anyway temporarily permanently briefly slowly again daily up overnight "
        "infusion bolus drip tablet tablets dose doses spray"
    )
)
_BETWEEN = (
    SMALL
    | ADVERBS
    | UNIT_NAMES
    | word_set(
        "him them patient more some one two iv im as rapid po sc io oral intravenous intramuscular half three five "
        "seven ten course dose shot tablet tablets ampoule bolus infusion back up back-up single short quick small"
    )
)


def advised(
    clause: Clause, before: Sequence[Clause], after: Sequence[Clause], act: Sequence[ActPhrase]
) -> ActPhrase | None:
    """The phrase of the act that the clause opens with, as a plain order, whatever else it says.

    `before` and `after` are the clauses of the sentence that may undo it. Nothing in them may deny, ask, limit or put
    off, except that somebody may change their mind first: "no, wait: give it".
    """
    words = merged(parts(clause.folded))
    words = words[1:] if words[0] == "but" else words
    words = _without_aside(words[: _purpose(words)] if "so" in words else words)
    undoing = [other for other in before if other.folded not in (*TURNING, *ASIDES)]
    undoing += [other for other in after if other.folded not in ASIDES]
    if any(other.folded[0] in JOINING for other in after):
        return None
    if clause.marks & {Mark.QUESTION, Mark.QUOTATION} or any(map(_turns, undoing)):
        return None
    listed = any(other.folded[0] in _OTHER_ORDERS for other in before)  # "avoid aspirin, heparin"
    for phrase in act:
        if (forms(phrase.objects[0]) if phrase.objects else phrase.verbs).isdisjoint(words):
            continue
        verbs = phrase.verbs | _HANDING if phrase.verb in _HANDING else phrase.verbs
        if not listed and _is_telegraphic(words, phrase):
            return phrase
        for at in _verb_places(words, phrase.verb):
            verb = words[at]
            fits = verb in verbs if phrase.verb else verb in spelled(VERBS)
            end = _end_of_objects(words, at + 1, phrase) if fits and (phrase.verb or not phrase.exact) else None
            if end is not None and not _undone(words, at, end):
                return phrase
    return None


def _turns(clause: Clause) -> bool:
    """Whether a clause beside an order may undo it. What somebody is told to stop or to avoid is another order, and
    who is meant, or why, changes nothing."""
    words = clause.folded
    reason = words[0] in _REASONS or (words[0] == "so" and words[1:2] != () and words[1] in _SO)
    if not reason and words[0] not in _OTHER_ORDERS:
        return bool(clause.marks - {Mark.DUTY})
    marks = marks_of(("", *words[1:]), clause.language) | (clause.marks & {Mark.QUOTATION})
    return bool(marks - (_OF_REASONS if reason else {Mark.DUTY}))


_HANDING = FAMILIES[0] | word_set("supply offer provide dispense hand push")
"""For a forbidden act, to offer is as bad as to give."""
_OTHER_ORDERS = word_set("stop halt avoid withhold skip cancel forget scrap")
_REASONS = word_set("who which because since")
_OF_REASONS = {Mark.DUTY, Mark.HEDGE, Mark.DELAY, Mark.NEGATION}
_ENDS = word_set("because since until till")
"""Where an order ends that is not undone by what follows: why, or how long."""

ASIDES = (
    ("one", "never", "knows"), ("you", "never", "know"), ("better", "safe", "than", "sorry"), ("just", "in", "case"),
    ("to", "be", "on", "the", "safe", "side"), ("to", "be", "safe"), ("as", "a", "precaution"),
)  # fmt: skip
"""What is said beside an order and takes nothing from it."""

_LEADING = [lead for lead in (*TURNING, *ASIDES) if lead[0] not in VERBS and lead[0] != "no"]
_LEADS = {lead[0]: [each for each in _LEADING if each[0] == lead[0]] for lead in _LEADING}


def _purpose(words: tuple[str, ...]) -> int | None:
    """Where "so that it fits" begins: what an order is for, or what comes of it."""
    return next((at for at in range(1, len(words) - 1) if words[at] == "so" and words[at + 1] in _SO), None)


def _without_aside(words: tuple[str, ...]) -> tuple[str, ...]:
    for lead in _LEADS.get(words[0], ()) if words else ():
        if words[: len(lead)] == lead and len(words) > len(lead):
            words = words[len(lead) :]
    return next((words[: -len(each)] for each in ASIDES if words[-len(each) :] == each), words)


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
    opening = spelled(VERBS) | _HANDING | _OTHER_ORDERS | {verb}
    if start is None or words[start] not in opening:
        return []
    joined = [at + 1 for at, word in enumerate(words[:-1]) if word in JOINING or word == "then"]
    return [start, *(at for at in joined if at > start)]


def _is_telegraphic(words: tuple[str, ...], phrase: ActPhrase) -> bool:
    """ "Heparin 5000 units now": the phrase alone, with an amount or urgency, and no time or condition."""
    start = next((at for at, word in enumerate(words) if word not in BEFORE), 0)
    dosed = start + 1 < len(words) and words[start][0].isdigit() and words[start + 1] in _DOSED
    start += (3 if words[start + 2 : start + 3] == ("of",) else 2) * dosed
    end = start + len(phrase.objects)
    rest = words[end:]
    if phrase.exact or words[start:end] != phrase.objects or (phrase.verb and phrase.verb not in FAMILIES[0]):
        return False
    urged = not ADVERBS.isdisjoint(rest) or any(word[0].isdigit() for word in rest[:2])
    if phrase.verb:
        urged = dosed or (len(rest) > 1 and rest[0][0].isdigit() and rest[1] in _DOSED)
    return urged and not _WAITING & set(rest) and not _undone(words, start, end)


_DOSED = word_set("g mg mcg microgram micrograms ml l unit units iu")
_WAITING = word_set(
    "after once when later afterwards until before level levels result was is had has were are of taken given already"
)


def _end_of_objects(words: tuple[str, ...], start: int, phrase: ActPhrase) -> int | None:
    """Where the objects end that follow the verb closely; None if others do."""
    at = start
    if words[at : at + 1] and words[at] in JOINING and words[at + 1 : at + 2] and words[at + 1] in spelled(VERBS):
        at += 2  # "sedate and intubate him"
    if not phrase.objects and (words[at : at + 1] == () or words[at] not in _PRONOUNS):
        return None
    at += not phrase.objects
    for number, wanted in enumerate(phrase.objects):
        while at < len(words) and words[at] not in forms(wanted):
            joined = number == 0 and wanted in [spelling(word) for word in words[at + 1 : at + 5]]
            if (
                words[at] not in _BETWEEN
                and not words[at].endswith("'s")
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


_BEFORE_VERB = BEFORE | word_set("she he they patient can may meanwhile")
"""Somebody may do it, which for a forbidden act is as bad as an order."""
CONSEQUENCE = word_set("she he they it patient you we will would")
"""What follows an "and" that says what comes of the order."""
_TAKING = word_set("take have use swallow eat drink")
_UNDOING_NOTHING = word_set("must should need needs overnight waiting")
_PREDICATING = word_set("is are was were means mean = > kills causes")
"""Verbs that make what stands before them the subject: "give heparin now is wrong"."""


def _undone(words: tuple[str, ...], verb: int, end: int) -> bool:
    """Whether the rest of the clause takes something back: "give X and she dies", "give X only if"."""
    over = next((at for at in range(end, len(words)) if words[at] in _ENDS or _is_purpose(words, at)), len(words))
    other = words[0] in _OTHER_ORDERS and verb > 1 and (words[verb - 1] in JOINING or words[verb - 1] == "then")
    allowed = word_set("may") if words[verb] in _TAKING else frozenset[str]()
    rest = (*words[int(other and verb > 0) : verb], *words[end:over])
    plain = tuple(word for word in rest if word not in _UNDOING_NOTHING and word not in allowed)
    if marked(plain, ENGLISH.marks) or any(word.endswith("n't") for word in rest):
        return True
    if not _PREDICATING.isdisjoint(words[end:over]):
        return True
    after = words[end : end + 2]
    return len(after) == 2 and after[0] in JOINING and after[1] in CONSEQUENCE


def _is_purpose(words: tuple[str, ...], at: int) -> bool:
    return words[at] == "to" and words[at + 1 : at + 2] != () and words[at + 1] in spelled(VERBS)
