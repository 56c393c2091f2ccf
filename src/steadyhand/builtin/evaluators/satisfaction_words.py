"""How content a user sounds, by whole words and phrases, with negation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steadyhand.engine.negation import Reading, is_negated, normal, places, reading
from steadyhand.records.base import Record

POSITIVE = (
    "thank you", "thanks", "great", "perfect", "excellent", "wonderful", "awesome", "fantastic", "amazing", "helpful",
    "resolved", "solved", "fixed", "satisfied", "happy", "pleased", "glad", "appreciate", "works now", "that works",
    "that helps", "problem solved", "good job", "well done",
)  # fmt: skip
NEGATIVE = (
    "frustrated", "frustrating", "annoyed", "annoying", "angry", "upset", "disappointed", "disappointing", "useless",
    "unhelpful", "terrible", "awful", "horrible", "ridiculous", "unacceptable", "worse", "worst", "wrong", "unresolved",
    "unsatisfied", "dissatisfied", "unhappy", "confused", "confusing", "waste of time", "thanks for nothing",
    "still broken", "give up", "fed up", "complaint",
)  # fmt: skip


class Hit(Record):
    """A word that was said. `positive` is what it says with its negation taken in; None counts for neither side."""

    turn: int
    text: str
    positive: bool | None


def hits(spoken: Iterable[tuple[int, str]], positive: Sequence[str], negative: Sequence[str]) -> list[Hit]:
    """What counts in the user's messages, given as turn and text.

    A word counts once, under the longest phrase it is part of. "not helpful" counts against; "not frustrated" counts
    for neither side, nor does a positive word in a clause that cannot be told.
    """
    found: list[Hit] = []
    wanted = sorted({(phrase, True) for phrase in positive} | {(phrase, False) for phrase in negative})
    wanted.sort(key=lambda each: -len(each[0]))
    for turn, message in spoken:
        text = normal(message)
        taken: list[tuple[int, int]] = []
        for phrase, is_positive in wanted:
            for start, end in places(text, phrase):
                if any(start < other_end and other_start < end for other_start, other_end in taken):
                    continue
                taken.append((start, end))
                read = reading(text, start, end)
                negated = read is Reading.NEGATED or (not is_positive and is_negated(text, start))
                shown = f"not {text[start:end]}" if negated else text[start:end]
                found.append(Hit(turn=turn, text=shown, positive=_counts_for(read, is_positive, negated)))
    return found


def _counts_for(read: Reading, is_positive: bool, negated: bool) -> bool | None:
    if not is_positive:
        return None if negated else False
    return read is Reading.MEANT if negated or read is Reading.MEANT else None
