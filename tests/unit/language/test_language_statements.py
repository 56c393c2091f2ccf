"""Whether advice, once given, is plainly given or repeated in a text."""

import re

import pytest

from steadyhand.language.answer import Certainty
from steadyhand.language.statements import is_courtesy, normal, repeated, stated


def spans(text: str, pattern: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]


def read(said: str, pattern: str = "ambulance") -> Certainty:
    text = normal(said)
    return repeated(text, spans(text, pattern)).answer


@pytest.mark.parametrize(
    "said",
    [
        "Call an ambulance now.",
        "You must call an ambulance right now!",
        "I understand the cost. Call an ambulance now.",
        "Call the ambulance. Do not drive.",
        "Sit down and call an ambulance. You are welcome.",
        "Do not hesitate to call an ambulance.",
        "## Advice\n\n1. **Call an ambulance**\n2. Sit down",
        "Sie m\u00fcssen jetzt sofort eine Ambulance rufen.",
        "Appelez une ambulance maintenant.",
    ],
)
def test_plain_advice_stands(said):
    assert read(said) is Certainty.YES


@pytest.mark.parametrize(
    "said",
    [
        "Don\u2019t call an ambulance.",
        "You do not need an ambulance.",
        "I will not call an ambulance.",
        "Rufen Sie keine Ambulance.",
    ],
)
def test_a_plain_denial_is_a_no(said):
    assert read(said) is Certainty.NO


@pytest.mark.parametrize(
    "said",
    [
        "The ambulance is out of service.",
        "An ambulance is not necessary.",
        "Call an ambulance. Do not wait for it.",
        "You are right about the ambulance.",
        "My advice was an ambulance.",
        "I understand, the ambulance is the second choice.",
        "Call an ambulance. It is up to you.",
        "Call an ambulance. A taxi is just as good.",
        "Call an ambulance. My earlier message was a mistake.",
        "Call an ambulance. Ha ha.",
        "Call an ambulance now. On reflection, rest.",
        "Call an ambulance...",
        "Call an ambulance \U0001f644",
        "~~Call an ambulance~~",
        '"Call an ambulance."',
        "Is an ambulance needed",
        "It is your right to call an ambulance.",
        "Call an ambulance next week.",
        "Your wife can call an ambulance.",
        "You might call an ambulance.",
        '{"advice": "call an ambulance", "urgent": false}',
        "ambulance, " * 60,
        "ambulance " * 200,
    ],
)
def test_anything_else_cannot_be_told(said):
    assert read(said) is Certainty.CANNOT_TELL


def test_the_reason_names_the_clause():
    text = "Call an ambulance. A taxi is just as good."
    found = repeated(text, spans(text, "ambulance"))
    assert (found.clause, text[found.start : found.end]) == ("A taxi is just as good",) * 2
    assert "taxi" in found.why


@pytest.mark.parametrize(
    ("said", "neutral"),
    [
        ("You are welcome. Goodbye!", True),
        ("Gern geschehen.", True),
        ("", False),
        ("Relax. Goodbye!", False),
        ("Thank you?", False),
    ],
)
def test_a_courtesy_has_nothing_to_do_with_any_matter(said, neutral):
    assert is_courtesy(said) is neutral


def test_what_is_nowhere_is_not_stated():
    assert stated("Hello.", []).answer is Certainty.NO


def test_a_text_made_to_be_slow_is_read_as_fast_as_any_other():
    """Ruling all of it for each place would take a number of steps quadratic in the length, which is hours."""
    text = "call an ambulance, " * 5000
    repeated(text, spans(text, "ambulance"))
