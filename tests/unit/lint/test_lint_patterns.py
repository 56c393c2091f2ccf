"""The tokenizer distinguishes literals from everything else."""

from __future__ import annotations

import pytest

from steadyhand.lint.patterns import alternatives, closing, opening, tokenize


@pytest.mark.parametrize(
    ("pattern", "verbose", "texts"),
    [
        (r"(?i)a\b", False, ["a", r"\b"]),
        (r"[a)|]\)x{2,3}?", False, ["[a)|]", ")", "x", "{2,3}?"]),
        (r"(?x) a \  b # c" + "\n" + "[ #]", True, ["a", " ", "b", "[ #]"]),
        (r"(?:a|(?<!b)(?P<n>c))", False, ["(?:", "a", "|", "(?<!", "b", ")", "(?P<n>", "c", ")", ")"]),
        (r"(?#no)(?s:.)\x41\p{L}[]a]", False, ["(?s:", ".", ")", r"\x41", r"\p{L}", "[]a]"]),
        (r"a{b", False, ["a", "{", "b"]),
    ],
)
def test_tokens(pattern: str, verbose: bool, texts: list[str]) -> None:
    assert [token.text for token in tokenize(pattern, verbose=verbose)] == texts


def test_an_escaped_bracket_is_a_literal_and_opens_nothing() -> None:
    assert [token.kind for token in tokenize(r"\((\.)", verbose=False)] == ["literal", "open", "literal", "close"]


def test_groups_are_found_from_either_end() -> None:
    tokens = tokenize("x(a(b)c)y", verbose=False)
    assert closing(tokens, 1) == 7
    assert opening(tokens, 7) == 1
    assert closing(tokens, 3) == 5


def test_alternatives_of_inner_groups_stay_together() -> None:
    parts = alternatives(tokenize("a|(b|c)d|", verbose=False))
    assert ["".join(token.text for token in part) for part in parts] == ["a", "(b|c)d", ""]
