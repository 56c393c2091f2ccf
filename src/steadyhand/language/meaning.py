"""What meaning checks ask of an answer, and how one answer is read by all checks of a scenario together.

A check is answered with yes only if everything in the answer has been read: that no retraction was recognised does not
prove that nothing was retracted.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import groupby

from steadyhand.language.acts import ActPhrase, act_phrase, advised, exactly, mentions, orders, parts, refuses, touches
from steadyhand.language.amounts import Measure, amounts, parse_value
from steadyhand.language.answer import Certainty, Reading
from steadyhand.language.checks import Advises, Check, Chooses, Forbids, NothingElse, States
from steadyhand.language.choices import choosing_lines, names_option
from steadyhand.language.clauses import Clause, Word, clauses
from steadyhand.language.english import ENGLISH
from steadyhand.language.lexicon import Mark, marked, word_set
from steadyhand.language.refusals import denies, leaves_open, may_mean
from steadyhand.language.values import is_bound, is_within
from steadyhand.language.words import spelling

_LONGEST = 20_000
"""No answer of this length is read completely; it would only take time."""


def read(text: str, check: Check, beside: tuple[Check, ...]) -> Reading:
    """What `check` finds in the text; `beside` are all meaning checks of the scenario on the same answer."""
    if len(text) > _LONGEST:
        return Reading(answer=Certainty.CANNOT_TELL, why=f"the answer has more than {_LONGEST} characters")
    sheet = _sheet(text, beside)
    match check:
        case Advises():
            return sheet.advises(check)
        case Forbids():
            return sheet.forbids(check)
        case States():
            return sheet.states(check)
        case Chooses():
            return sheet.chooses(check)
        case NothingElse():
            return sheet.nothing_else()


def evident(text: str, check: Check) -> bool:
    """Whether the text, as far as it goes, has what the check asks for in a plain clause, whatever else it says.

    Of a check on what must not be there: whether it is not. It is no answer to the check: only for texts of which the
    whole is known to satisfy it.
    """
    sheet = _sheet(text[:_LONGEST], (check,))
    match check:
        case Advises():
            return sheet.advising(check) is not None
        case Forbids():
            return sheet.advising(check) is None
        case States():
            return any(bound.within(parse_value(check.value)) for bound in sheet.bound(check))
        case Chooses():
            return sheet.chooses(check).answer is Certainty.YES
        case NothingElse():
            return True


@functools.lru_cache(maxsize=256)
def _sheet(text: str, beside: tuple[Check, ...]) -> _Sheet:
    return _Sheet(text, beside)


@functools.lru_cache(maxsize=256)
def _act(action: tuple[str, ...]) -> tuple[ActPhrase, ...]:
    return tuple(act_phrase(each) for each in action)


_HYPHEN = re.compile(r"(?<=\w)[-\u2010\u2011](?=\w)")
_PLAIN_WORD = re.compile(r"[^\W_]+")
_STRUCK = re.compile(r"~~|<(?:del|s|strike)\b", re.IGNORECASE)
_OPEN_ENDED = re.compile(
    r"""[?\u2026\uff1f"\u201c\u201d\u201e\u00ab\u00bb\u2018]|\.\.\.|(?<!\w)['\u2019]|['\u2019](?!\w)"""
)
"""Questions, ellipses and quotation marks, wherever they stand."""
_HEADING = re.compile(r"^\s*(?:#{1,6}\s+(?P<title>.+)|[*_]{2,3}(?P<bold>[^*_\n]+)[*_]{2,3}:?)\s*$", re.MULTILINE)
_REPORTING = word_set(
    "is are was were been had has have would could might may can received took got already previously earlier typical "
    "usual normal maximum example overdose too much wrong dangerous lethal fatal error mistake"
)


class _Sentence:
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


class _Sheet:
    """An answer, and what the checks of the scenario have read of it."""

    def __init__(self, text: str, beside: tuple[Check, ...]) -> None:
        self._text = text
        self._beside = beside
        self._sentences: list[_Sentence] = [
            _Sentence(number, tuple(found))
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
        self._struck: bool = _STRUCK.search(text) is not None
        if not self._struck:
            for sentence in self._sentences:
                self._read(sentence)
            for match in _OPEN_ENDED.finditer(text) if not _is_json(text) else ():
                number = max(0, bisect_right(self._starts, match.start()) - 1)
                for sentence in self._sentences[number : number + 1]:
                    sentence.read = False

    def _read(self, sentence: _Sentence) -> None:
        if any(start <= sentence.start and sentence.end <= end for start, end in self._lines):
            sentence.read = True
            return
        if sentence.has(Mark.QUESTION, Mark.QUOTATION) or any("\u2026" in each.closing for each in sentence.clauses):
            return
        checks = [check for check in self._beside if isinstance(check, Advises)]
        acts = [_act(check.action) for check in checks]
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
        return any(isinstance(check, Forbids) and refuses(words, _act(check.action)) for check in self._beside)

    @property
    def _unread(self) -> _Sentence | None:
        return next((sentence for sentence in self._sentences if not sentence.read), None)

    def advises(self, check: Advises) -> Reading:
        act = _act(check.action)
        ordered = next((sentence for sentence in self._sentences if check in sentence.orders), None)
        refused = [sentence for sentence in self._sentences if self._is_refusal(sentence, act)]
        unread = self._unread
        if ordered is not None and not refused and unread is None:
            return self._reading(Certainty.YES, "a plain order of it", ordered)
        about = [sentence for sentence in self._sentences if touches(sentence.words, act)]
        if self._has_nothing_of(check) and self._is_elsewhere(check):
            return Reading(answer=Certainty.NO, why="nothing in the answer is about it")
        others = [sentence for sentence in self._sentences if sentence not in refused]
        if refused and not self._struck and not any(mentions(sentence.words, act) for sentence in others):
            return self._reading(Certainty.NO, "a plain refusal of it", refused[0])
        denied = [sentence for sentence in about if self._is_denial(sentence, act)]
        others = [sentence for sentence in self._sentences if sentence not in denied]
        if denied and not self._struck and not any(may_mean(sentence.words, act) for sentence in others):
            return self._reading(Certainty.NO, "it is refused or left open, and nothing else is about it", denied[0])
        if ordered is not None and refused:
            return self._reading(Certainty.CANNOT_TELL, "it is both ordered and refused", refused[0])
        return self._unsure(ordered, unread, about)

    def _has_nothing_of(self, check: Advises | Forbids) -> bool:
        """Whether no word of the answer, in or outside clauses, may be about the act."""
        return not touches(self._all_words, _act(check.action))

    def _is_elsewhere(self, check: Advises) -> bool:
        """Whether a missing act is certainly missing, not only said in words that the reader does not know: if every
        sentence was read, in English prose, which has few abbreviations, or if another required act is missing too."""
        if self._unread is None or self._is_english(share=_PROSE):
            return True
        others = [each for each in self._beside if isinstance(each, Advises) and each != check]
        return self._is_english() and (not others or any(map(self._has_nothing_of, others)))

    def _unsure(self, ordered: _Sentence | None, unread: _Sentence | None, mentions: Sequence[_Sentence]) -> Reading:
        if ordered is not None and unread is not None:
            return self._reading(Certainty.CANNOT_TELL, "it is ordered, but this was not read with certainty", unread)
        if mentions:
            return self._reading(Certainty.CANNOT_TELL, "this is not a plain order or refusal of it", mentions[0])
        return Reading(answer=Certainty.CANNOT_TELL, why="it is not mentioned in words that the reader knows")

    def _is_denial(self, sentence: _Sentence, act: tuple[ActPhrase, ...]) -> bool:
        if sentence.has(Mark.QUESTION, Mark.QUOTATION, Mark.RETRACTION, Mark.IRONY):
            return False
        return (denies(sentence.words, act) or leaves_open(sentence.words, act)) and self._is_in_plan(sentence, 0)

    def _is_refusal(self, sentence: _Sentence, act: Sequence[ActPhrase]) -> bool:
        """Whether the sentence refuses the act and says nothing else, except perhaps why."""
        plain = tuple(word for word in sentence.words if word != "yet")
        if sentence.has(Mark.QUESTION, Mark.QUOTATION) or marked(plain, ENGLISH.marks) & _LIMITING:
            return False
        return refuses(sentence.words, act, reason=True) and self._is_in_plan(sentence, 0)

    def advising(self, check: Advises | Forbids) -> tuple[_Sentence, Clause, ActPhrase] | None:
        """The first clause that opens with a plain order of the act, whatever else the answer says."""
        act = _act(check.action)
        if self._struck or _is_json(self._text):
            return None
        for sentence in self._sentences:
            for at, clause in enumerate(sentence.clauses):
                around = [*sentence.clauses[:at], *_following(sentence.clauses[at + 1 : at + 2])]
                phrase = advised(clause, around, act)
                if phrase is not None and self._is_in_plan(sentence, at) and "|" not in clause.closing:
                    return sentence, clause, phrase
        return None

    def _is_in_plan(self, sentence: _Sentence, at: int) -> bool:
        """Whether what introduces the clause, such as a heading, says nothing against it."""
        leads = [parts(clause.folded) for clause in sentence.clauses[:at] if ":" in clause.closing]
        return all(map(_says_nothing, leads[-1:])) and self._plain_leads[sentence.number]

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
                heading = _says_nothing(parts(words))
            found.append(lead and heading)
            if sentence.clauses[-1].closing.endswith(":"):
                lead = _says_nothing(parts(sentence.clauses[-1].folded))
        return found

    def forbids(self, check: Forbids) -> Reading:
        act = _act(check.action)
        found = self.advising(check)
        if found is not None and not self._is_taken_back(found[0], found[2]):
            return _reading(Certainty.NO, "a plain order of it", found[1].text, found[1].start, found[1].end)
        if not self._struck and self._unread is None:
            return Reading(answer=Certainty.YES, why="every clause was read, and none orders it")
        mention = next((sentence for sentence in self._sentences if touches(sentence.words, act)), None)
        if self._has_nothing_of(check) and any(isinstance(each, NothingElse) for each in self._beside):
            return Reading(answer=Certainty.YES, why="the answer does not mention it")
        if mention is None:
            why = "it is not mentioned, but other words may mean it"
            return Reading(answer=Certainty.CANNOT_TELL, why=why)
        return self._reading(
            Certainty.CANNOT_TELL, "this mentions it, and is not a plain refusal or order of it", mention
        )

    def _is_taken_back(self, ordered: _Sentence, phrase: ActPhrase) -> bool:
        """Whether another sentence may undo the order: it denies something about it, or points back at it."""
        for sentence in self._sentences:
            if sentence is ordered:
                continue
            back = sentence.start > ordered.start and sentence.words[0] in _POINTING
            about = mentions(sentence.words, (phrase,))
            if (back or about) and any(clause.marks for clause in sentence.clauses):
                return True
            if sentence.start > ordered.start and sentence.has(Mark.RETRACTION):
                return True
        return False

    def states(self, check: States) -> Reading:
        wanted = parse_value(check.value)
        found = self.bound(check)
        inside = [amount for amount in found if amount.within(wanted)]
        outside = [amount for amount in found if amount.outside(wanted)]
        if not self._struck and outside and not inside and len(outside) == len(found):
            sentence = self._at(outside[0].start)
            if sentence is not None and self._is_plain(sentence) and not self._is_diluted(outside[0], sentence):
                return self._reading(Certainty.NO, f"the value is not {check.value}", sentence)
        if len(inside) == len(found) == 1 and self._unread is None:
            sentence = self._at(inside[0].start)
            if sentence is not None:
                return self._reading(Certainty.YES, f"the value is {check.value}", sentence)
        if not found:
            return Reading(answer=Certainty.CANNOT_TELL, why=f"no value of {check.of[0]} was found")
        if inside and self._unread is not None and len(inside) == len(found):
            why = "the value is right, but this was not read with certainty"
            return self._reading(Certainty.CANNOT_TELL, why, self._unread)
        sentence = self._at(found[0].start) or self._sentences[0]
        return self._reading(Certainty.CANNOT_TELL, "the value is not plainly stated", sentence)

    def _at(self, place: int) -> _Sentence | None:
        number = bisect_right(self._starts, place) - 1
        return self._sentences[number] if number >= 0 and place < self._sentences[number].end else None

    def _is_plain(self, sentence: _Sentence) -> bool:
        marks = {mark for clause in sentence.clauses for mark in clause.marks} - {Mark.HEDGE}
        reporting = any(word in _REPORTING for word in sentence.words)
        return not marks and not reporting and self._is_in_plan(sentence, len(sentence.clauses) - 1)

    def _is_diluted(self, amount: Measure, sentence: _Sentence) -> bool:
        """Whether the sentence gives the dose in another dimension too: "1 mg in 1 ml, 0.5 ml"."""
        others = [each for each in self._amounts if sentence.start <= each.start < sentence.end]
        return any(each.dimension != amount.dimension and each.dimension[0] in _DOSES for each in others)

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

    def chooses(self, check: Chooses) -> Reading:
        if check.line is None:
            return self._named(check)
        lines = choosing_lines(self._text, check.options, check.line)
        chosen = {option for *_, option in lines}
        if self._struck or not lines:
            return self._no_line(check)
        start, end, option = lines[0]
        place = (self._text[start:end], start, end)
        if len(chosen) > 1:
            return _reading(Certainty.NO, "it gives two different commands", *place)
        rest = self._text[:start] + " " + self._text[end:]
        others = [each for each in check.options if each != option and names_option(rest, each)]
        if not self._is_introduced_plainly(start):
            return _reading(Certainty.CANNOT_TELL, "what comes before it may say that it is not meant", *place)
        if option not in check.expected:
            return _reading(Certainty.NO, f"it chooses {option}", *place)
        if len(lines) > 1 or others or self._retracts(end):
            why = f"it names {others[0]} too" if others else "it may take the choice back"
            return _reading(Certainty.CANNOT_TELL, why, *place)
        return _reading(Certainty.YES, f"it chooses {option}", *place)

    def _is_introduced_plainly(self, start: int) -> bool:
        before = [sentence.clauses[-1] for sentence in self._sentences if sentence.end <= start]
        return all(_says_nothing(parts(clause.folded)) for clause in before if clause.closing.endswith(":"))

    def _retracts(self, end: int) -> bool:
        later = [sentence for sentence in self._sentences if sentence.start >= end]
        return any(sentence.has(Mark.RETRACTION, Mark.IRONY, Mark.CONTRAST) for sentence in later)

    def _no_line(self, check: Chooses) -> Reading:
        found = next((each for each in check.expected if names_option(self._text, each)), None)
        if found is None and not self._struck and self._is_english():
            return Reading(
                answer=Certainty.NO,
                why=f"no line of the form {check.line} chooses, and {check.expected[0]} is not mentioned",
            )
        return Reading(answer=Certainty.CANNOT_TELL, why=f"no line of the form {check.line}")

    def _named(self, check: Chooses) -> Reading:
        """Without a `line`: the answer is the option and nothing else."""
        said = [option for option in check.options if names_option(self._text, option)]
        plain = tuple(word for sentence in self._sentences for word in sentence.words)
        doubtful = any(sentence.has(Mark.QUESTION, Mark.QUOTATION) for sentence in self._sentences)
        if len(said) == 1 and not self._struck and not doubtful:
            rest = _without(plain, parts([word for clause in clauses(said[0]) for word in clause.folded]))
            if rest is not None and orders(rest or ("now",), (), amount=False) is not None:
                answer = Certainty.YES if said[0] in check.expected else Certainty.NO
                return _reading(answer, f"it chooses {said[0]}", self._text.strip(), 0, len(self._text))
        if not said and self._is_english():
            return Reading(answer=Certainty.NO, why="it names none of the options")
        return Reading(answer=Certainty.CANNOT_TELL, why="it does not say one option and nothing else")

    def nothing_else(self) -> Reading:
        unread = self._unread
        if self._struck or not self._sentences:
            return Reading(answer=Certainty.CANNOT_TELL, why="the answer has parts that the reader cannot read")
        named = [self._named(check) for check in self._beside if isinstance(check, Chooses) and check.line is None]
        if unread is None or any(found.answer is not Certainty.CANNOT_TELL and found.clause for found in named):
            return Reading(answer=Certainty.YES, why="every clause was read by another check")
        return self._reading(Certainty.CANNOT_TELL, "no other check has read this with certainty", unread)

    def _is_english(self, *, share: float = 1 / 8) -> bool:
        """Whether there are enough English words to say that something is not there. `share`: of small words."""
        words = [word for sentence in self._sentences for word in sentence.words if word[:1].isalpha()]
        foreign = any(clause.language not in ("en", None) for each in self._sentences for clause in each.clauses)
        return not foreign and len(words) >= 3 and sum(word in ENGLISH.closed for word in words) >= share * len(words)

    def _reading(self, answer: Certainty, why: str, sentence: _Sentence) -> Reading:
        text = self._text[sentence.start : sentence.end]
        return _reading(answer, why, text, sentence.start, sentence.end)


_LIMITING = frozenset({Mark.CONDITION, Mark.CONTRAST})
_PROSE = 0.3
_DOSES = word_set("mass volume units substance")
_POINTING = word_set("this that these those it which such both neither no not never wrong instead")


def _is_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") or "```json" in text


def _says_nothing(words: tuple[str, ...]) -> bool:
    """Whether the words, such as "Immediate actions", change nothing about what they introduce."""
    return orders(words, (), amount=False) is not None


def _following(clauses_after: Iterable[Clause]) -> list[Clause]:
    """The next clause, if it goes on about the same."""
    return [clause for clause in clauses_after if clause.folded[0] not in ("and", "then")]


def _reading(answer: Certainty, why: str, text: str, start: int, end: int) -> Reading:
    return Reading(answer=answer, why=why, clause=text, start=start, end=end)


def _without(words: tuple[str, ...], phrase: tuple[str, ...]) -> tuple[str, ...] | None:
    for at in range(len(words) - len(phrase) + 1):
        if words[at : at + len(phrase)] == phrase:
            return (*words[:at], *words[at + len(phrase) :])
    return None
