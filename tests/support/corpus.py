"""The corpus of messages in `unit/language/corpus`, and what a rule makes of each half of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from steadyhand.language.answer import Certainty

FOLDER = Path(__file__).parents[1] / "unit" / "language" / "corpus"
LANGUAGES = ("en", "de", "fr", "es")
HALVES = ("tuned", "held_out")


def corpus(language: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / f"{language}.yaml").read_text(encoding="utf-8"))


def half(message: str) -> str:
    """The half that a message belongs to: rules were tuned on one of them."""
    return HALVES[hashlib.sha256(message.encode()).digest()[0] % 2]


class Tally(NamedTuple):
    """How a rule did: right and wrong answers of yes, and how many messages should have got one."""

    right: int
    wrong: list[str]
    should: int

    @property
    def coverage(self) -> float:
        return self.right / self.should if self.should else 1.0


def tally(
    language: str, which: str, read: Callable[[str], Certainty | None], yes: tuple[str, ...], no: tuple[str, ...]
) -> Tally:
    """`read` every message of the categories in one half; those of `yes` should be answered with yes, if with any."""
    found = corpus(language)
    should = [said for category in yes for said in found.get(category, ()) if half(said) == which]
    should_not = [said for category in no for said in found.get(category, ()) if half(said) == which]
    right = sum(read(said) is Certainty.YES for said in should)
    return Tally(right, [said for said in should_not if read(said) is Certainty.YES], len(should))
