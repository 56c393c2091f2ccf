"""`expected` of a judged evaluation: reading it, comparing an answer with it, and checking the answer's schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from steadyhand.judging.bounded_schema import bounded_validator
from steadyhand.records.base import Record

_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
_AT_LEAST = re.compile(rf"{_NUMBER}\s*\+")
_AT_MOST = re.compile(rf"{_NUMBER}\s*-")
_BETWEEN = re.compile(rf"{_NUMBER}\s*-\s*{_NUMBER}")
_BARE = re.compile(_NUMBER)
_NUMERIC_LOOK = re.compile(r"[\s\d.,%+<>=~\-\u2010-\u2015\u2212\u2264\u2265]*")
_FORMS = "`yes`, `no`, `0.8+` (at least), `0.3-` (at most) or `0.2-0.9` (from, to)"


class ExpectedAnswer(Record):
    """Either the judgment has to be `word`, or the confidence has to lie in `low..high`, both inclusive."""

    text: str
    word: str | None = None
    low: float = 0.0
    high: float = 1.0

    @property
    def numeric(self) -> bool:
        return self.word is None


class AnswerComparison(Record):
    """Whether an answer is what was expected. *unknown*: this answer does not say."""

    outcome: Literal["met", "missed", "unknown"]
    reason: str


def parse_expected(text: str) -> ExpectedAnswer:
    """Raises `ValueError` when the text is empty, or looks numeric without being one of the three forms."""
    trimmed = text.strip()
    if not trimmed:
        raise ValueError(f"expected {_FORMS}, found nothing")
    if match := _BETWEEN.fullmatch(trimmed):
        return _range(trimmed, float(match[1]), float(match[2]))
    if match := _AT_LEAST.fullmatch(trimmed):
        return _range(trimmed, float(match[1]), 1.0)
    if match := _AT_MOST.fullmatch(trimmed):
        return _range(trimmed, 0.0, float(match[1]))
    looks_numeric = _NUMERIC_LOOK.fullmatch(trimmed) and re.search(r"\d", trimmed)
    if looks_numeric and not _BARE.fullmatch(trimmed):
        raise ValueError(f"expected {_FORMS}, found {trimmed!r}")
    return ExpectedAnswer(text=trimmed, word=_plain(trimmed))


def _range(text: str, low: float, high: float) -> ExpectedAnswer:
    if low <= 0.0 and high >= 1.0:
        raise ValueError(f"{text!r} allows every confidence, so the check can never fail")
    if low > 1.0 or high > 1.0:
        raise ValueError(f"a confidence is between 0 and 1, found {text!r}")
    if low > high:
        raise ValueError(f"the range {text!r} is empty; write the smaller number first")
    return ExpectedAnswer(text=text, low=low, high=high)


def compare(
    expected: ExpectedAnswer, *, judgment: str, confidence: float | None, achieved: Mapping[str, bool]
) -> AnswerComparison:
    """Compare an answer with what was expected.

    A capability that was not achieved misses everything but `no`. An expected `no` is met by the word `no` alone: a
    `yes` that lacks a capability contradicts itself and meets neither. A judgment against its own confidence is
    *unknown*.
    """
    missed = [name for name, done in achieved.items() if not done]
    if missed and expected.word != "no":
        listed = ", ".join(repr(name) for name in missed)
        return AnswerComparison(
            outcome="missed", reason=f"{len(missed)} of {len(achieved)} capabilities not achieved: {listed}"
        )
    against = contradiction(judgment, confidence)
    if against is not None:
        return AnswerComparison(outcome="unknown", reason=against)
    if expected.word is not None:
        met = _plain(judgment) == expected.word
        return AnswerComparison(outcome="met" if met else "missed", reason=f"the judge answered {judgment!r}")
    if confidence is None:
        return AnswerComparison(outcome="unknown", reason="the judge gave no confidence to compare")
    met = expected.low <= confidence <= expected.high
    return AnswerComparison(outcome="met" if met else "missed", reason=f"the judge's confidence is {confidence:g}")


def contradiction(judgment: str, confidence: float | None) -> str | None:
    """How the word and the confidence in `yes` contradict each other, or None."""
    word = _plain(judgment)
    if confidence is None or not ((word == "yes" and confidence < 0.5) or (word == "no" and confidence > 0.5)):
        return None
    return f"the judge contradicts itself: it answered {word!r} and is {confidence:g} sure of 'yes'"


def check_answer_schema(schema: Mapping[str, Any], expected: ExpectedAnswer, capabilities: Sequence[str] = ()) -> None:
    """Raises `ValueError` when it is not a JSON Schema, rules out a judgment, or makes a check that can never pass or
    never fail."""
    answers = _Answers(schema)
    words = answers.words("judgment")
    if not answers.has("judgment"):
        raise ValueError("json_schema has no `judgment`; add it to `properties`, as a string")
    if words == [] or not answers.may_be_text("judgment"):
        raise ValueError("json_schema must allow a string as `judgment`")
    if expected.word is None:
        _check_confidence(answers, expected)
    else:
        _check_word(answers, expected, expected.word, words)
    if capabilities and answers.has("capabilities"):
        entries = [{"capability": name, "achieved": True, "reasoning": "x"} for name in capabilities]
        bare = [{"capability": name, "achieved": True} for name in capabilities]
        if not answers.takes("capabilities", (entries, bare)):
            form = "a list of entries with `capability`, `achieved` and `reasoning`"
            raise ValueError(f"json_schema rules out {form} as `capabilities`; leave `capabilities` out of it")


def _check_word(answers: _Answers, expected: ExpectedAnswer, word: str, words: Sequence[str] | None) -> None:
    text = expected.text
    if words is None:
        if not answers.takes("judgment", (text, word, word.upper(), word.capitalize(), word.title())):
            raise ValueError(f"`expected` is {text!r}, but json_schema does not allow that as `judgment`")
        return
    listed = ", ".join(repr(each) for each in words)
    plain = [each.strip().casefold() for each in words]
    if word not in plain:
        raise ValueError(f"`expected` is {text!r}, but json_schema allows only {listed} as `judgment`")
    if set(plain) == {word}:
        raise ValueError(f"`expected` is {text!r}, and json_schema allows nothing else, so the check can never fail")


def _check_confidence(answers: _Answers, expected: ExpectedAnswer) -> None:
    text, low, high = expected.text, expected.low, expected.high
    if not answers.has("confidence"):
        raise ValueError(f"`expected` is {text!r}, but json_schema has no `confidence` to compare with it")
    values = {0, 1, low, high, *(step / 20 for step in range(21)), *answers.numbers("confidence")}
    possible = [value for value in values if 0 <= value <= 1 and answers.takes("confidence", (value,))]
    if not any(low <= value <= high for value in possible):
        raise ValueError(
            f"`expected` is {text!r}, but json_schema allows no such `confidence`, so the check can never pass"
        )
    if all(low <= value <= high for value in possible):
        raise ValueError(f"`expected` is {text!r}, and json_schema allows no other `confidence`, so it can never fail")


class _Answers:
    """The objects that a schema describes, by member."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises `ValueError` when it is not a JSON Schema, or not of an object."""
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for

        try:
            validator_for(schema).check_schema(dict(schema))
        except SchemaError as error:
            where = ".".join(str(part) for part in error.absolute_path) or "the top level"
            raise ValueError(f"json_schema is not a valid JSON Schema at {where}: {error.message}") from None
        except RecursionError:
            raise ValueError("json_schema is nested too deeply") from None
        if not _allows_type(schema, "object"):
            raise ValueError("json_schema must describe an object with a `judgment`")
        self._root = schema
        self._validator: Any = bounded_validator(schema)

    def has(self, name: str) -> bool:
        return any(member is not False for member in self._members(name))

    def takes(self, name: str, values: Iterable[Any]) -> bool:
        """Whether the member may have one of these values. An external reference is not followed, and allows any."""
        from referencing.exceptions import Unresolvable

        checks = [self._validator.evolve(schema=member) for member in self._members(name)]
        try:
            return any(check.is_valid(value) for value in values for check in checks)
        except Unresolvable:
            return True
        except RecursionError:
            raise ValueError("json_schema refers to itself endlessly") from None

    def may_be_text(self, name: str) -> bool:
        members = [list(self._parts(member)) for member in self._members(name)]
        return all(_allows_type(part, "string") for parts in members for part in parts)

    def words(self, name: str) -> list[str] | None:
        """The strings that the member may be, when they are enumerated."""
        found = [values for member in self._members(name) if (values := self._enumerated(member)) is not None]
        return [value for values in found for value in values if isinstance(value, str)] if found else None

    def numbers(self, name: str) -> list[float]:
        """The numbers that the member's schema mentions."""
        mentioned: list[Any] = []
        for member in self._members(name):
            if isinstance(member, Mapping):
                mentioned += cast("Mapping[str, Any]", member).values()
            mentioned += self._enumerated(member) or []
        return [value for value in mentioned if isinstance(value, int | float) and not isinstance(value, bool)]

    def _members(self, name: str) -> Iterator[Any]:
        """The schemas of a member, wherever the schema or a part it is composed of names it."""
        for part in self._parts(self._root):
            properties = part.get("properties")
            if isinstance(properties, Mapping) and name in properties:
                member: Any = cast("Mapping[str, Any]", properties)[name]
                yield member

    def _parts(self, schema: Any) -> Iterator[Mapping[str, Any]]:
        """The schema and what it is composed of, each once."""
        left: list[Any] = [schema]
        seen: set[int] = set()
        while left:
            found = left.pop(0)
            if not isinstance(found, Mapping) or id(cast("object", found)) in seen:
                continue
            part = cast("Mapping[str, Any]", found)
            seen.add(id(part))
            yield part
            left.append(self._referred(part.get("$ref")))
            for keyword in ("allOf", "anyOf", "oneOf"):
                left += cast("list[Any]", part.get(keyword, []))

    def _referred(self, ref: Any) -> Any:
        """What a reference within the schema points to."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        at: Any = self._root
        for key in ref[1:].split("/"):
            if key:
                at = cast("Mapping[str, Any]", at).get(key) if isinstance(at, Mapping) else None
        return at

    def _enumerated(self, member: Any) -> list[Any] | None:
        for part in self._parts(member):
            if "const" in part:
                return [part["const"]]
            if "enum" in part:
                return list(cast("list[Any]", part["enum"]))
        return None


def _allows_type(schema: Mapping[str, Any], wanted: str) -> bool:
    given: Any = schema.get("type", wanted)
    return wanted in cast("list[Any]", given) if isinstance(given, list) else given == wanted


def _plain(text: str) -> str:
    return text.strip().casefold()
