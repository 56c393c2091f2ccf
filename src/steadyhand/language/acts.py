"""Orders and refusals of acts, in sentences of which every word is known.

An act is given by phrases: `give adrenaline`, `use the auto-injector`, `potassium chloride`. A sentence is *read* if it
has no other words than those of the acts that it orders, amounts that are right, and a closed list of words that change
nothing (`the`, `now`, `please`, `you must`). One unknown word, and nothing is claimed about the sentence.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from steadyhand.language.amounts import UNIT_NAMES
from steadyhand.language.clauses import Clause, clauses
from steadyhand.language.english import ENGLISH
from steadyhand.language.lexicon import Mark, marked, word_set
from steadyhand.language.words import FAMILIES, LIGHT_VERBS, VERBS, forms, is_kin, is_same, participle, spelling
from steadyhand.records.base import Record

_SMALL = word_set("a an the this these his her their your our of")
_ADVERBS = word_set(
    "now immediately immediate stat urgently urgent promptly straightaway asap first firstly next then also too"
)
_BEFORE = (
    _SMALL
    | _ADVERBS
    | word_set(
        "and please you we staff team everyone must should need needs have has to so ok okay yes & + \u2192 "
        "plan order orders action actions treatment management step steps priority answer decision recommendation "
        "1 2 3 4 5 6 7 8 9"
    )
)
_AFTER = _SMALL | _ADVERBS | word_set("and & + \u2192 him them patient into in with on at via through please here")
_LABELS = word_set("step priority order action")
_SUBJECTS = word_set("you we staff team everyone")
_AUXILIARIES = word_set("must should need needs have has")
_OBLIGED = word_set("must should to")
_MARKING = frozenset(first for first, found in ENGLISH.marks.items() if any(len(phrase) == 1 for phrase, _ in found))
_PREPOSITIONS = word_set("in into via at over for to from by with per through on as until before after during")
_LEFT_OPEN = (
    _PREPOSITIONS
    | _ADVERBS
    | UNIT_NAMES
    | word_set("and then plus & + him such iv im po sc io pr nasally orally intravenously")
)
_BETWEEN = (
    _SMALL
    | _ADVERBS
    | UNIT_NAMES
    | word_set("him them patient more some one two iv im po sc io oral intravenous intramuscular")
)
_JOINING = word_set("and plus & +")
_MERGED = {
    ("at", "once"): "now", ("right", "away"): "now", ("right", "now"): "now", ("straight", "away"): "now",
    ("without", "delay"): "now", ("to", "him"): "him", ("to", "her"): "him", ("to", "the", "patient"): "him",
    ("for", "him"): "him", ("for", "her"): "him", ("for", "the", "patient"): "him",
}  # fmt: skip
_NOT_TO = (
    ("do", "not"), ("don't",), ("dont",), ("never",), ("avoid",), ("withhold",), ("no", "need", "to"), ("no",),
    ("there", "is", "no", "need", "to"), ("there", "is", "no", "need", "for"), ("must", "not"), ("should", "not"),
    ("you", "must", "not"), ("you", "should", "not"), ("no", "need", "for"), ("you", "do", "not", "need", "to"),
    ("there's", "no", "need", "to"), ("there's", "no", "need", "for"), ("you", "don't", "need", "to"),
    ("you", "need", "not"), ("you", "needn't"), ("you", "do", "not", "have", "to"), ("you", "don't", "have", "to"),
)  # fmt: skip
_IS_NOT = tuple(
    tuple(phrase.split())
    for verb in ("is", "are")
    for phrase in (f"{verb} not needed", f"{verb} not necessary", f"{verb} not required", f"{verb} not indicated",
                   f"{verb} not recommended", f"{verb} unnecessary", f"{verb} contraindicated", f"{verb} not to be",
                   f"{verb} not warranted", f"{verb} not appropriate")
)  # fmt: skip
_MUST_NOT_BE = (
    ("must", "not", "be"), ("should", "not", "be"), ("does", "not", "need", "to", "be"), ("is", "not", "to", "be"),
    ("do", "not", "need", "to", "be"), ("need", "not", "be"), ("doesn't", "need", "to", "be"), ("shouldn't", "be"),
    ("mustn't", "be"), ("needn't", "be"), ("are", "not", "to", "be"), ("has", "not", "to", "be"),
    ("do", "not", "have", "to", "be"), ("does", "not", "have", "to", "be"), ("don't", "have", "to", "be"),
    ("doesn't", "have", "to", "be"), ("don't", "need", "to", "be"),
)  # fmt: skip
_AT_PRESENT = (
    ("at", "this", "stage"), ("at", "this", "point"), ("at", "the", "moment"), ("at", "present"), ("for", "now"),
)  # fmt: skip
_DENYING = word_set(
    "not no never avoid withhold unnecessary contraindicated don't dont doesn't shouldn't mustn't needn't"
)
"""Every refusal has one of these."""
_REASON = word_set("because since")


_OBJECTS = word_set("the a an his her their your him them it")  # after a verb: "mute the scanner"


def parts(words: Sequence[str]) -> tuple[str, ...]:
    """The words, parted at hyphens and in one spelling."""
    return tuple([spelling(part) for word in words for part in word.replace("/", "-").split("-") if part])


class ActPhrase(Record):
    """One way to name an act. `verb` is empty for a noun phrase, `verbs` are those that mean the same; `exact` phrases
    match only word by word."""

    words: tuple[str, ...]
    verb: str
    verbs: frozenset[str]
    objects: tuple[str, ...]
    exact: bool


@functools.lru_cache(maxsize=2048)
def act_phrase(text: str) -> ActPhrase:
    words = [word for word in parts([word for clause in clauses(text) for word in clause.folded]) if word not in _SMALL]
    second = [word for clause in clauses(text) for word in clause.folded][1:2]
    is_verb = words[0] in _spelled(VERBS) or not _OBJECTS.isdisjoint(second)
    verb = words[0] if len(words) > 1 and is_verb else ""
    exact = any(word in _MARKING for word in words[1:]) or (not verb and words[0] in _MARKING)
    same = next((family for family in FAMILIES if verb in family), frozenset({verb}))
    return ActPhrase(
        words=tuple(words),
        verb=verb,
        verbs=frozenset(map(spelling, same)),
        objects=tuple(words[1:] if verb else words),
        exact=exact,
    )


@functools.cache
def _spelled(words: frozenset[str]) -> frozenset[str]:
    return frozenset(map(spelling, words))


@functools.lru_cache(maxsize=1024)
def content_words(phrases: tuple[ActPhrase, ...]) -> frozenset[str]:
    """The words by which a mention of the act can be recognised."""
    light = _spelled(LIGHT_VERBS) | ENGLISH.closed | _MARKING
    found = frozenset(word for phrase in phrases for word in phrase.words if word not in light)
    return found or frozenset(word for phrase in phrases for word in phrase.words)


@functools.lru_cache(maxsize=4096)
def touches(words: tuple[str, ...], act: tuple[ActPhrase, ...]) -> bool:
    """Whether anything in the words may be about the act: kin of a word of it, or its initials. A generous measure."""
    wanted = content_words(act)
    initials = {"".join(word[0] for word in phrase.words) for phrase in act if len(phrase.words) > 1}
    return any(is_kin(word, each) for word in words for each in wanted) or not initials.isdisjoint(words)


def mentions(words: Sequence[str], act: Sequence[ActPhrase]) -> bool:
    """Whether the words name the act: all objects of a phrase, or its verb unless that could be of any act."""
    heavy = {phrase.verb for phrase in act if phrase.verb and phrase.verb not in LIGHT_VERBS}
    if any(word in forms(verb) for verb in heavy for word in words):
        return True
    return any(all(any(is_same(word, each) for word in words) for each in phrase.objects) for phrase in act)


def _merged(words: Sequence[str]) -> tuple[str, ...]:
    """The words, with phrases such as "at once" as one."""
    found = list(words)
    for phrase, word in _MERGED.items():
        while (at := _find(found, phrase)) is not None:
            found[at : at + len(phrase)] = [word]
    return tuple(found)


def _find(words: Sequence[str], phrase: tuple[str, ...]) -> int | None:
    first, length = phrase[0], len(phrase)
    for at, word in enumerate(words):
        if word == first and tuple(words[at : at + length]) == phrase:
            return at
    return None


def orders(words: Sequence[str], acts: Sequence[Sequence[ActPhrase]], *, amount: bool) -> frozenset[int] | None:
    """Which of the acts the sentence orders, if every word of it is known; else None.

    Empty if it says nothing at all, like "Immediate actions:". `amount`: it has an amount that is right.
    """
    found = _merged(words)
    exact = exactly(words, acts)
    if exact:
        return exact
    if all(word in _BEFORE for word in found):
        plain = _is_plain_opening(found) and (found[0] in _LABELS or not any(word.isdigit() for word in found))
        return frozenset() if plain else None
    passive = _passive(found, acts)
    if passive:
        return passive
    start = next((at for at, word in enumerate(found) if word not in _BEFORE), 0)
    known = [phrase for act in acts for phrase in act if not phrase.exact]
    if not _is_plain_opening(found[:start]):
        return None
    if not _opens_order(found[start], known):
        return _telegraphic(found, start, acts, amount=amount)
    matched: set[int] = set()
    for segment in _segments(found[start:], known):
        mine = _ordered(segment, acts)
        if not mine:
            return None
        matched |= mine
    return frozenset(matched)


def exactly(words: Sequence[str], acts: Sequence[Sequence[ActPhrase]]) -> frozenset[int]:
    """The acts of which a phrase is all that the words say."""
    found = _merged(words)
    return frozenset(number for number, act in enumerate(acts) for phrase in act if _is_exactly(found, phrase))


def _is_exactly(words: tuple[str, ...], phrase: ActPhrase) -> bool:
    """Whether the sentence is the phrase and nothing more than small words and urgency."""
    if len(phrase.words) < 2 and not phrase.exact:
        return False
    at = _find([word for word in words if word not in _SMALL], phrase.words)
    rest = [word for word in words if word not in _SMALL]
    if at is None:
        return False
    around = [*rest[:at], *rest[at + len(phrase.words) :]]
    return all(word in _ADVERBS or word == "please" for word in around)


def _is_plain_opening(words: tuple[str, ...]) -> bool:
    """Whether an auxiliary has its subject before it: "you should", not "should you"."""
    return all(
        words[at - 1 : at] and (words[at - 1] in _SUBJECTS or (word == "to" and words[at - 1] in _AUXILIARIES))
        for at, word in enumerate(words)
        if word in _AUXILIARIES or word == "to"
    )


def _opens_order(word: str, known: Sequence[ActPhrase]) -> bool:
    return any(phrase.verb and word in phrase.verbs for phrase in known)


def _segments(words: tuple[str, ...], known: Sequence[ActPhrase]) -> list[tuple[str, ...]]:
    """The orders of a sentence, each from its verb to the next one."""
    starts = [at for at, word in enumerate(words) if _opens_order(word, known)]
    return [words[start:end] for start, end in zip(starts, [*starts[1:], len(words)], strict=True)]


def _ordered(segment: tuple[str, ...], acts: Sequence[Sequence[ActPhrase]]) -> set[int]:
    """The acts that a segment orders; none if it has a word that they do not explain."""
    end = len(segment)
    while end > 1 and segment[end - 1] in _BEFORE and not segment[end - 1].isdigit():
        end -= 1
    if not _is_plain_opening(segment[end:]):
        return set()
    verb, rest = segment[0], [word for word in segment[1:end] if word not in _AFTER]
    fitting = [
        (number, phrase)
        for number, act in enumerate(acts)
        for phrase in act
        if not phrase.exact and (verb in phrase.verbs if phrase.verb else _is_given(verb))
    ]
    allowed = {form for _, phrase in fitting for word in phrase.objects for form in forms(word)}
    if any(word not in allowed for word in rest):
        return set()
    return {number for number, phrase in fitting if _in_order(rest, phrase.objects)}


def _is_given(verb: str) -> bool:
    return verb in FAMILIES[0]


def _in_order(words: Sequence[str], wanted: Sequence[str]) -> bool:
    at = 0
    for word in words:
        if at < len(wanted) and word in forms(wanted[at]):
            at += 1
    return at == len(wanted)


def _telegraphic(
    words: tuple[str, ...], start: int, acts: Sequence[Sequence[ActPhrase]], *, amount: bool
) -> frozenset[int] | None:
    """An order without its verb: "Adrenaline 0.5 mg IM now"."""
    if not amount and "now" not in words and "immediately" not in words and "stat" not in words:
        return None
    if any(word in _SUBJECTS or word in _AUXILIARIES for word in words):
        return None
    rest = [word for word in words[start:] if word not in _AFTER]
    dropped = [
        (number, phrase)
        for number, act in enumerate(acts)
        for phrase in act
        if not phrase.exact and (not phrase.verb or phrase.verb in FAMILIES[0] or phrase.verb in FAMILIES[1])
    ]
    allowed = {form for _, phrase in dropped for word in phrase.objects for form in forms(word)}
    if any(word not in allowed for word in rest):
        return None
    found = frozenset(number for number, phrase in dropped if _in_order(rest, phrase.objects))
    return found if len(found) == 1 or (found and not any(word in _PREPOSITIONS for word in words)) else None


def _passive(words: tuple[str, ...], acts: Sequence[Sequence[ActPhrase]]) -> frozenset[int]:
    """ "Adrenaline must be given now"."""
    at = next((at for at in range(1, len(words) - 1) if words[at] == "be" and words[at - 1] in _OBLIGED), None)
    if at is None:
        return frozenset()
    head = [word for word in words[: at - 1] if word not in _BEFORE]
    tail = [word for word in words[at + 2 :] if word not in _AFTER]
    found: set[int] = set()
    for number, act in enumerate(acts):
        for phrase in act:
            if phrase.verb and not phrase.exact and _is_participle(words[at + 1], phrase):
                allowed = {form for word in phrase.objects for form in forms(word)}
                if all(word in allowed for word in (*head, *tail)) and _in_order([*head, *tail], phrase.objects):
                    found.add(number)
    return frozenset(found)


def _is_participle(word: str, phrase: ActPhrase) -> bool:
    return any(word in participle(verb) for verb in phrase.verbs)


def refuses(words: Sequence[str], act: Sequence[ActPhrase], *, reason: bool = False) -> bool:
    """Whether the words refuse the act and say nothing else; `reason`: except why."""
    if _DENYING.isdisjoint(words):
        return False
    found = _merged(words)
    for phrase in _AT_PRESENT:
        if (at := _find(found, phrase)) is not None:
            found = (*found[:at], "now", *found[at + len(phrase) :])
    start = next((at for at, word in enumerate(found) if word not in _ADVERBS and word not in ("please", "and")), 0)
    for lead in _NOT_TO:
        if found[start : start + len(lead)] == lead:
            rest = _before_reason(found[start + len(lead) :], cut=reason)
            if any(_names(rest, phrase, lead) for phrase in act):
                return True
    for denial in (*_IS_NOT, *_MUST_NOT_BE):
        at = _find(found, denial)
        if at is None:
            continue
        rest = _before_reason(found[at + len(denial) :], cut=reason)
        if any(_is_refused(found[start:at], rest, phrase, passive=denial[-1] == "be") for phrase in act):
            return True
    return False


def _before_reason(words: tuple[str, ...], *, cut: bool) -> tuple[str, ...]:
    at = next((at for at, word in enumerate(words) if word in _REASON), None)
    return words[:at] if cut else words


_YET = word_set("yet here now today")


def _names(words: tuple[str, ...], phrase: ActPhrase, lead: tuple[str, ...]) -> bool:
    """Whether the words are the phrase and nothing more; after "no" and "avoid" the verb may be missing."""
    rest = [word for word in words if word not in _SMALL and word not in _YET]
    if not phrase.verb:
        rest = rest[1:] if rest and _is_given(rest[0]) else rest
        return _is_same(rest, phrase.objects)
    if rest and any(rest[0] in forms(verb) for verb in phrase.verbs):
        return _is_same(rest[1:], phrase.objects)
    bare = lead[-1] in ("no", "avoid", "withhold", "for") and phrase.verb in FAMILIES[0]
    return bare and _is_same(rest, phrase.objects)


def _is_same(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(words) == len(wanted) and _in_order(words, wanted)


def _is_refused(head: tuple[str, ...], tail: tuple[str, ...], phrase: ActPhrase, *, passive: bool) -> bool:
    objects = [word for word in head if word not in _SMALL]
    rest = [word for word in tail if word not in _YET]
    if passive:
        if not phrase.verb or not rest or not _is_participle(rest[0], phrase):
            return False
        rest = rest[1:]
    elif phrase.verb and objects and any(objects[0] in forms(verb) for verb in phrase.verbs):
        objects = objects[1:]
    return not rest and _is_same(objects, phrase.objects)


def advised(clause: Clause, around: Sequence[Clause], act: Sequence[ActPhrase]) -> ActPhrase | None:
    """The phrase of the act that the clause opens with, as a plain order, whatever else it says.

    `around` are the clauses of the sentence that may undo it. Nothing in them may deny, ask, limit or put off.
    """
    words = _merged(parts(clause.folded))
    words = words[: _find(words, ("so", "that"))]
    undoing = [other for other in around if other.folded not in _TURNING]
    if clause.marks & {Mark.QUESTION, Mark.QUOTATION} or any(other.marks for other in undoing):
        return None
    for phrase in act:
        for at in _verb_places(words, phrase.verb):
            verb = words[at]
            fits = verb in phrase.verbs if phrase.verb else verb in _spelled(VERBS)
            end = _end_of_objects(words, at + 1, phrase) if fits and (phrase.verb or not phrase.exact) else None
            if end is not None and not _undone(words, at, end):
                return phrase
    return None


_TURNING = (("actually",), ("on", "second", "thoughts"), ("on", "second", "thought"), ("on", "reflection"))
_OPENING = (("in", "parallel"), ("in", "addition"), ("meanwhile",), ("additionally",), ("in", "the", "meantime"))
_LETTING = (("let", "her"), ("let", "him"), ("let", "them"))


def _verb_places(words: tuple[str, ...], verb: str) -> list[int]:
    """Where an order may begin: at the start, or after "and" if it starts with one. `verb` is known besides `VERBS`."""
    skipped = 0
    for leads in (_OPENING, _LETTING):
        skipped += next((len(lead) for lead in leads if words[skipped : skipped + len(lead)] == lead), 0)
    start = next((at for at, word in enumerate(words) if at >= skipped and word not in (_BEFORE | _ALLOWED)), None)
    if start is None or (words[start] not in _spelled(VERBS) and words[start] != verb):
        return []
    joined = [at + 1 for at, word in enumerate(words[:-1]) if word in _JOINING or word == "then"]
    return [start, *(at for at in joined if at > start)]


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
    if at < len(words) and not (words[at] in _LEFT_OPEN or words[at][0].isdigit()):
        return None
    return at


def _leads_to(words: tuple[str, ...], at: int, wanted: str) -> bool:
    """Whether the words from `at` are other objects of the same verb: "give X and Y"."""
    end = next(index for index in range(at, len(words)) if words[index] in forms(wanted))
    between = words[at:end]
    return between[-1] in _JOINING and not any(word in _PREPOSITIONS or word in _spelled(VERBS) for word in between)


_ALLOWED = word_set("she he they patient can")
"""Before the verb: somebody may do it, which for a forbidden act is as bad as an order."""
_UNDOING = word_set("she he they it patient you we will would")


def _undone(words: tuple[str, ...], verb: int, end: int) -> bool:
    """Whether the rest of the clause takes something back: "give X and she dies", "give X only if"."""
    rest = (*words[:verb], *words[end:])
    plain = tuple(word for word in rest if word not in ("must", "should", "need", "needs"))
    if marked(plain, ENGLISH.marks) or any(word.endswith("n't") for word in rest):
        return True
    after = words[end : end + 2]
    return len(after) == 2 and after[0] in _JOINING and after[1] in _UNDOING
