"""Orders of acts, in sentences of which every word is known.

A sentence is *read* if it has no other words than those of the acts that it orders, amounts that are right, and a
closed list of words that change nothing (`the`, `now`, `please`, `you must`). One unknown word, and nothing is claimed
about the sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from steadyhand.language.lexicon import word_set
from steadyhand.language.phrases import (
    ADVERBS,
    AFTER,
    BEFORE,
    PREPOSITIONS,
    SMALL,
    ActPhrase,
    find,
    in_order,
    is_given,
    is_participle,
    merged,
)
from steadyhand.language.words import FAMILIES, forms

STEP_LABELS = word_set("step priority order action")
_SUBJECTS = word_set("you we staff team everyone")
_OF_OTHERS = word_set("his her their")
_AUXILIARIES = word_set("must should need needs have has")
_OBLIGED = word_set("must should to")
BEING = word_set("be is are")


def orders(words: Sequence[str], acts: Sequence[Sequence[ActPhrase]], *, amount: bool) -> frozenset[int] | None:
    """Which of the acts the sentence orders, if every word of it is known; else None.

    Empty if it says nothing at all, like "Immediate actions:". `amount`: it has an amount that is right.
    """
    found = merged(words)
    if not found:
        return None
    exact = exactly(words, acts)
    if exact:
        return exact
    if all(word in BEFORE for word in found):
        plain = _is_plain_opening(found) and (found[0] in STEP_LABELS or not any(word.isdigit() for word in found))
        return frozenset() if plain else None
    start = next((at for at, word in enumerate(found) if word not in BEFORE), 0)
    known = [phrase for act in acts for phrase in act if not phrase.exact]
    if not _is_plain_opening(found[:start]):
        return None
    if passive := _passive(found, acts):
        return passive
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
    found = merged(words)
    return frozenset(number for number, act in enumerate(acts) for phrase in act if _is_exactly(found, phrase))


def _is_exactly(words: tuple[str, ...], phrase: ActPhrase) -> bool:
    """Whether the sentence is the phrase and nothing more than small words and urgency."""
    if len(phrase.words) < 2 and not phrase.exact:
        return False
    at = find([word for word in words if word not in SMALL], phrase.words)
    rest = [word for word in words if word not in SMALL]
    if at is None:
        return False
    around = [*rest[:at], *rest[at + len(phrase.words) :]]
    return all(word in ADVERBS or word == "please" for word in around)


def _is_plain_opening(words: tuple[str, ...]) -> bool:
    """Whether an auxiliary has its subject before it: "you should", not "should you" nor "their team should".
    A number is that of a step."""
    of_others = any(word in _OF_OTHERS and words[at + 1] in _SUBJECTS for at, word in enumerate(words[:-1]))
    if of_others or any(word.isdigit() and at and words[at - 1] not in STEP_LABELS for at, word in enumerate(words)):
        return False
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
    while end > 1 and segment[end - 1] in BEFORE and not segment[end - 1].isdigit():
        end -= 1
    if not _is_plain_opening(segment[end:]):
        return set()
    verb, rest = segment[0], [word for word in segment[1:end] if word not in AFTER]
    fitting = [
        (number, phrase)
        for number, act in enumerate(acts)
        for phrase in act
        if not phrase.exact and (verb in phrase.verbs if phrase.verb else is_given(verb))
    ]
    return _explaining(rest, fitting)


_ROUTES = word_set("im iv sc io po pr")


def _explaining(words: Sequence[str], phrases: Sequence[tuple[int, ActPhrase]]) -> set[int]:
    """The acts whose objects the words name in their order; none if these leave a word unexplained. A route may stand
    elsewhere: "adrenaline 0.5 mg IM" for "IM adrenaline"."""
    found = [(number, phrase) for number, phrase in phrases if in_order(words, phrase.objects)]
    explained = {form for _, phrase in found for word in phrase.objects for form in forms(word)}
    for _, phrase in phrases:
        if not _ROUTES.isdisjoint(phrase.objects) and set(phrase.objects) <= set(words):
            explained |= _ROUTES & set(phrase.objects)
    return {number for number, _ in found} if explained.issuperset(words) else set()


def _telegraphic(
    words: tuple[str, ...], start: int, acts: Sequence[Sequence[ActPhrase]], *, amount: bool
) -> frozenset[int] | None:
    """An order without its verb: "Adrenaline 0.5 mg IM now"."""
    if not amount and "now" not in words and "immediately" not in words and "stat" not in words:
        return None
    if any(word in _SUBJECTS or word in _AUXILIARIES for word in words):
        return None
    rest = [word for word in words[start:] if word not in AFTER]
    dropped = [
        (number, phrase)
        for number, act in enumerate(acts)
        for phrase in act
        if not phrase.exact and (not phrase.verb or phrase.verb in FAMILIES[0] or phrase.verb in FAMILIES[1])
    ]
    found = frozenset(_explaining(rest, dropped))
    return found if len(found) == 1 or (found and not any(word in PREPOSITIONS for word in words)) else None


def _passive(words: tuple[str, ...], acts: Sequence[Sequence[ActPhrase]]) -> frozenset[int]:
    """ "Adrenaline must be given now", "adrenaline is to be given", "adrenaline is given now"."""
    be = next((at for at in range(1, len(words) - 1) if words[at] in BEING), None)
    if be is None:
        return frozenset()
    at = be + 2 if words[be] != "be" and words[be + 1 : be + 3] == ("to", "be") else be
    while words[at + 1 : at + 2] and words[at + 1] in ADVERBS:
        at += 1
    obliged = words[be] != "be" or words[be - 1] in _OBLIGED
    doubled = words[be] != "be" and not _AUXILIARIES.isdisjoint(words[:be])
    if not obliged or doubled or at + 1 >= len(words):
        return frozenset()
    head = [word for word in words[: be if words[be] != "be" else be - 1] if word not in BEFORE]
    tail = [word for word in words[at + 2 :] if word not in AFTER]
    found: set[int] = set()
    for number, act in enumerate(acts):
        for phrase in act:
            if phrase.verb and not phrase.exact and is_participle(words[at + 1], phrase):
                allowed = {form for word in phrase.objects for form in forms(word)}
                if all(word in allowed for word in (*head, *tail)) and in_order([*head, *tail], phrase.objects):
                    found.add(number)
    return frozenset(found)
