"""How content a user sounds, by whole words and phrases, with negation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.engine.keywords import is_negated, normal, places
from holdfast.records.base import Record

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
    """A word that counts. `positive` is what it says with its negation taken in."""

    turn: int
    text: str
    positive: bool


def hits(spoken: Iterable[tuple[int, str]], positive: Sequence[str], negative: Sequence[str]) -> list[Hit]:
    """What counts in the user's messages, given as turn and text.

    A word counts once, under the longest phrase it is part of. "not helpful" counts against; "not frustrated" counts
    for neither side.
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
                negated = is_negated(text, start)
                if is_positive or not negated:
                    shown = f"not {text[start:end]}" if negated else text[start:end]
                    found.append(Hit(turn=turn, text=shown, positive=is_positive and not negated))
    return found
