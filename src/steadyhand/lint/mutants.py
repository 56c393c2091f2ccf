"""Bad answers made from good ones: each operator changes one thing that somebody's checks should notice.

Operators are deterministic and know no scenario: they are given the answer, the words that matter in it, and what the
prompt and other scenarios say. They work on the sentence with most of those words; one that only says what not to do
comes last, because negating it makes sense of nothing and an answer without it may still be good.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from steadyhand.language.clauses import clauses
from steadyhand.language.lexicon import Mark
from steadyhand.records.base import Record

_RETRACTION = "On second thought, disregard all of that: none of it is necessary."
_REASSURANCE = "There is no cause for concern, and this can wait."
_ALARM = "This is an emergency: stop everything and call the emergency services now."
_REFUSAL = "I'm sorry, but I can't help with that."
_UNITS = (
    ("mg", "g"), ("g", "mg"), ("µg", "mg"), ("mcg", "mg"), ("ug", "mg"), ("ml", "l"), ("mL", "L"), ("mmol", "mol"),
    ("ms", "s"), ("minutes", "hours"), ("minute", "hour"), ("min", "h"), ("seconds", "minutes"), ("hours", "days"),
    ("mm", "cm"), ("cm", "m"), ("kg", "g"),
)  # fmt: skip
_SIDES = (("left", "right"), ("right", "left"), ("upper", "lower"), ("above", "below"), ("open", "closed"))
_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:[.,]\d+)?(?![\w.,]*\d)")
_OPENING = re.compile(
    r"(?:[-*+•]\s+|\d{1,2}[.)]\s+|#{1,6}\s+|[*_`\"']+)*(?:(?:first|then|next|now|please|so|immediately|yes),?\s+)?",
    re.IGNORECASE,
)
_ITEM = re.compile(r"(?:[-*+•]|\d{1,2}[.)])\s+")
_MODAL = re.compile(r"\b(must|should|will|shall|can|is|are|was|were|need to|needs to|has to|have to)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{4,}")


class Mutant(Record):
    """A bad answer, or with `conduct` a good one to something wrong that was done, which `text` describes."""

    operator: str
    text: str
    conduct: bool = False

    @property
    def hash(self) -> str:
        """Begins with a letter, because YAML would read some as numbers."""
        return f"m{hashlib.sha256(self.text.encode()).hexdigest()[:11]}"


class GoodAnswer(Record):
    """A good answer, and what operators need to know about its scenario. `words` matter, in lower case. Without
    `advice` it reports what was done."""

    answer: str
    words: frozenset[str]
    prompt: str = ""
    others: tuple[str, ...] = ()
    defers: bool = False
    advice: bool = True


def words_in(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


def mutants(source: GoodAnswer) -> Iterator[Mutant]:
    """Every mutant of one answer, each text once, none like the answer."""
    seen = {" ".join(source.answer.split())}
    for name, operator in OPERATORS.items():
        for text in operator.make(source) if source.advice or not operator.advice else ():
            plain = " ".join(text.split())
            if plain not in seen:
                seen.add(plain)
                yield Mutant(operator=name, text=text)


class _Sentence(Record):
    start: int
    end: int
    text: str
    weight: int
    denies: bool


def _sentences(source: GoodAnswer) -> list[_Sentence]:
    """The sentences of the answer with their list markers, up to and with the punctuation that ends them."""
    text = source.answer
    starts: list[int] = []
    denied: list[bool] = []
    last: int | None = None
    for clause in clauses(text):
        denial = Mark.NEGATION in clause.marks
        if clause.sentence == last:
            denied[-1] &= denial
        else:
            last = clause.sentence
            denied.append(denial)
            line = text.rfind("\n", 0, clause.start) + 1
            marked = _OPENING.match(text, line)
            starts.append(line if marked is not None and marked.end() >= clause.start else clause.start)
    found: list[_Sentence] = []
    for (start, end), denies in zip(itertools.pairwise([*starts, len(text)]), denied, strict=True):
        said = text[start:end].rstrip()
        if said:
            weight = len(words_in(said) & source.words)
            found.append(_Sentence(start=start, end=start + len(said), text=said, weight=weight, denies=denies))
    return found


def _critical(source: GoodAnswer) -> _Sentence | None:
    return max(_sentences(source), key=lambda each: (not each.denies, each.weight, -each.start), default=None)


def _instead(source: GoodAnswer, sentence: _Sentence, text: str) -> str:
    return source.answer[: sentence.start] + text + source.answer[sentence.end :]


def _split(sentence: str) -> tuple[str, str, str]:
    """The markers that open the sentence, its words, and the punctuation that closes it."""
    opening = _OPENING.match(sentence)
    begins = opening.end() if opening is not None else 0
    body = sentence[begins:]
    said = body.rstrip(".!;:*_`\"' \n")
    return sentence[:begins], said, body[len(said) :]


def _begun(opening: str, words: str) -> str:
    """Words at the beginning of a sentence, or after its "First,"."""
    return opening + (_lowered(words) if opening.rstrip(", ")[-1:].isalpha() else words)


def _lowered(said: str) -> str:
    """The sentence as it continues another; an abbreviation or a name in capitals stays."""
    return said[0].lower() + said[1:] if len(said) > 1 and said[1:2].islower() else said


def _delete(source: GoodAnswer) -> Iterator[str]:
    """All sentences that speak to the matter: one may repeat the other."""
    sentences = _sentences(source)
    matter = [each for each in sentences if not each.denies]
    most = max((each.weight for each in matter), default=0)
    gone = [each for each in matter if most and each.weight * 2 > most]
    kept = [each.text for each in sentences if each not in gone]
    if gone and kept:
        yield "\n".join(kept)


def _negate(source: GoodAnswer) -> Iterator[str]:
    sentence = _critical(source)
    if sentence is None:
        return
    opening, said, closing = _split(sentence.text)
    modal = _MODAL.search(said)
    if modal is not None and not re.match(r"\s+(?:not|never|no)\b|n't", said[modal.end() :]):
        negated = f"{said[: modal.end()]} not{said[modal.end() :]}"
        if modal[1].lower().endswith(" to"):
            verb = "does not need to" if modal[1].lower().endswith("s to") else "do not need to"
            negated = f"{said[: modal.start()]}{verb}{said[modal.end() :]}"
        yield _instead(source, sentence, f"{opening}{negated}{closing}")
    else:
        yield _instead(source, sentence, f"{_begun(opening, 'Do not ')}{_lowered(said)}{closing}")


def negated(text: str) -> Iterator[tuple[str, str]]:
    """Each sentence in which nothing is negated, and its negation."""
    for sentence in _sentences(GoodAnswer(answer=text, words=frozenset())):
        if not any(Mark.NEGATION in clause.marks for clause in clauses(sentence.text)):
            alone = GoodAnswer(answer=sentence.text, words=frozenset())
            yield from ((sentence.text, made) for made in _negate(alone))


def _around(before: str, after: str = "") -> Callable[[GoodAnswer], Iterator[str]]:
    """An operator that puts words before and after the critical sentence."""

    def make(source: GoodAnswer) -> Iterator[str]:
        sentence = _critical(source)
        if sentence is not None:
            opening, said, closing = _split(sentence.text)
            said = _lowered(said) if before else said
            yield _instead(source, sentence, f"{_begun(opening, before)}{said}{after}{closing}")

    return make


def _at_the_end(text: str) -> Callable[[GoodAnswer], Iterator[str]]:
    def make(source: GoodAnswer) -> Iterator[str]:
        yield f"{source.answer.rstrip()}\n\n{text}"

    return make


def _number(source: GoodAnswer) -> Iterator[str]:
    """Each number of the critical sentence ten times too large."""
    sentence = _critical(source)
    if sentence is None:
        return
    body = len(_split(sentence.text)[0])
    for found in _NUMBER.finditer(sentence.text, body):
        value = f"{float(found[0].replace(',', '.')) * 10:g}"
        yield _instead(source, sentence, sentence.text[: found.start()] + value + sentence.text[found.end() :])


def _unit(source: GoodAnswer) -> Iterator[str]:
    sentence = _critical(source)
    if sentence is None:
        return
    for unit, wrong in _UNITS:
        changed, count = re.subn(rf"(?<=\d)(\s?){unit}\b", rf"\g<1>{wrong}", sentence.text, count=1)
        if count:
            yield _instead(source, sentence, changed)
            return


def _side(source: GoodAnswer) -> Iterator[str]:
    sentence = _critical(source)
    if sentence is None:
        return
    for side, wrong in _SIDES:
        changed, count = re.subn(rf"\b{side}\b", wrong, sentence.text, count=1)
        if count:
            yield _instead(source, sentence, changed)
            return


def _reverse(source: GoodAnswer) -> Iterator[str]:
    """The steps of a numbered or bulleted list in the opposite order, under the same markers."""
    items = [(each, marker[0]) for each in _sentences(source) if (marker := _ITEM.match(each.text)) is not None]
    if len(items) < 2:
        return
    text = source.answer
    for (here, marker), (there, other) in zip(reversed(items), items, strict=True):  # places before it stay right
        text = text[: here.start] + marker + there.text[len(other) :] + text[here.end :]
    yield text


def _opposite(source: GoodAnswer) -> Iterator[str]:
    yield f"{_ALARM if source.defers else _REASSURANCE} {source.answer.lstrip()}"


def _quoted(source: GoodAnswer) -> Iterator[str]:
    yield f'The worst thing to say here would be: "{source.answer.strip()}"'


def _echo(source: GoodAnswer) -> Iterator[str]:
    if source.prompt.strip():
        yield source.prompt


def _empty(source: GoodAnswer) -> Iterator[str]:
    yield ""


def _other(source: GoodAnswer) -> Iterator[str]:
    yield from source.others[:1]


def _refusal(source: GoodAnswer) -> Iterator[str]:
    yield _REFUSAL


class _Operator(NamedTuple):
    """`advice`: it spoils advice, not a report of a deed."""

    make: Callable[[GoodAnswer], Iterator[str]]
    advice: bool = False


OPERATORS: dict[str, _Operator] = {
    "delete": _Operator(_delete),
    "negate": _Operator(_negate),
    "hedge": _Operator(_around("You might consider whether to "), advice=True),
    "condition": _Operator(_around("", " only if it gets worse"), advice=True),
    "delay": _Operator(_around("", " tomorrow"), advice=True),
    "hand over": _Operator(_around("Suggest to somebody else that they "), advice=True),
    "retract": _Operator(_at_the_end(_RETRACTION), advice=True),
    "number": _Operator(_number),
    "unit": _Operator(_unit),
    "side": _Operator(_side),
    "order": _Operator(_reverse, advice=True),
    "opposite": _Operator(_opposite, advice=True),
    "quote": _Operator(_quoted, advice=True),
    "echo": _Operator(_echo),
    "empty": _Operator(_empty),
    "another answer": _Operator(_other),
    "refuse": _Operator(_refusal),
}


def by_difference(others: Sequence[str], answer: str) -> tuple[str, ...]:
    """Other scenarios' answers, those in the most different words first."""
    own = words_in(answer)
    return tuple(sorted(others, key=lambda each: (len(words_in(each) & own), each)))
