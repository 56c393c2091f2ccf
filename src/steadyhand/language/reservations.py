"""Whether an act is named only under a reservation: on a condition, for later, for somebody else to decide, or quoted.

Of acts that have to be ordered at once. A reservation counts only in words that leave no doubt: "if it gets worse",
"tomorrow", "once the results are back", but not "if you can" or "once the line is in".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from steadyhand.language.clauses import Clause
from steadyhand.language.lexicon import Mark, word_set
from steadyhand.language.phrases import JOINING, find, merged, parts
from steadyhand.language.words import VERBS

Concerns = Callable[[tuple[str, ...]], bool]
"""Whether words are about the act."""

_URGENT = word_set("now immediately immediate stat urgently urgent promptly straightaway asap instantly forthwith")
_COURSE = word_set(
    """
    worse worsens worsening deteriorates persists persist still recurs starts begins develops becomes loses stops passes
    collapses faints arrests convulses seizes come comes goes drops falls rises exceeds reaches shows confirms confirmed
    proves positive gone settled improved improves see sees seen appears happens remains fails gets getting grows turns
    agree agrees approves consents allows permits authorises authorizes
    """
)
"""What may or may not happen."""
_EVENTS = _COURSE | word_set(
    """
    back available arrives arrived here doctor surgeon consultant specialist manager supervisor result results report
    film image imaging picture ray approval permission finished done complete completed over ends end shift round check
    checked examined reviewed agreed agrees decided minutes hour hours quarter lunch troponin
    value values
    """
)
"""What somebody may wait for."""
_IF = word_set("if should provided unless")
_WHEN = word_set("when once after until whenever")
_LATER = (
    ("tomorrow",), ("later",), ("afterwards",), ("after", "that"), ("in", "the", "morning"), ("by", "the", "morning"),
    ("this", "evening"), ("this", "afternoon"), ("at", "the", "end"), ("next", "week"), ("next", "month"),
    ("next", "year"), ("next", "shift"), ("next", "service"), ("at", "the", "weekend"), ("in", "due", "course"),
    ("in", "an", "hour"), ("in", "half"), ("after", "an", "hour"), ("after", "half"), ("at", "some", "point"),
    ("quarter", "of", "an", "hour"), ("evening",), ("afternoon",),
    *((verb, "wait") for verb in ("can", "could", "should")),
)  # fmt: skip
_OTHERS = (
    ("decide",), ("decides",), ("decision",), ("choose",), ("matter", "for"), ("up", "to", "the"), ("up", "to", "them"),
    ("job",), ("discretion",),
    ("whether",),
)  # fmt: skip
_OPENING = _IF | _WHEN | word_set("only as the")
"""What a clause that limits an order begins with."""
_LIMITING = _IF | _WHEN | {"only"}
_FIRST = word_set("finish complete wait pause")
"""Orders that come before the act, if it comes."""
_READY = (("drawn", "up"), ("ready",), ("at", "hand"), ("to", "hand"), ("on", "notice"))
_HAVING = word_set("have keep get put")
_WITH_WHOM = word_set(
    """
    doctor doctors physician surgeon consultant specialist cardiologist gp nurse paramedic paramedics crew ambulance
    hospital manager supervisor operator technician engineer police them others experts professionals
    """
)
_DENYING = word_set("not no never cannot without")
_POINTING = word_set("it this that them")
_NEAR = 10
"""How far a condition reaches, in words."""
_SOON = 10
"""Minutes that may also be how long something takes: "in 5 minutes"."""
_NUMBERS = {"ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60}


def reserved(sentence: Sequence[Clause], concerns: Concerns) -> str | None:
    """What the reservation is, if every part of the sentence that is about the act has one."""
    # "who decides" after a comma asks nothing.
    if Mark.QUESTION in sentence[0].marks or any("?" in clause.closing for clause in sentence):
        return None
    if any(Mark.QUOTATION in clause.marks for clause in sentence):
        return "it is only quoted" if _is_quoted_away(sentence, concerns) else None
    parted = list(segments(sentence))
    found: list[str] = []
    for at, words in enumerate(parted):
        about = concerns(words) or (found and _points_back(words))
        if about and words[0] not in _OPENING:
            why = _reservation(parted, at)
            if why is None:
                return None
            found.append(why)
    return found[0] if found else None


def segments(sentence: Sequence[Clause]) -> Iterator[tuple[str, ...]]:
    """The clauses, parted where another order begins."""
    for clause in sentence:
        words = merged(parts(clause.folded))
        start = 0
        for at in range(1, len(words) - 1):
            if (words[at] in JOINING or words[at] == "then") and words[at + 1] in VERBS:
                if words[start:at]:
                    yield words[start:at]
                start = at + 1
        if words[start:]:
            yield words[start:]


def _points_back(words: Sequence[str]) -> bool:
    return any(word in VERBS and after in _POINTING for word, after in itertools.pairwise(words))


def _reservation(parted: Sequence[tuple[str, ...]], at: int) -> str | None:
    order = parted[at]
    following = itertools.takewhile(lambda segment: segment[0] in _OPENING, parted[at + 1 :])
    whole = (*order, *(word for segment in following for word in segment))
    begins = _condition(whole)
    said = whole[: next((at for at, word in enumerate(whole) if word in _LIMITING), None)]
    if not _URGENT.isdisjoint(whole) or not _DENYING.isdisjoint(said) or any(word.endswith("n't") for word in said):
        return None
    if begins is not None or any(segment[0] in _OPENING and _condition(segment) == 0 for segment in parted[:at]):
        return "it is ordered only on a condition"
    waits = any(segment[0] in _FIRST for segment in parted[:at])
    # A time after an "and" may be that of something else: "give it and look again in ten minutes".
    own = tuple(itertools.takewhile(lambda word: word not in JOINING, whole))
    if waits or any(find(own, phrase) is not None for phrase in _LATER) or _is_minutes_away(own):
        return "it is put off"
    if order[0] != "whether" and any(find(order, phrase) is not None for phrase in _OTHERS):
        return "somebody else is to decide"
    if not _WITH_WHOM.isdisjoint(_recipient(order)):
        return "it is left to somebody else"
    if order[0] in _HAVING and any(find(order, phrase) is not None for phrase in _READY):
        return "it is only made ready"
    return None


def _recipient(order: Sequence[str]) -> Sequence[str]:
    """Who is to do it: "leave it to the ward doctors"."""
    at = next((at for at, word in enumerate(order) if word in ("to", "for")), len(order))
    return order[at : at + 4] if order[0] == "leave" else ()


def _condition(words: tuple[str, ...]) -> int | None:
    """Where a condition begins, or the wait for something."""
    for at, word in enumerate(words):
        rest = tuple(itertools.takewhile(lambda word: word not in JOINING, words[at + 1 : at + _NEAR]))
        only = word == "only" and rest[:1] and (rest[0] in _IF or rest[0] in _WHEN or rest[0] == "where")
        turn = words[at : at + 2] == ("the", "moment") or words[at : at + 3] == ("as", "soon", "as")
        course = (word in _IF or turn) and not _COURSE.isdisjoint(rest)
        event = word in _WHEN and not _EVENTS.isdisjoint(rest)
        if only or course or event:
            return at
    return None


def _is_minutes_away(words: Sequence[str]) -> bool:
    """ "In 20 minutes", "after two hours"."""
    for at, word in enumerate(words[:-2]):
        if word in ("in", "after"):
            number = _NUMBERS.get(words[at + 1], int(words[at + 1]) if words[at + 1].isdecimal() else 0)
            unit = words[at + 2]
            if unit in ("hours", "hour", "days") or (unit in ("minutes", "min", "minute") and number >= _SOON):
                return True
    return False


def _is_quoted_away(sentence: Sequence[Clause], concerns: Concerns) -> bool:
    """Whether the act is only named in quotation marks, and what stands around them speaks against it."""
    outside = [clause for clause in sentence if Mark.QUOTATION not in clause.marks]
    if not outside or any(concerns(parts(clause.folded)) for clause in outside) or outside[0].words[0].text in VERBS:
        return False
    return any(clause.marks & {Mark.NEGATION, Mark.CONTRAST, Mark.RETRACTION} for clause in outside)
