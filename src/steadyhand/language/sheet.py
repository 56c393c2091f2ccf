"""An answer, and what the checks of a scenario have read of it."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import groupby

from steadyhand.language.advice import ASIDES, CONSEQUENCE, advised
from steadyhand.language.amounts import Measure, amounts, parse_value
from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.checks import Advises, Check, Chooses, Forbids, NothingElse, States
from steadyhand.language.choices import choosing_lines
from steadyhand.language.clauses import Clause, Word, clauses
from steadyhand.language.english import ENGLISH
from steadyhand.language.lexicon import Mark, word_set
from steadyhand.language.orders import BEING, STEP_LABELS, exactly, orders
from steadyhand.language.phrases import ADVERBS, TURNING, ActPhrase, act_phrase, parts, spelled, touches
from steadyhand.language.refusals import refuses
from steadyhand.language.values import is_bound, is_within
from steadyhand.language.words import VERBS, spelling


@functools.lru_cache(maxsize=256)
def act_of(action: tuple[str, ...]) -> tuple[ActPhrase, ...]:
    return tuple(act_phrase(each) for each in action)


_NUMBERED = re.compile(r"(?<!\d)(\d{1,2})[^\w\n]{0,4}\Z")
_OUT_OF_TURN = word_set("first firstly last lastly finally before after previously earlier")
_HYPHEN = re.compile(r"(?<=\w)[-\u2010\u2011](?=\w)")
_PLAIN_WORD = re.compile(r"[^\W_]+")
_STRUCK = re.compile(
    r"~~|[\u0335-\u0338]|</?(?:del|s|strike)\b|<[a-z]\w*\s[^<>]*>|(?:^|[.!?\s])!+(?=[\w(*_])", re.IGNORECASE
)
"""What may strike out, hide or deny some of the text."""
DOSES = word_set("mass volume units substance")
_TICKED = re.compile(r"^\s*[-*+]?\s*\[[xX\u2713\u2714]\]", re.MULTILINE)
_UNTICKED = re.compile(r"^\s*[-*+]?\s*\[\s?\]", re.MULTILINE)
_OPEN_ENDED = re.compile(
    r"""[?\u2026\uff1f"\u201c\u201d\u201e\u00ab\u00bb\u2018]|\.{2,}|(?<!\w)['\u2019]|['\u2019](?!\w)"""
)
"""Questions, ellipses and quotation marks, wherever they stand."""
_OPEN_IN_JSON = re.compile(r":\s*(?:\"\"|\[\s*\]|\{\s*\})|[?\u2026\uff1f]|\.{2,}")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s+(?P<title>.+)|[*_]{2,3}(?P<bold>[^*_\n]+)[*_]{2,3}:?)\s*$", re.MULTILINE)


class Sentence:
    """Clauses that are read together."""

    def __init__(self, number: int, found: tuple[Clause, ...]) -> None:
        self.number: int = number
        self.clauses: tuple[Clause, ...] = found
        self.start: int = found[0].start
        self.end: int = found[-1].end
        self.read: bool = False
        self.orders: frozenset[Check] = frozenset()
        self.words: tuple[str, ...] = parts([word for clause in found for word in clause.folded])

    def has(self, *marks: Mark) -> bool:
        return any(mark in clause.marks for clause in self.clauses for mark in marks)


class Sheet:
    """An answer, and what the checks of the scenario have read of it."""

    def __init__(self, text: str, beside: tuple[Check, ...]) -> None:
        self._text = text
        self._beside = beside
        self._sentences: list[Sentence] = [
            Sentence(number, tuple(found))
            for number, (_, found) in enumerate(groupby(clauses(text), key=lambda clause: clause.sentence))
        ]
        self._starts = [sentence.start for sentence in self._sentences]
        self._bound: dict[States, list[Measure]] = {}
        whole = _HYPHEN.sub("", text.casefold())
        self._all_words: tuple[str, ...] = tuple(
            dict.fromkeys(
                [
                    *(word for sentence in self._sentences for word in sentence.words),
                    *(spelling(word) for word in _PLAIN_WORD.findall(whole)),
                ]
            )
        )
        self._amounts: list[Measure] = amounts(text)
        self._lines: list[tuple[int, int]] = [
            line[:2]
            for check in beside
            if isinstance(check, Chooses) and check.line
            for line in choosing_lines(text, check.options, check.line)
        ]
        self._right: list[tuple[int, int]] = [
            (bound.start, bound.end)
            for check in beside
            if isinstance(check, States)
            for bound in self.bound(check)
            if bound.within(parse_value(check.value))
        ]
        ticked = _TICKED.search(text) is not None and _UNTICKED.search(text) is not None
        self._struck: bool = ticked or _STRUCK.search(text) is not None
        if not self._struck:
            for sentence in self._sentences:
                self._read(sentence)
            for sentence in self._lone_numbers():
                sentence.read = True
            for match in (_OPEN_IN_JSON if is_json(text) else _OPEN_ENDED).finditer(text):
                number = max(0, bisect_right(self._starts, match.start()) - 1)
                for sentence in self._sentences[number : number + 1]:
                    sentence.read = False

    def _lone_numbers(self) -> list[Sentence]:
        """The numbers of steps that stand in one line: "1. Call 112. 2. Stay with him"."""
        found = [each for each in self._sentences[:-1] if each.words[0].isdecimal() and len(each.words) == 1]
        begun = self._text.lstrip()[:2] in ("1.", "1)")
        counted = [int(each.words[0]) for each in found]
        return found if begun and counted == list(range(2, len(found) + 2)) else []

    def _read(self, sentence: Sentence) -> None:
        if any(start <= sentence.start and sentence.end <= end for start, end in self._lines):
            sentence.read = True
            return
        if sentence.has(Mark.QUESTION, Mark.QUOTATION) or any("\u2026" in each.closing for each in sentence.clauses):
            return
        checks = [check for check in self._beside if isinstance(check, Advises | NothingElse)]
        acts = [act_of(check.action if isinstance(check, Advises) else check.also) for check in checks]
        found: set[int] = set()
        words: list[Word] = []
        for clause in sentence.clauses:
            said = exactly(parts(clause.folded), acts)
            found |= said
            if not said and not self._is_refused(clause):
                words += clause.words
        spans = [span for span in self._right if sentence.start <= span[0] < sentence.end]
        left = [word.text for word in words if not is_within(word.start, spans)]
        amount = any(is_within(word.start, spans) for word in words)
        ordered = orders(parts(left), acts, amount=amount) if left else frozenset[int]()
        if ordered is not None and all("..." not in clause.closing for clause in sentence.clauses):
            sentence.read = True
            sentence.orders = frozenset(checks[number] for number in found | ordered)

    def _is_refused(self, clause: Clause) -> bool:
        """Whether the clause refuses what a check forbids, and says nothing else."""
        words = parts(clause.folded)
        return any(isinstance(check, Forbids) and refuses(words, act_of(check.action)) for check in self._beside)

    @property
    def _unread(self) -> Sentence | None:
        return next((sentence for sentence in self._sentences if not sentence.read), None)

    def advising(self, check: Advises | Forbids) -> tuple[Sentence, Clause, ActPhrase] | None:
        """The first clause that opens with a plain order of the act, whatever else the answer says."""
        act = act_of(check.action)
        if self._struck or is_json(self._text):
            return None
        touched = touches(self._all_words, act)
        for sentence in self._sentences:
            for at, clause in enumerate(sentence.clauses):
                following = _following(sentence.clauses[at + 1 : at + 2])
                phrase = advised(clause, sentence.clauses[:at], following, act)
                if phrase is not None and self._is_in_plan(sentence, at) and "|" not in clause.closing:
                    return sentence, clause, phrase
            if touched and self._is_ordered(sentence, act) and self._is_in_plan(sentence, 0):
                return sentence, sentence.clauses[0], act[0]
        return None

    def _is_ordered(self, sentence: Sentence, act: tuple[ActPhrase, ...]) -> bool:
        """Whether the whole sentence orders it, in the passive voice too, in any amount."""
        if not touches(sentence.words, act) or sentence.has(Mark.QUESTION, Mark.QUOTATION):
            return False
        spans = [
            (each.start, each.end) for each in self._amounts if each.dimension[0] in DOSES and not each.dimension[1]
        ]
        words = [word for clause in sentence.clauses for word in clause.words]
        left = parts([word.text for word in words if not is_within(word.start, spans)])
        amount = len(left) < len(words)
        # A name alone may stand in a list of what to avoid.
        ordering = amount or any(word in ADVERBS or word in BEING or word in spelled(VERBS) for word in left)
        return ordering and bool(left) and bool(orders(left, (act,), amount=amount))

    def _is_in_plan(self, sentence: Sentence, at: int) -> bool:
        """Whether what introduces the clause, such as a heading, says nothing against it."""
        leads = [parts(clause.folded) for clause in sentence.clauses[:at] if ":" in clause.closing]
        return (
            all(lead in (*TURNING, *ASIDES) or says_nothing(lead) for lead in leads[-1:])
            and self._plain_leads[sentence.number]
        )

    @functools.cached_property
    def _plain_leads(self) -> list[bool]:
        """Of each sentence: whether the last line before it that ended in a colon, and the last heading, say nothing
        against it."""
        titles = [(match.start(), match["title"] or match["bold"]) for match in _HEADING.finditer(self._text)]
        found: list[bool] = []
        lead = heading = True
        for sentence in self._sentences:
            while titles and titles[0][0] < sentence.start and titles[0][0] + len(titles[0][1]) <= sentence.start:
                words = [word for clause in clauses(titles.pop(0)[1]) for word in clause.folded]
                heading = says_nothing(parts(words))
            found.append(lead and heading)
            if sentence.clauses[-1].closing.endswith(":"):
                lead = says_nothing(parts(sentence.clauses[-1].folded))
        return found

    def numbers(self) -> list[int]:
        """The numbers of the steps."""
        found: list[int] = []
        for before, sentence in zip([None, *self._sentences], self._sentences, strict=False):
            said = _NUMBERED.search(self._text, before.end if before else 0, sentence.start)
            label = sentence.words[1:2] if sentence.words[0] in STEP_LABELS else ()
            found += [int(each) for each in (*(said.groups() if said else ()), *label) if each.isdecimal()]
        return found

    def is_in_sequence(self) -> bool:
        """Whether the sentences stand in the order in which they are meant, by their numbers and by words such as
        "first"."""
        numbers = self.numbers()
        begun = next((at for at, sentence in enumerate(self._sentences) if len(sentence.words) > 1), 0)
        later = self._sentences[begun + 1 :]
        return numbers == sorted(numbers) and _OUT_OF_TURN.isdisjoint(word for each in later for word in each.words)

    def _at(self, place: int) -> Sentence | None:
        number = bisect_right(self._starts, place) - 1
        return self._sentences[number] if number >= 0 and place < self._sentences[number].end else None

    def bound(self, check: States) -> list[Measure]:
        """The amounts of the right dimension that stand next to a name of what they are of."""
        if check not in self._bound:
            dimension = parse_value(check.value).dimension
            names = [parts([word for clause in clauses(each) for word in clause.folded]) for each in check.of]
            found: list[Measure] = []
            for amount in self._amounts:
                sentence = self._at(amount.start) if amount.dimension == dimension and amount.sure else None
                if sentence is not None:
                    near = [each for each in self._amounts if sentence.start <= each.start < sentence.end]
                    if is_bound(amount, sentence.clauses, names, near):
                        found.append(amount)
            self._bound[check] = found
        return self._bound[check]

    def _is_english(self, *, share: float = 1 / 8) -> bool:
        """Whether there are enough English words to say that something is not there. `share`: of small words."""
        words = [word for sentence in self._sentences for word in sentence.words if word[:1].isalpha()]
        foreign = any(clause.language not in ("en", None) for each in self._sentences for clause in each.clauses)
        if foreign or self._is_abbreviated:
            return False
        return len(words) >= 3 and sum(word in ENGLISH.closed for word in words) >= share * len(words)

    @functools.cached_property
    def _is_abbreviated(self) -> bool:
        """Whether much of it is initials, in which an act may have a name that is not known: "14G, 5th ICS AAL"."""
        words = _PLAIN_WORD.findall(self._text)
        short = [word for word in words if len(word) > 1 and (word.isupper() or word[0].isdigit())]
        return len(short) * 3 >= len(words)

    def _reading(self, answer: Certainty, why: str, sentence: Sentence) -> Ruling:
        text = self._text[sentence.start : sentence.end]
        return reading(answer, why, text, sentence.start, sentence.end)


def is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") or "```json" in text


def says_nothing(words: tuple[str, ...]) -> bool:
    """Whether the words, such as "Immediate actions", change nothing about what they introduce."""
    return orders(words, (), amount=False) is not None


def _following(clauses_after: Iterable[Clause]) -> list[Clause]:
    """The next clause, if it goes on about the same, or says what comes of it: "and he dies"."""
    return [
        clause
        for clause in clauses_after
        if clause.folded[0] not in ("and", "then") or not CONSEQUENCE.isdisjoint(clause.folded[1:2])
    ]


def reading(answer: Certainty, why: str, text: str, start: int, end: int) -> Ruling:
    return Ruling(answer=answer, why=why, clause=text, start=start, end=end)
