"""Whether a keyword is meant as it is said: yes, no, or cannot tell.

Yes is a matter of what is known, not of what is suspected: the clause has none of the marks that can turn its sense,
every word in it is one that says nothing against the keyword, and the rest of the message is plain too. A word that is
not known may turn anything: "Excellent way to lose a customer".
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.clauses import LEXICA, Clause, Word, clauses, marks_of
from steadyhand.language.lexicon import Lexicon, Mark, Phrase, word_set
from steadyhand.language.statements import CONTRARY, LONGEST, because, known_words, not_known
from steadyhand.records.base import Record
from steadyhand.text_fold import fold, is_unspaced

_MOST_PLACES = 50
_FACES = word_set(
    """
    :) :-) :D :-D =) \U0001f642 \U0001f60a \U0001f600 \U0001f601 \U0001f603 \U0001f604 \U0001f44d \U0001f64f \u2764
    \u263a \u2665 \u2705 \U0001f389 \U0001f60d \U0001f970 \U0001f44c \U0001f4af \U0001f917 \U0001f49a \U0001f499
    """
)
_TRAILING_OFF = ("..", "\u2026")
_DENIED = frozenset((Mark.NEGATION, Mark.REPORT))
_OWN_VIEW = word_set("think believe feel said say find")
_REFUSING = word_set("no nope nah nein non")
_SUBJECTS = word_set("i it this that we you all everything es das ich c' ça está")
_OWN_OPENING = word_set("i we nothing none")
_FILLING = word_set(
    """
    really very again right so now absolutely exactly truly completely totally definitely wirklich wieder sehr ganz
    genau absolut vraiment très exactement absolument realmente muy exactamente
    """
)
"""Words that do not make a clause: "helpful, really"."""

_OPEN_END = word_set("am is are was were be been have has do ist sind war bin est sont était es son")
"""Verbs that a plain clause does not end with: "a great help you were"."""

_TURNED = word_set("so more better as only too happier longer")
"""After a negation these may turn it into praise: "never been so happy"."""


class KeywordReading(Record):
    """A keyword as it is said in one place."""

    keyword: str
    reading: Ruling


def keyword_readings(
    message: str, keywords: Iterable[str], *, contrary: Iterable[str] = (), advice: bool = False
) -> tuple[KeywordReading, ...]:
    """How each keyword is said, place by place. A word belongs to the longest keyword it is part of.

    Both are folded first; a reading has a place only if that changed nothing. No keyword is meant in a message that has
    one of the `contrary`. With `advice`, the message is long and about the world: its other sentences may have words
    that are not known, but nothing that negates or withdraws.
    """
    return _Message(message, tuple(keywords), tuple(contrary), advice=advice).said()


def keyword_meant(message: str, keywords: Iterable[str], *, advice: bool = False) -> KeywordReading | None:
    """What the keywords come to: the first that is meant, if none is negated; else the first that is said."""
    found = keyword_readings(message, keywords, advice=advice)
    if all(said.reading.answer is not Certainty.NO for said in found):
        return next((said for said in found if said.reading.answer is Certainty.YES), found[0] if found else None)
    return next(said for said in found if said.reading.answer is Certainty.NO)


class _Message:
    """A message and the keywords looked for in it."""

    def __init__(self, text: str, keywords: Sequence[str], contrary: Sequence[str], *, advice: bool) -> None:
        self.text = fold(text, case_sensitive=True)
        self.clauses = clauses(self.text)
        self.as_written = self.text == text
        self.everything = tuple(word for each in self.clauses for word in each.folded if word not in _FACES)
        self.advice = advice
        self.contrary = frozenset(contrary)
        self.folded = {keyword: folded_words(keyword) for keyword in dict.fromkeys((*keywords, *contrary))}
        self.places = self._places()
        self.said_at = self._said_at()
        self.known = [self._is_known(clause) for clause in self.clauses]
        self.against = self._against()
        self.harmless = [self._is_harmless(at) for at in range(len(self.clauses))]

    def said(self) -> tuple[KeywordReading, ...]:
        return tuple(
            KeywordReading(keyword=keyword, reading=self._reading(keyword, at, first))
            for keyword, at, first in self.places[:_MOST_PLACES]
        )

    def _against(self) -> dict[int, tuple[str, Certainty]]:
        """The keyword against that each clause has, and whether it is meant."""
        return {
            at: (keyword, self._told_against(self.clauses[at], self.folded[keyword], first)[0])
            for keyword, at, first in self.places
            if keyword in self.contrary
        }

    def _said_at(self) -> frozenset[int]:
        """Where the words of the keywords stand, other than the contrary ones."""
        return frozenset(
            word.start
            for keyword, at, first in self.places
            if first >= 0 and keyword not in self.contrary
            for word in self.clauses[at].words[first : first + len(self.folded[keyword])]
        )

    def _places(self) -> list[tuple[str, int, int]]:
        """Each keyword that is said, the clause and the word it starts with; -1 for a part of an unspaced text."""
        by_first: dict[str, list[tuple[str, Phrase]]] = {}
        for keyword, words in sorted(self.folded.items(), key=lambda item: -len(item[1])):
            if words:
                by_first.setdefault(words[0], []).append((keyword, words))
        found: list[tuple[str, int, int]] = []
        for at, clause in enumerate(self.clauses):
            words, first = clause.folded, 0
            while first < len(words):
                step = 1
                for keyword, wanted in by_first.get(words[first], ()):
                    if words[first : first + len(wanted)] == wanted:
                        found.append((keyword, at, first))
                        step = len(wanted)
                        break
                first += step
            found += self._inside(at, clause)
        return found

    def _inside(self, at: int, clause: Clause) -> list[tuple[str, int, int]]:
        unspaced = [word.text for word in clause.words if not word.text.isascii() and any(map(is_unspaced, word.text))]
        return [
            (keyword, at, -1)
            for keyword, words in self.folded.items()
            if unspaced and words and any(words != (word,) and _is_within("".join(words), word) for word in unspaced)
        ]

    def _reading(self, keyword: str, at: int, first: int) -> Ruling:
        clause = self.clauses[at]
        answer, why = self._read(keyword, at, first)
        start, end = (clause.start, clause.end) if self.as_written else (0, 0)
        return Ruling(answer=answer, why=why, clause=clause.text, start=start, end=end)

    def _read(self, keyword: str, at: int, first: int) -> tuple[Certainty, str]:
        clause, words = self.clauses[at], self.folded[keyword]
        if self._is_all_of_it(words, clause):
            return Certainty.YES, "it is the whole message"
        if first < 0:
            return Certainty.CANNOT_TELL, "it is part of a longer text"
        if len(clause.words) > LONGEST:
            return Certainty.CANNOT_TELL, "the clause is too long"
        if keyword in self.contrary:
            return self._told_against(clause, words, first)
        opposed = [said for said, answer in self.against.values() if answer is not Certainty.NO]
        if opposed:
            return Certainty.CANNOT_TELL, f"the message also says {opposed[0]!r}"
        return self._told_for(at, words, first)

    def _told_for(self, at: int, words: Phrase, first: int) -> tuple[Certainty, str]:
        clause = self.clauses[at]
        marks = self._marks_beside(clause, words, first) - ({Mark.DUTY} if self.advice else set())
        if marks and marks <= _DENIED and self._is_denied(clause, words, first):
            return Certainty.NO, "it is negated"
        if marks:
            return Certainty.CANNOT_TELL, because(marks)
        if unknown := self._unknown(clause):
            return Certainty.CANNOT_TELL, not_known(unknown)
        if why := self._misplaced(clause, words, first):
            return Certainty.CANNOT_TELL, why
        return self._beside(at)

    def _misplaced(self, clause: Clause, words: Phrase, first: int) -> str | None:
        """What is wrong with the place of the keyword in a clause of known words."""
        said, end = clause.folded, first + len(words)
        if _follows_to(clause, end):
            return f"{said[first]!r} is followed by 'to'"
        subject = set(said[:first]) - _FILLING - _FACES
        for each in LEXICA.values():
            if words[-1] in each.feelings and subject and not subject & each.own:
                return "it may be the feeling of somebody else"
        return None

    def _beside(self, at: int) -> tuple[Certainty, str]:
        """What the other clauses leave of it."""
        here = self.clauses[at]
        for index, clause in enumerate(self.clauses):
            if self.harmless[index]:
                continue
            if any(dots in clause.closing for dots in _TRAILING_OFF):
                return Certainty.CANNOT_TELL, "the message trails off"
            near = not self.advice or clause.sentence == here.sentence
            if index != at and (marks := clause.marks if near else clause.marks & CONTRARY):
                return Certainty.CANNOT_TELL, f"the message also says {clause.text[:80]!r}: {because(marks)}"
            if near and not self.known[index]:
                return Certainty.CANNOT_TELL, not_known(self._unknown(clause))
        return Certainty.YES, "it is said plainly"

    def _told_against(self, clause: Clause, words: Phrase, first: int) -> tuple[Certainty, str]:
        """A keyword against: it takes no more than a plain clause in a supported language."""
        if first < 0 or len(clause.words) > LONGEST:
            return Certainty.CANNOT_TELL, "it is part of a longer text"
        marks = self._marks_beside(clause, words, first) - {Mark.CONTRAST}
        if marks and marks <= _DENIED and self._is_denied(clause, words, first):
            return Certainty.NO, "it is negated"
        if marks:
            return Certainty.CANNOT_TELL, because(marks)
        if clause.language is None and not self._known_in(clause):
            return Certainty.CANNOT_TELL, "its language is not supported or cannot be told"
        return Certainty.YES, "it is said plainly"

    def _is_all_of_it(self, words: Phrase, clause: Clause) -> bool:
        """Whether nothing else is said, in any language."""
        dotted = any(dots in clause.closing for dots in _TRAILING_OFF)
        return self.everything == words and not dotted and not (clause.marks - marks_of(clause.folded, clause.language))

    def _marks_beside(self, clause: Clause, words: Phrase, first: int) -> frozenset[Mark]:
        """The marks of the clause without those of the keyword's own words."""
        rest = (*clause.folded[:first], "", *clause.folded[first + len(words) :])
        around = clause.marks - marks_of(clause.folded, clause.language)
        turned = (clause.marks & {Mark.QUESTION, Mark.IRONY}) - marks_of(words, clause.language)
        return marks_of(rest, clause.language) | around | turned

    def _is_denied(self, clause: Clause, words: Phrase, first: int) -> bool:
        """Whether one negation stands before it, with nothing that might turn it."""
        before = clause.folded[:first]
        denying = [word for word in before if Mark.NEGATION in marks_of((word,), clause.language)]
        # French has two parts to a negation.
        single = len([word for word in denying if word not in ("n'", "ne")]) == 1
        plain = Mark.NEGATION not in marks_of(("", *clause.folded[first + len(words) :]), clause.language)
        reporting = [word for word in clause.folded if Mark.REPORT in marks_of((word,), clause.language)]
        if reporting and (clause.folded[0] not in _OWN_OPENING or not _OWN_VIEW.issuperset(reporting)):
            return False
        if len(before) > 1 and before[0] in _REFUSING and before[1] in _SUBJECTS:
            return False  # "No it is resolved" answers a question
        unknown = set(self._unknown(clause)) - {*denying, *reporting, *words}
        return single and plain and not unknown and not _TURNED & set(clause.folded)

    def _is_known(self, clause: Clause) -> bool:
        return bool(self._known_in(clause))

    def _known_in(self, clause: Clause) -> list[str]:
        """The languages that know every word of it, of those it may be in."""
        codes = [clause.language] if clause.language else list(LEXICA)
        return [code for code in codes if not self._unknown_in(clause, LEXICA[code])]

    def _unknown(self, clause: Clause) -> list[str]:
        """The words that are not known in the language that knows it best."""
        codes = [clause.language] if clause.language else list(LEXICA)
        return min((self._unknown_in(clause, LEXICA[code]) for code in codes), key=len)

    def _unknown_in(self, clause: Clause, lexicon: Lexicon) -> list[str]:
        known = known_words(lexicon.code, advice=self.advice)
        unknown = [word.text for word in clause.words if not self._is_word_known(word, known)]
        return unknown if unknown or self.advice else self._unsettled(clause, lexicon)

    def _unsettled(self, clause: Clause, lexicon: Lexicon) -> list[str]:
        """What is left open: topics that are only named, as "my order" may be the start of anything, and the like."""
        words = set(clause.folded)
        praised = any(word.start in self.said_at for word in clause.words)
        if not praised and words <= _FILLING:
            return sorted(words)
        if clause.words[-1].text in _OPEN_END and clause.words[-1].start not in self.said_at:
            return [clause.words[-1].text]
        if words & lexicon.cures:
            return []
        return sorted(words & (lexicon.troubles if praised else lexicon.topics))

    def _is_word_known(self, word: Word, known: frozenset[str]) -> bool:
        text = word.text
        return text in known or word.start in self.said_at or text in _FACES or (self.advice and text[:1].isdigit())

    def _is_harmless(self, at: int) -> bool:
        """Whether the clause is one of the sayings that negate nothing: "no more questions"."""
        words = self.clauses[at].folded
        if Mark.QUESTION in self.clauses[at].marks:
            return False
        if words in _harmless() or self.against.get(at, ("", Certainty.YES))[1] is Certainty.NO:
            return True
        alone = words in (("no",), ("nope",), ("nein",), ("non",))
        return alone and at + 1 < len(self.clauses) and self.clauses[at + 1].folded in _harmless()


def _is_within(sought: str, text: str) -> bool:
    """Whether a text without spaces has what is sought, and not as a part of a word of another script."""
    at = text.find(sought)
    while at >= 0:
        joints = ((text[at - 1 : at], sought[0]), (text[at + len(sought) :][:1], sought[-1]))
        if all(not beside or is_unspaced(beside) or is_unspaced(edge) for beside, edge in joints):
            return True
        at = text.find(sought, at + 1)
    return False


def mentions(text: str, phrase: str) -> bool:
    """Whether the text has the phrase as whole words, meant or not."""
    return bool(keyword_readings(text, [phrase]))


@functools.lru_cache(maxsize=512)
def folded_words(keyword: str) -> Phrase:
    return tuple(word.text for clause in clauses(fold(keyword, case_sensitive=True)) for word in clause.words)


@functools.cache
def _harmless() -> frozenset[Phrase]:
    return frozenset(phrase for each in LEXICA.values() for phrase in each.harmless | each.courtesies)


def _follows_to(clause: Clause, after: int) -> bool:
    """ "Happy to help" is an offer; "thanks to you" is thanks."""
    following = clause.folded[after : after + 2]
    return following[:1] == ("to",) and following[1:] not in (("you",), ("all",), ("everyone",))
