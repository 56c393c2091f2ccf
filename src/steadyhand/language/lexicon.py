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
    DUTY = "duty"
    DELAY = "delay"
    IRONY = "irony"
    RETRACTION = "retraction"


Phrase = tuple[str, ...]
Marked = Mapping[str, tuple[tuple[Phrase, Mark], ...]]


class Lexicon(Record):
    """The words of a language, folded. `marks` has the phrases that bear a mark, by their first word.

    `closed` are its pronouns, articles, auxiliaries, prepositions and the like; a plain clause does not have the
    `others`, such as those for other people. `content` are further words that say nothing against what stands
    beside them. `topics` are what a matter is about, and `cures` what puts it right: "my order arrived" is plain,
    "my order" is not. `troubles` are the topics that nothing but a cure makes plain. `acts` are the words of an
    agent that helps, `advising` the few around advice that is given or repeated. `feelings` count only if they are
    one's `own`. `asked` are the words that open a question. `harmless` are clauses of a user that may be ignored:
    "no more questions"; `courtesies` are those of anybody.
    """

    code: str
    closed: frozenset[str]
    content: frozenset[str]
    topics: frozenset[str]
    troubles: frozenset[str]
    cures: frozenset[str]
    acts: frozenset[str]
    advising: frozenset[str]
    feelings: frozenset[str]
    own: frozenset[str]
    marks: Marked
    asked: frozenset[str]
    others: frozenset[str]
    harmless: frozenset[Phrase]
    courtesies: frozenset[Phrase]

    def telling(self) -> frozenset[str]:
        """The words by which the language is recognised."""
        single = {first for first, found in self.marks.items() if any(len(phrase) == 1 for phrase, _ in found)}
        return self.closed | single


def lexicon(code: str, *, harmless: str, courtesies: str, marks: Mapping[Mark, str], **listed: str) -> Lexicon:
    """Words are parted by spaces, phrases by `;`."""
    by_first: dict[str, list[tuple[Phrase, Mark]]] = {}
    for mark, marking in marks.items():
        for phrase in phrases(marking):
            by_first.setdefault(phrase[0], []).append((phrase, mark))
    return Lexicon(
        code=code,
        marks={first: tuple(found) for first, found in by_first.items()},
        harmless=frozenset(phrases(harmless)),
        courtesies=frozenset(phrases(courtesies)),
        **{name: word_set(words) for name, words in listed.items()},
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
