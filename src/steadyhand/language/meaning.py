"""What meaning checks ask of an answer, and how one answer is read by all checks of a scenario together.

A check is answered with yes only if everything in the answer has been read: that no retraction was recognised does not
prove that nothing was retracted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from steadyhand.language.amounts import Measure, parse_value
from steadyhand.language.answer import Certainty, Ruling
from steadyhand.language.checks import Advises, Check, Chooses, Forbids, NothingElse, States
from steadyhand.language.choices import choosing_lines, names_option
from steadyhand.language.clauses import clauses
from steadyhand.language.english import ENGLISH
from steadyhand.language.lexicon import Mark, marked, word_set
from steadyhand.language.orders import orders
from steadyhand.language.phrases import TURNING, ActPhrase, concerns, mentions, parts, touches
from steadyhand.language.refusals import denies, leaves_open, may_mean, points_back, refuses, withdraws
from steadyhand.language.reservations import reserved, segments
from steadyhand.language.sheet import DOSES, Sentence, Sheet, act_of, is_json, reading, says_nothing

_LONGEST = 20_000
"""No answer of this length is read completely; it would only take time."""


def read(text: str, check: Check, beside: tuple[Check, ...]) -> Ruling:
    """What `check` finds in the text; `beside` are all meaning checks of the scenario on the same answer."""
    if len(text) > _LONGEST:
        return Ruling(answer=Certainty.CANNOT_TELL, why=f"the answer has more than {_LONGEST} characters")
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
def _sheet(text: str, beside: tuple[Check, ...]) -> _Answer:
    return _Answer(text, beside)


_REPORTING = word_set(
    "is are was were been had has have would could might may can received took got already previously earlier typical "
    "usual normal maximum example overdose too much wrong dangerous lethal fatal error mistake"
)


class _Answer(Sheet):
    """What the checks find in it."""

    def advises(self, check: Advises) -> Ruling:
        act = act_of(check.action)
        ordered = next((sentence for sentence in self._sentences if check in sentence.orders), None)
        refused = [sentence for sentence in self._sentences if self._is_refusal(sentence, act)]
        unread = self._unread
        if ordered is not None and not refused and unread is None:
            return self._in_turn(check, ordered)
        about = [sentence for sentence in self._sentences if touches(sentence.words, act)]
        if self._has_nothing_of(check) and self._is_elsewhere(check):
            return Ruling(answer=Certainty.NO, why="nothing in the answer is about it")
        others = [sentence for sentence in self._sentences if sentence not in refused]
        if refused and not self._struck and not any(mentions(sentence.words, act) for sentence in others):
            return self._reading(Certainty.NO, "a plain refusal of it", refused[0])
        denied = [sentence for sentence in about if self._is_denial(sentence, act)]
        others = [sentence for sentence in self._sentences if sentence not in denied]
        if denied and not self._struck and not any(may_mean(sentence.words, act) for sentence in others):
            return self._reading(Certainty.NO, "it is refused or left open, and nothing else is about it", denied[0])
        if (found := self._spoiled(check)) is not None:
            return found
        if ordered is not None and refused and about[-1] is refused[-1] and not self._struck:
            return self._reading(Certainty.NO, "it is refused at the end", refused[-1])
        if ordered is not None and refused:
            return self._reading(Certainty.CANNOT_TELL, "it is both ordered and refused", refused[0])
        return self._unsure(ordered, unread, about)

    def _in_turn(self, check: Advises, ordered: Sentence) -> Ruling:
        """An act that was ordered, in an answer that was read: whether nothing that comes after it comes before."""
        if check.at_once and (other := self._done_before(ordered)) is not None:
            return self._reading(Certainty.CANNOT_TELL, "this may come before it", other)
        later = act_of(check.before)
        about = [sentence for sentence in self._sentences if later and touches(sentence.words, later)]
        if not about:
            return self._reading(Certainty.YES, "a plain order of it", ordered)
        if not self.is_in_sequence():
            return self._reading(Certainty.CANNOT_TELL, "the steps may not stand in their order", about[0])
        first = about[0]
        if first.start > ordered.start:
            return self._reading(Certainty.YES, "a plain order of it", ordered)
        if first.start < ordered.start and mentions(first.words, later):
            return self._reading(Certainty.NO, "this comes before it", first)
        return self._reading(Certainty.CANNOT_TELL, "this may come before it", first)

    def _done_before(self, ordered: Sentence) -> Sentence | None:
        """The sentence before the order that has another act in it, none that is required, and states nothing."""
        for sentence in self._sentences[: ordered.number]:
            others = sentence.orders and all(isinstance(check, NothingElse) for check in sentence.orders)
            if others and _STATING.isdisjoint(sentence.words):
                return sentence
        return None

    def _earlier(self, check: Advises) -> Sentence | None:
        """The sentence that plainly orders before the act what has to come after it, in numbered steps."""
        act, late = act_of(check.action), act_of(check.before)
        if not late or len(self.numbers()) < 2 or not self.is_in_sequence():
            return None
        first = next((sentence for sentence in self._sentences if touches(sentence.words, act)), None)
        for sentence in self._sentences[: None if first is None else first.number]:
            if mentions(sentence.words, late) and not any(clause.marks for clause in sentence.clauses):
                return sentence
        return None

    def _spoiled(self, check: Advises) -> Ruling | None:
        """The act is taken back at the end, or, if it has to be ordered at once, named only with a reservation."""
        act = act_of(check.action)
        exact = any(phrase.exact for phrase in act)
        if self._struck or (exact and not check.at_once) or is_json(self._text):
            return None
        others = tuple(phrase for each in self._beside if each != check for phrase in _phrases(each))

        def is_about(words: tuple[str, ...]) -> bool:
            return concerns(words, act, others)

        about = [sentence for sentence in self._sentences if is_about(sentence.words)]
        if not about:
            return None
        last = about[-1]
        later = [sentence for sentence in self._sentences if sentence.start > last.start]
        plain = not last.has(Mark.QUESTION, Mark.QUOTATION, Mark.CONDITION) and self._is_in_plan(last, 0)
        if (
            plain
            and withdraws(tuple(segments(last.clauses)), act)
            and not any(may_mean(sentence.words, act) for sentence in later)
        ):
            return self._reading(Certainty.NO, "it is taken back", last)
        if later and not any(may_mean(each.words, act) for each in later[1:]) and self._undoes(later[0], act):
            return self._reading(Certainty.NO, "it is taken back", later[0])
        if not check.at_once:
            return None
        if (earlier := self._earlier(check)) is not None:
            return self._reading(Certainty.NO, "this comes before it", earlier)
        reasons = [self._reserved(sentence, act, is_about) for sentence in about]
        if all(reasons):
            return self._reading(Certainty.NO, str(reasons[0]), about[0])
        return None

    def _undoes(self, sentence: Sentence, act: tuple[ActPhrase, ...]) -> bool:
        """Whether the sentence takes back what stands right before it, and says nothing more about it."""
        if sentence.has(Mark.NEGATION, Mark.QUESTION, Mark.QUOTATION, Mark.CONDITION) or touches(sentence.words, act):
            return False
        return any(points_back(parts(clause.folded)) for clause in sentence.clauses)

    def _reserved(
        self, sentence: Sentence, act: tuple[ActPhrase, ...], is_about: Callable[[tuple[str, ...]], bool]
    ) -> str | None:
        if self._is_denial(sentence, act) or self._is_refusal(sentence, act):
            return "it is refused"
        return reserved(sentence.clauses, is_about)

    def _has_nothing_of(self, check: Advises | Forbids) -> bool:
        """Whether no word of the answer, in or outside clauses, may be about the act."""
        return not touches(self._all_words, act_of(check.action))

    def _is_elsewhere(self, check: Advises) -> bool:
        """Whether a missing act is certainly missing, not only said in words that the reader does not know: if every
        sentence was read, in English prose, which has few abbreviations, or if another required act is missing too."""
        if self._unread is None or self._is_english(share=_PROSE):
            return True
        others = [each for each in self._beside if isinstance(each, Advises) and each != check]
        return self._is_english() and (not others or any(map(self._has_nothing_of, others)))

    def _unsure(self, ordered: Sentence | None, unread: Sentence | None, mentions: Sequence[Sentence]) -> Ruling:
        if ordered is not None and unread is not None:
            return self._reading(Certainty.CANNOT_TELL, "it is ordered, but this was not read with certainty", unread)
        if mentions:
            return self._reading(Certainty.CANNOT_TELL, "this is not a plain order or refusal of it", mentions[0])
        return Ruling(answer=Certainty.CANNOT_TELL, why="it is not mentioned in words that the reader knows")

    def _is_denial(self, sentence: Sentence, act: tuple[ActPhrase, ...]) -> bool:
        if sentence.has(Mark.QUESTION, Mark.QUOTATION, Mark.RETRACTION, Mark.IRONY):
            return False
        return (denies(sentence.words, act) or leaves_open(sentence.words, act)) and self._is_in_plan(sentence, 0)

    def _is_refusal(self, sentence: Sentence, act: Sequence[ActPhrase]) -> bool:
        """Whether the sentence refuses the act and says nothing else, except perhaps why."""
        plain = tuple(word for word in sentence.words if word != "yet")
        if sentence.has(Mark.QUESTION, Mark.QUOTATION) or marked(plain, ENGLISH.marks) & _LIMITING:
            return False
        return refuses(sentence.words, act, reason=True) and self._is_in_plan(sentence, 0)

    def forbids(self, check: Forbids) -> Ruling:
        act = act_of(check.action)
        found = self.advising(check)
        if found is not None and not self._is_taken_back(found[0], found[2]):
            return reading(Certainty.NO, "a plain order of it", found[1].text, found[1].start, found[1].end)
        if not self._struck and self._unread is None:
            return Ruling(answer=Certainty.YES, why="every clause was read, and none orders it")
        mention = next((sentence for sentence in self._sentences if touches(sentence.words, act)), None)
        if self._has_nothing_of(check) and any(isinstance(each, NothingElse) for each in self._beside):
            return Ruling(answer=Certainty.YES, why="the answer does not mention it")
        if mention is None:
            why = "it is not mentioned, but other words may mean it"
            return Ruling(answer=Certainty.CANNOT_TELL, why=why)
        return self._reading(
            Certainty.CANNOT_TELL, "this mentions it, and is not a plain refusal or order of it", mention
        )

    def _is_taken_back(self, ordered: Sentence, phrase: ActPhrase) -> bool:
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

    def states(self, check: States) -> Ruling:
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
        if not found and check.optional and not self._struck and self._unread is None:
            return Ruling(answer=Certainty.YES, why=f"every clause was read, and none gives a value of {check.of[0]}")
        if not found:
            return Ruling(answer=Certainty.CANNOT_TELL, why=f"no value of {check.of[0]} was found")
        if inside and self._unread is not None and len(inside) == len(found):
            why = "the value is right, but this was not read with certainty"
            return self._reading(Certainty.CANNOT_TELL, why, self._unread)
        sentence = self._at(found[0].start) or self._sentences[0]
        return self._reading(Certainty.CANNOT_TELL, "the value is not plainly stated", sentence)

    def _is_plain(self, sentence: Sentence) -> bool:
        marks = {mark for clause in sentence.clauses for mark in clause.marks} - {Mark.HEDGE}
        reporting = any(word in _REPORTING for word in sentence.words)
        return not marks and not reporting and self._is_in_plan(sentence, len(sentence.clauses) - 1)

    def _is_diluted(self, amount: Measure, sentence: Sentence) -> bool:
        """Whether the dose stands there in another dimension too: "1 mg in 1 ml", "0.5 ml (0.5 mg)"."""
        for other in self._amounts:
            if sentence.start <= other.start < sentence.end and other.dimension != amount.dimension:
                first, second = sorted((amount, other), key=lambda each: each.start)
                if other.dimension[0] in DOSES and _BETWEEN_DOSES.fullmatch(self._text, first.end, second.start):
                    return True
        return False

    def chooses(self, check: Chooses) -> Ruling:
        if check.line is None:
            return self._choice(check)
        lines = choosing_lines(self._text, check.options, check.line)
        chosen = {option for *_, option in lines}
        if self._struck or not lines:
            return self._no_line(check)
        start, end, option = lines[0]
        place = (self._text[start:end], start, end)
        if len(chosen) > 1:
            return reading(Certainty.NO, "it gives two different commands", *place)
        rest = self._text[:start] + " " + self._text[end:]
        others = [each for each in check.options if each != option and names_option(rest, each)]
        if not self._is_introduced_plainly(start):
            return reading(Certainty.CANNOT_TELL, "what comes before it may say that it is not meant", *place)
        if option not in check.expected:
            return reading(Certainty.NO, f"it chooses {option}", *place)
        if (instead := self._chosen_instead(end, others)) is not None:
            return self._reading(Certainty.NO, "it takes the choice back", instead)
        if len(lines) > 1 or others or self._retracts(end) or self._is_continued(end, option):
            why = f"it names {others[0]} too" if others else "it may take the choice back or limit it"
            return reading(Certainty.CANNOT_TELL, why, *place)
        return reading(Certainty.YES, f"it chooses {option}", *place)

    def _is_introduced_plainly(self, start: int) -> bool:
        before = [sentence.clauses[-1] for sentence in self._sentences if sentence.end <= start]
        leading = [clause for clause in before if clause.closing.endswith(":")]
        leading += [clause for clause in before[-1:] if not clause.closing]
        return all(says_nothing(parts(clause.folded)) for clause in leading)

    def _is_continued(self, end: int, option: str) -> bool:
        """Whether what follows goes on about the line ("Only after the corner"), or denies what it chooses."""
        later = [sentence for sentence in self._sentences if sentence.end > end]
        chosen = set(parts([word.text for clause in clauses(option.replace("_", " ")) for word in clause.words]))
        denied = any(sentence.has(Mark.NEGATION) and not chosen.isdisjoint(sentence.words) for sentence in later)
        said = [
            word.text
            for sentence in later[:1]
            for clause in sentence.clauses
            for word in clause.words
            if word.start >= end
        ]
        return denied or not _CONTINUING.isdisjoint(said[:1])

    def _chosen_instead(self, end: int, others: Sequence[str]) -> Sentence | None:
        """The sentence that takes the choice back and names another option: "On second thoughts, SLOW is enough"."""
        for sentence in self._sentences:
            text = self._text[sentence.start : sentence.end]
            turning = any(parts(sentence.clauses[0].folded)[: len(lead)] == lead for lead in TURNING)
            if sentence.start >= end and turning and any(names_option(text, other) for other in others):
                return None if sentence.has(Mark.NEGATION, Mark.QUESTION, Mark.QUOTATION, Mark.CONDITION) else sentence
        return None

    def _retracts(self, end: int) -> bool:
        later = [sentence for sentence in self._sentences if sentence.start >= end]
        return any(sentence.has(Mark.RETRACTION, Mark.IRONY, Mark.CONTRAST) for sentence in later)

    def _no_line(self, check: Chooses) -> Ruling:
        found = next((each for each in check.expected if names_option(self._text, each)), None)
        if found is None and not self._struck and self._is_english():
            return Ruling(
                answer=Certainty.NO,
                why=f"no line of the form {check.line} chooses, and {check.expected[0]} is not mentioned",
            )
        return Ruling(answer=Certainty.CANNOT_TELL, why=f"no line of the form {check.line}")

    def _choice(self, check: Chooses) -> Ruling:
        """Without a `line`: the answer is the option and nothing else."""
        said = [option for option in check.options if names_option(self._text, option)]
        plain = tuple(word for sentence in self._sentences for word in sentence.words)
        doubtful = any(sentence.has(Mark.QUESTION, Mark.QUOTATION) for sentence in self._sentences)
        if len(said) == 1 and not self._struck and not doubtful:
            rest = _without(plain, parts([word for clause in clauses(said[0]) for word in clause.folded]))
            if rest is not None and orders(rest or ("now",), (), amount=False) is not None:
                answer = Certainty.YES if said[0] in check.expected else Certainty.NO
                return reading(answer, f"it chooses {said[0]}", self._text.strip(), 0, len(self._text))
        if not said and self._is_english():
            return Ruling(answer=Certainty.NO, why="it names none of the options")
        return Ruling(answer=Certainty.CANNOT_TELL, why="it does not say one option and nothing else")

    def nothing_else(self) -> Ruling:
        unread = self._unread
        if self._struck or not self._sentences:
            return Ruling(answer=Certainty.CANNOT_TELL, why="the answer has parts that the reader cannot read")
        named = [self._choice(check) for check in self._beside if isinstance(check, Chooses) and check.line is None]
        if unread is None or any(found.answer is not Certainty.CANNOT_TELL and found.clause for found in named):
            return Ruling(answer=Certainty.YES, why="every clause was read")
        return self._reading(Certainty.CANNOT_TELL, "no other check has read this with certainty", unread)


_STATING = word_set("is are can may could")
_LIMITING = frozenset({Mark.CONDITION, Mark.CONTRAST})
_CONTINUING = word_set(
    "if unless once when until till before after provided assuming only in but except is not or later"
)
"""Words that open what belongs to the line before."""

_PROSE = 0.3
_BETWEEN_DOSES = re.compile(r"[\s(=/,]*(?:in|of|or|per|as)?[\s(=/,]*")
_POINTING = word_set("this that these those it which such both neither no not never wrong instead")


def _phrases(check: Check) -> tuple[ActPhrase, ...]:
    return act_of(check.action) if isinstance(check, Advises) else ()


def _without(words: tuple[str, ...], phrase: tuple[str, ...]) -> tuple[str, ...] | None:
    for at in range(len(words) - len(phrase) + 1):
        if words[at : at + len(phrase)] == phrase:
            return (*words[:at], *words[at + len(phrase) :])
    return None
