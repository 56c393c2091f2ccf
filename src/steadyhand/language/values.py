"""Which amount belongs to which name."""

from __future__ import annotations

from collections.abc import Sequence

from steadyhand.language.amounts import Measure
from steadyhand.language.clauses import Clause
from steadyhand.language.lexicon import word_set
from steadyhand.language.phrases import parts
from steadyhand.language.words import forms

_LINKING = word_set(
    "of dose dosed at a the iv im io sc po intramuscular intramuscularly intravenous intravenously i.m i.v now stat"
)


def is_bound(
    amount: Measure, sentence: Sequence[Clause], names: Sequence[tuple[str, ...]], near: Sequence[Measure]
) -> bool:
    """Whether a name stands right before or after the amount, and no other word or amount of the sentence claims it."""
    tokens = [(part, word.start) for clause in sentence for word in clause.words for part in parts([word.text])]
    inside = [(other.start, other.end) for other in near]
    left = [part for part, at in tokens if at < amount.start and not is_within(at, inside)]
    right = [part for part, at in tokens if at >= amount.end and not is_within(at, inside)]
    crowded = any(other is not amount and other.dimension == amount.dimension for other in near)
    after = _skipped(right)
    if any(_starts(after, name) for name in names):
        return not crowded
    if right and not (right[0] in _LINKING or right[0] in _AFTER_VALUE or right[0][0].isdigit()):
        return False
    before = _skipped(left[::-1])[::-1]
    return right[:1] != ["of"] and not crowded and any(_ends(before, name) for name in names)


_AFTER_VALUE = word_set(
    "into in via through over by as to and then plus iv im every repeat repeated if & + \u2192 for with chewed "
    "crushed dispersed swallowed po pr io im sc orally nasally slowly bolus stat neat daily undiluted "
    "is are must should"
)


def is_within(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= at < end for start, end in spans)


def _skipped(words: Sequence[str]) -> list[str]:
    at = 0
    while at < min(len(words), 4) and (words[at] in _LINKING or ":" in words[at]):
        at += 1
    return list(words[at:])


def _starts(words: Sequence[str], name: Sequence[str]) -> bool:
    return len(words) >= len(name) and all(word in forms(each) for word, each in zip(words, name, strict=False))


def _ends(words: Sequence[str], name: Sequence[str]) -> bool:
    return _starts(list(words)[-len(name) :], name) if len(words) >= len(name) else False
