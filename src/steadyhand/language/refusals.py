"""Whether an answer that names an act only says not to do it, or leaves it to somebody to decide.

Of a single sentence: that nothing else in the answer is about the act is for the reader of the answer to see.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from steadyhand.language.lexicon import word_set
from steadyhand.language.phrases import (
    ADVERBS,
    JOINING,
    SMALL,
    TURNING,
    ActPhrase,
    content_words,
    find,
    in_order,
    is_given,
    is_participle,
    merged,
    names,
    touches,
)
from steadyhand.language.words import FAMILIES, VERBS, forms, is_kin, participle, spelling

_NOT_TO = (
    ("do", "not"), ("don't",), ("dont",), ("never",), ("avoid",), ("withhold",), ("no", "need", "to"), ("no",),
    ("there", "is", "no", "need", "to"), ("there", "is", "no", "need", "for"), ("must", "not"), ("should", "not"),
    ("you", "must", "not"), ("you", "should", "not"), ("no", "need", "for"), ("you", "do", "not", "need", "to"),
    ("there's", "no", "need", "to"), ("there's", "no", "need", "for"), ("you", "don't", "need", "to"),
    *((*lead, "no", *rest) for lead in ((), ("there", "is"), ("there's",), ("i", "see"))
      for rest in (("reason", "to"), ("point", "in"), ("cause", "to"), ("reason", "for"), ("cause", "for"))),
    ("you", "need", "not"), ("you", "needn't"), ("you", "do", "not", "have", "to"), ("you", "don't", "have", "to"),
)  # fmt: skip
_IS_NOT = tuple(
    tuple(spelling(word) for word in f"{verb} {rest}".split())
    for negated, verb in (("not ", "is"), ("not ", "are"), ("", "isn't"), ("", "aren't"))
    for rest in (
        *(f"{negated}{word}" for word in ("needed", "necessary", "required", "indicated", "recommended", "warranted",
                                          "appropriate", "called for", "to be", "an option", "a priority")),
        *(("unnecessary", "contraindicated", "premature", "out of place") if negated else ()),
    )
)  # fmt: skip
_MUST_NOT_BE = tuple(
    (*phrase.split(), "be")
    for phrase in (
        "must not", "should not", "mustn't", "shouldn't", "need not", "needn't", "ought not to", "has not to",
        *(f"{verb} {need} to" for verb in ("does not", "do not", "doesn't", "don't") for need in ("need", "have")),
    )
)  # fmt: skip
_AT_PRESENT = (
    ("at", "this", "stage"), ("at", "this", "point"), ("at", "the", "moment"), ("at", "present"), ("for", "now"),
)  # fmt: skip
_DENYING = word_set(
    "not no never avoid withhold unnecessary contraindicated don't dont doesn't shouldn't mustn't needn't isn't aren't "
    "premature out"
)
"""Every refusal has one of these."""
_REASON = word_set("because since")
_TAIL = word_set("for while until till as because since before")
_NARROWING = word_set(
    "without unless only alone but except instead if when once than more further again twice second another other "
    "extra iv im io sc po intravenous intravenously intramuscularly vein line bolus oral orally yourself same too just"
)
"""Words after a refusal that leave another way of doing it."""
_LINKING_ORDERS = word_set("and then so but")
_COMMANDING = VERBS - word_set("have be do")
_REACH = 40
"""No refusal is longer, in words."""
_REFERRING = word_set("it this that one them so")


def refuses(words: Sequence[str], act: Sequence[ActPhrase], *, reason: bool = False) -> bool:
    """Whether the words refuse the act and say nothing else; `reason`: except why."""
    if _DENYING.isdisjoint(words):
        return False
    found = merged(words)
    for phrase in _AT_PRESENT:
        if (at := find(found, phrase)) is not None:
            found = (*found[:at], "now", *found[at + len(phrase) :])
    start = next((at for at, word in enumerate(found) if word not in ADVERBS and word not in ("please", "and")), 0)
    for lead in _NOT_TO:
        if found[start : start + len(lead)] == lead:
            rest = _before_reason(found[start + len(lead) :], cut=reason)
            if any(_names(rest, phrase, lead) for phrase in act):
                return True
    for denial in (*_IS_NOT, *_MUST_NOT_BE):
        at = find(found, denial)
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
    rest = [word for word in words if word not in SMALL and word not in _YET]
    if lead == ("no",) and rest and (rest[0] in phrase.verbs if phrase.verb else is_given(rest[0])):
        return False  # "No, give it!"
    if not phrase.verb:
        rest = rest[1:] if rest and is_given(rest[0]) else rest
        return _is_same(rest, phrase.objects)
    if rest and any(rest[0] in forms(verb) for verb in phrase.verbs):
        return _is_same(rest[1:], phrase.objects)
    bare = lead[-1] in ("no", "avoid", "withhold", "for") and phrase.verb in FAMILIES[0]
    return bare and _is_same(rest, phrase.objects)


def _is_same(words: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(words) == len(wanted) and in_order(words, wanted)


def _is_refused(head: tuple[str, ...], tail: tuple[str, ...], phrase: ActPhrase, *, passive: bool) -> bool:
    objects = [word for word in head if word not in SMALL]
    rest = [word for word in tail if word not in _YET]
    if passive:
        given = not phrase.verb and rest[:1] and rest[0] in participle("give")
        if not rest or not (given or (phrase.verb and is_participle(rest[0], phrase))):
            return False
        rest = rest[1:]
    elif phrase.verb and objects and any(objects[0] in forms(verb) for verb in phrase.verbs):
        objects = objects[1:]
    return not rest and _is_same(objects, phrase.objects)


def denies(words: Sequence[str], act: tuple[ActPhrase, ...]) -> bool:
    """Whether the words open with a refusal of the act, and go on about nothing but why, what for or how long."""
    for end in range(min(len(words), _REACH), 2, -1):
        if refuses(words[:end], act):
            rest = tuple(words[end:])
            leaves_a_way = any(word in _NARROWING or word in _COMMANDING for word in rest)
            return (not rest or rest[0] in _TAIL) and not leaves_a_way and not touches(rest, act)
    return False


def leaves_open(words: Sequence[str], act: tuple[ActPhrase, ...]) -> bool:
    """Whether the act is named only as what somebody is to find out or to decide: "ask him whether to call"."""
    at = next((at for at, word in enumerate(words) if word == "whether"), len(words))
    if find(words, ("or", "not")) is not None:
        return False  # come what may
    orders_more = any(word in _LINKING_ORDERS and after in VERBS for word, after in itertools.pairwise(words))
    return touches(tuple(words[at:]), act) and not touches(tuple(words[:at]), act) and not orders_more


def may_mean(words: tuple[str, ...], act: tuple[ActPhrase, ...]) -> bool:
    """Whether the words may be about the act, if only by a pronoun: "do it", "use the other one instead"."""
    referring = any(word in VERBS and after in _REFERRING for word, after in itertools.pairwise(words))
    return touches(words, act) or referring or "instead" in words


_WITHDRAWING = word_set("cancel forget scrap skip omit drop belay withhold abandon rescind")
_PUTTING = word_set("leave keep put call stand hold")
_ASIDE = word_set("out back off aside away down")
_TRAILING = (("after", "all"), ("though",), ("then",), ("altogether",), ("instead",), ("for", "now"), ("now",))
_LINKS = tuple((word,) for word in ("and", "then", "so", "but", "however", "please", "just"))
_WHY = word_set("as because since so until till for")


def withdraws(segments: Sequence[tuple[str, ...]], act: tuple[ActPhrase, ...]) -> bool:
    """Whether a sentence takes the act back: "Sorry, scrap the calcium after all". Nothing else in it names the act."""
    taken = [at for at, words in enumerate(segments) if _takes_back(_without_lead(words), act)]
    return bool(taken) and not any(names(words, act) for at, words in enumerate(segments) if at not in taken)


_BACK = word_set("that this it all everything the above of please now then")


def points_back(words: Sequence[str]) -> bool:
    """Whether the words take back what was just said, whatever it is: "Belay that", "Forget all that"."""
    rest = _without_lead(words)
    turned = "that" in words[: len(words) - len(rest)]
    said = rest if turned else rest[1:]
    end = next((at for at, word in enumerate(said) if word in JOINING), len(said))
    withdrawn = rest[:1] != () and rest[0] in _WITHDRAWING and end > 0
    return (turned or withdrawn) and _BACK.issuperset(said[:end])


def _without_lead(words: Sequence[str]) -> tuple[str, ...]:
    rest = tuple(words)
    while lead := next((lead for lead in (*TURNING, *_LINKS) if rest[: len(lead)] == lead), None):
        rest = rest[len(lead) :]
    return rest


def _takes_back(words: tuple[str, ...], act: tuple[ActPhrase, ...]) -> bool:
    if refuses(words, act, reason=True) or denies(words, act):
        return True
    end = next((at for at, word in enumerate(words) if at and word in _WHY), len(words))
    said = words[:end]
    for tail in _TRAILING:
        if said[-len(tail) :] == tail:
            said = said[: -len(tail)]
    if len(said) > 1 and said[0] in _WITHDRAWING:
        named = said[1:]
    elif len(said) > 2 and said[0] in _PUTTING and said[-1] in _ASIDE:
        named = said[1:-1]
    else:
        return False
    wanted = content_words(act)
    plain = [word for word in named if word not in SMALL and word != "that"]
    return bool(plain) and all(any(is_kin(word, each) for each in wanted) for word in plain)
