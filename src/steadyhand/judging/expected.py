"""`expected` of a judged evaluation: what the judge's answer has to be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from steadyhand.records.base import Record

_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)"
_AT_LEAST = re.compile(rf"{_NUMBER}\s*\+")
_AT_MOST = re.compile(rf"{_NUMBER}\s*-")
_BETWEEN = re.compile(rf"{_NUMBER}\s*-\s*{_NUMBER}")
_BARE = re.compile(_NUMBER)
_NUMERIC_LOOK = re.compile(r"[\s\d.,%+<>=~\-\u2010-\u2015\u2212\u2264\u2265]*")
_FORMS = "`yes`, `no`, `0.8+` (at least), `0.3-` (at most) or `0.2-0.9` (from, to)"


class Expected(Record):
    """Either the judgment has to be `word`, or the confidence has to lie in `low..high`, both inclusive."""

    text: str
    word: str | None = None
    low: float = 0.0
    high: float = 1.0

    @property
    def numeric(self) -> bool:
        return self.word is None


class Comparison(Record):
    """Whether an answer is what was expected. *unknown* means that it cannot be told from this answer."""

    outcome: Literal["met", "missed", "unknown"]
    reason: str


def parse_expected(text: str) -> Expected:
    """Raises `ValueError` when the text looks like numbers and is none of the three forms, or is empty."""
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
    return Expected(text=trimmed, word=_plain(trimmed))


def compare(expected: Expected, *, judgment: str, confidence: float | None, achieved: Mapping[str, bool]) -> Comparison:
    """Hold an answer against what was expected.

    A capability that was not achieved misses everything but `no`. An expected `no` is met by the word `no` alone: a
    `yes` that lacks a capability contradicts itself and meets neither. A judgment against its own confidence is
    *unknown*.
    """
    missed = [name for name, done in achieved.items() if not done]
    if missed and expected.word != "no":
        listed = ", ".join(repr(name) for name in missed)
        return Comparison(
            outcome="missed", reason=f"{len(missed)} of {len(achieved)} capabilities not achieved: {listed}"
        )
    against = contradiction(judgment, confidence)
    if against is not None:
        return Comparison(outcome="unknown", reason=against)
    if expected.word is not None:
        met = _plain(judgment) == expected.word
        return Comparison(outcome="met" if met else "missed", reason=f"the judge says {judgment!r}")
    if confidence is None:
        return Comparison(outcome="unknown", reason="the judge gave no confidence to compare")
    met = expected.low <= confidence <= expected.high
    return Comparison(outcome="met" if met else "missed", reason=f"the judge's confidence is {confidence:g}")


def contradiction(judgment: str, confidence: float | None) -> str | None:
    """How the word and the confidence in `yes` contradict each other, or None."""
    word = _plain(judgment)
    if confidence is None or not ((word == "yes" and confidence < 0.5) or (word == "no" and confidence > 0.5)):
        return None
    return f"the judge says {word!r} and is {confidence:g} sure of 'yes', which contradict each other"


def _range(text: str, low: float, high: float) -> Expected:
    if low <= 0.0 and high >= 1.0:
        raise ValueError(f"{text!r} allows every confidence, so it can never fail")
    if low > 1.0 or high > 1.0:
        raise ValueError(f"a confidence lies between 0 and 1, found {text!r}")
    if low > high:
        raise ValueError(f"the range {text!r} is empty: write the smaller number first")
    if low == 0.0 and high == 1.0:
        raise ValueError(f"every confidence lies in {text!r}, so the check can never fail")
    return Expected(text=text, low=low, high=high)


def _plain(text: str) -> str:
    return text.strip().casefold()
