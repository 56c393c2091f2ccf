"""Ways to name an act: `give adrenaline`, `use the auto-injector`, `potassium chloride`."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from steadyhand.language.clauses import clauses
from steadyhand.language.english import ENGLISH
from steadyhand.language.lexicon import word_set
from steadyhand.language.words import FAMILIES, LIGHT_VERBS, VERBS, forms, is_kin, is_same, participle, spelling
from steadyhand.records.base import Record

SMALL = word_set("a an the this these his her their your our of")
ADVERBS = word_set(
    "now immediately immediate stat urgently urgent promptly straightaway asap first firstly next then also too"
)
BEFORE = (
    SMALL
    | ADVERBS
    | word_set(
        "and please you we staff team everyone must should need needs have has to so ok okay yes & + \u2192 "
        "plan order orders action actions treatment management step steps priority answer decision recommendation "
        "1 2 3 4 5 6 7 8 9"
    )
)
AFTER = SMALL | ADVERBS | word_set("and & + \u2192 him them patient please here")
PREPOSITIONS = word_set("in into via at over for to from by with per through on as until before after during")
JOINING = word_set("and plus & +")
_MARKING = frozenset(first for first, found in ENGLISH.marks.items() if any(len(phrase) == 1 for phrase, _ in found))
TURNING = tuple(
    tuple(phrase.split())
    for phrase in (
        "actually", "on second thoughts", "on second thought", "on reflection", "correction", "scratch that",
        "cancel that", "belay that", "strike that", "no wait", "wait", "hang on", "hold on", "sorry", "then again",
        "no", "well", "better still", "in fact", "all the same", "in any case", "even so",
    )
)  # fmt: skip
"""What somebody says who changes their mind."""
_MERGED = {
    ("at", "once"): "now", ("right", "away"): "now", ("right", "now"): "now", ("straight", "away"): "now",
    ("without", "delay"): "now", ("to", "him"): "him", ("to", "her"): "him", ("to", "the", "patient"): "him",
    ("for", "him"): "him", ("for", "her"): "him", ("for", "the", "patient"): "him",
}  # fmt: skip


_OBJECTS = word_set("the a an his her their your him them it")  # after a verb: "mute the scanner"


def parts(words: Sequence[str]) -> tuple[str, ...]:
    """The words, parted at hyphens and in one spelling."""
    return _parts(tuple(words))


@functools.lru_cache(maxsize=4096)
def _parts(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([spelling(part) for word in words for part in _parted(word)])


def _parted(word: str) -> list[str]:
    """A sign that stands alone may turn what follows it, and stays: "// give", "-give-"."""
    return [part for part in word.replace("/", "-").split("-") if part] or [word]


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
    words = [word for word in parts([word for clause in clauses(text) for word in clause.folded]) if word not in SMALL]
    second = [word for clause in clauses(text) for word in clause.folded][1:2]
    has_object = not _OBJECTS.isdisjoint(second)
    verb = words[0] if has_object or (len(words) > 1 and words[0] in spelled(VERBS)) else ""
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
def spelled(words: frozenset[str]) -> frozenset[str]:
    return frozenset(map(spelling, words))


@functools.lru_cache(maxsize=1024)
def content_words(phrases: tuple[ActPhrase, ...]) -> frozenset[str]:
    """The words by which a mention of the act can be recognised."""
    light = spelled(LIGHT_VERBS) | ENGLISH.closed | _MARKING
    found = frozenset(word for phrase in phrases for word in phrase.words if word not in light)
    return found or frozenset(word for phrase in phrases for word in phrase.words)


@functools.lru_cache(maxsize=4096)
def touches(words: tuple[str, ...], act: tuple[ActPhrase, ...]) -> bool:
    """Whether anything in the words may be about the act: kin of a word of it, or its initials. A generous measure."""
    wanted = content_words(act)
    initials = {"".join(word[0] for word in phrase.words) for phrase in act if len(phrase.words) > 1} - ENGLISH.closed
    return any(is_kin(word, each) for word in words for each in wanted) or not initials.isdisjoint(words)


def mentions(words: Sequence[str], act: Sequence[ActPhrase]) -> bool:
    """Whether the words name the act: all objects of a phrase, or its verb unless that could be of any act."""
    heavy = {phrase.verb for phrase in act if phrase.verb and phrase.verb not in LIGHT_VERBS}
    if any(word in forms(verb) for verb in heavy for word in words):
        return True
    named = [phrase.objects for phrase in act if phrase.objects]
    return any(all(any(is_same(word, each) for word in words) for each in objects) for objects in named)


def names(words: Sequence[str], act: Sequence[ActPhrase]) -> bool:
    """Whether the words name the act, and not only what other acts may be about too."""
    for phrase in act:
        telling = phrase.verb and phrase.verb not in LIGHT_VERBS and phrase.verb not in FAMILIES[1]
        if telling and any(word in forms(verb) for verb in phrase.verbs for word in words):
            return True
        if telling and len(phrase.objects) < 2:
            continue
        if phrase.objects and all(any(word in forms(each) for word in words) for each in phrase.objects):
            return True
    return False


@functools.lru_cache(maxsize=4096)
def concerns(words: tuple[str, ...], act: tuple[ActPhrase, ...], others: tuple[ActPhrase, ...]) -> bool:
    """Whether the words may be about the act. What they share with a phrase of `others` that they name does not count,
    unless they name the act as well; nor does that somebody is called."""
    if names(words, act):
        return True
    explained = {each for phrase in others if names(words, (phrase,)) for each in phrase.words} | FAMILIES[1]
    return touches(tuple([word for word in words if not any(is_kin(word, each) for each in explained)]), act)


def merged(words: Sequence[str]) -> tuple[str, ...]:
    """The words, with phrases such as "at once" as one."""
    return _merged(tuple(words))


@functools.lru_cache(maxsize=4096)
def _merged(words: tuple[str, ...]) -> tuple[str, ...]:
    found = list(words)
    for phrase, word in _MERGED.items():
        while phrase[0] in found and (at := find(found, phrase)) is not None:
            found[at : at + len(phrase)] = [word]
    return tuple(found)


def find(words: Sequence[str], phrase: tuple[str, ...]) -> int | None:
    first, length = phrase[0], len(phrase)
    if first not in words:
        return None
    for at, word in enumerate(words):
        if word == first and tuple(words[at : at + length]) == phrase:
            return at
    return None


def is_given(verb: str) -> bool:
    return verb in FAMILIES[0]


def in_order(words: Sequence[str], wanted: Sequence[str]) -> bool:
    at = 0
    for word in words:
        if at < len(wanted) and word in forms(wanted[at]):
            at += 1
    return at == len(wanted)


def is_participle(word: str, phrase: ActPhrase) -> bool:
    return any(word in participle(verb) for verb in phrase.verbs)
