"""Whether an answer that names an act only says not to do it, or leaves it to somebody to decide.

Of a single sentence: that nothing else in the answer is about the act is for the reader of the answer to see.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from steadyhand.language.acts import ActPhrase, refuses, touches
from steadyhand.language.lexicon import word_set
from steadyhand.language.words import VERBS

_TAIL = word_set("for while until till as because since")
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
    orders_more = any(word in _LINKING_ORDERS and after in VERBS for word, after in itertools.pairwise(words))
    return touches(tuple(words[at:]), act) and not touches(tuple(words[:at]), act) and not orders_more


def may_mean(words: tuple[str, ...], act: tuple[ActPhrase, ...]) -> bool:
    """Whether the words may be about the act, if only by a pronoun: "do it", "use the other one instead"."""
    referring = any(word in VERBS and after in _REFERRING for word, after in itertools.pairwise(words))
    return touches(words, act) or referring or "instead" in words
