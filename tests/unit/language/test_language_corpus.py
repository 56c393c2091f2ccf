"""The precision of yes on a corpus of messages, of which one half was not looked at while the rules were written.

`refused` is for the rules about refusals.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from steadyhand.language.answer import Certainty
from steadyhand.language.keywords import keyword_meant
from steadyhand.language.statements import repeated
from support.corpus import HALVES, LANGUAGES, Tally, corpus, tally

DOCS = Path(__file__).parents[3] / "docs" / "conversations.md"
LEAST_PRECISION = 0.99


def keywords(language: str) -> Callable[[str], Certainty | None]:
    listed = corpus(language)["keywords"]

    def read(message: str) -> Certainty | None:
        found = keyword_meant(message, listed)
        return None if found is None else found.reading.answer

    return read


def advice(language: str) -> Callable[[str], Certainty | None]:
    pattern = re.compile(rf"\b{corpus(language)['advice']}\b", re.IGNORECASE)

    def read(message: str) -> Certainty | None:
        spans = [match.span() for match in pattern.finditer(message)]
        return repeated(message, spans).answer

    return read


def satisfaction(language: str, which: str) -> Tally:
    return tally(
        language,
        which,
        keywords(language),
        ("satisfied", "solved"),
        ("dissatisfied", "neither", "not_solved", "retracted"),
    )


@pytest.mark.parametrize("which", HALVES)
@pytest.mark.parametrize("language", [*LANGUAGES, "other"])
def test_a_keyword_that_is_read_as_meant_is_meant(language, which):
    found = satisfaction(language, which)
    assert found.wrong == []
    assert found.coverage > 0.5


@pytest.mark.parametrize("which", HALVES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_advice_that_is_read_as_repeated_is_not_withdrawn(language, which):
    assert tally(language, which, advice(language), ("upheld",), ("retracted",)).wrong == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_corpus_is_as_large_as_promised(language):
    found = corpus(language)
    said = [each for category, messages in found.items() if category not in ("keywords", "advice") for each in messages]
    assert len(said) == len(set(said))
    assert len(said) >= (400 if language == "en" else 60)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_figures_in_the_docs_are_those_measured(language):
    cells = [_cell(satisfaction(language, which)) for which in HALVES]
    row = next(line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {language} |"))
    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == [cell for pair in cells for cell in pair]


def _cell(found: Tally) -> tuple[str, str]:
    said = found.right + len(found.wrong)
    return f"{found.right} of {said}", f"{found.right} of {found.should} ({found.coverage:.0%})"


BLIND = yaml.safe_load((Path(__file__).parent / "blind_messages.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("language", [*LANGUAGES, "other"])
def test_messages_that_were_never_tuned_on_are_not_misread(language):
    read = keywords(language)
    assert [message for message in BLIND[language]["not_meant"] if read(message) is Certainty.YES] == []
    meant = BLIND[language]["meant"]
    assert sum(read(message) is Certainty.YES for message in meant) >= len(meant) / 2


def test_advice_that_was_never_tuned_on_is_not_misread():
    read = advice("en")
    assert [message for message in BLIND["advice"]["not_upheld"] if read(message) is Certainty.YES] == []
    assert all(read(message) is Certainty.YES for message in BLIND["advice"]["upheld"])
