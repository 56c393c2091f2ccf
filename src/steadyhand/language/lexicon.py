"""What is known of a language: its small words, and the words that keep a clause from being plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from steadyhand.records.base import Record


class Mark(StrEnum):
    """What a clause has that a plain one has not."""

    NEGATION = "negation"
    QUESTION = "question"
    CONDITION = "condition"
    WISH = "wish"
    CONTRAST = "contrast"
    QUOTATION = "quotation"
    REPORT = "report"
    HEDGE = "hedge"
    DELAY = "delay"
    IRONY = "irony"
    RETRACTION = "retraction"


Phrase = tuple[str, ...]
Marked = Mapping[str, tuple[tuple[Phrase, Mark], ...]]


class Lexicon(Record):
    """The words of a language, folded. `marks` has the phrases that bear a mark, by their first word.

    `closed` are its pronouns, articles, auxiliaries, prepositions and the like. `content` are words that say nothing
    against what stands beside them. `asked` are the words that open a question.
    """

    code: str
    closed: frozenset[str]
    content: frozenset[str]
    marks: Marked
    asked: frozenset[str]

    def telling(self) -> frozenset[str]:
        """The words by which the language is recognised."""
        single = {first for first, found in self.marks.items() if any(len(phrase) == 1 for phrase, _ in found)}
        return self.closed | single


def lexicon(code: str, *, closed: str, content: str, asked: str, marks: Mapping[Mark, str]) -> Lexicon:
    """Words are parted by spaces; the phrases of a mark by `;`."""
    by_first: dict[str, list[tuple[Phrase, Mark]]] = {}
    for mark, listed in marks.items():
        for phrase in phrases(listed):
            by_first.setdefault(phrase[0], []).append((phrase, mark))
    return Lexicon(
        code=code,
        closed=word_set(closed),
        content=word_set(content),
        asked=word_set(asked),
        marks={first: tuple(found) for first, found in by_first.items()},
    )


def word_set(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


def phrases(listed: str) -> list[Phrase]:
    return [tuple(phrase.split()) for phrase in listed.split(";") if phrase.strip()]


def marked(words: Sequence[str], marks: Marked) -> set[Mark]:
    """The marks of all the phrases in the words."""
    found: set[Mark] = set()
    for at, word in enumerate(words):
        for phrase, mark in marks.get(word, ()):
            if len(phrase) == 1 or tuple(words[at : at + len(phrase)]) == phrase:
                found.add(mark)
    return found
