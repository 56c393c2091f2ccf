import random
import warnings

import pytest
import regex

from steadyhand.spec.patterns import inspect_pattern


@pytest.mark.parametrize(
    "pattern",
    ["plain words", r"\bstop\b", r"(?i)a|b", r"(?<=a+)b", r"\p{L}+", r"a++", r"[[a-z]--[b]]", "°C", r"(?P<n>a)\1"],
)
def test_right_ones(pattern):
    assert inspect_pattern(pattern).error is None


@pytest.mark.parametrize("pattern", ["(", "a)", "*", "[z-a]", "a{2,1}", r"\p{Nope}", "(?P<a>x)(?P<a"])
def test_wrong_ones(pattern):
    assert inspect_pattern(pattern).error


@pytest.mark.parametrize(
    ("pattern", "always"),
    [
        ("a*", True),
        ("a|", True),
        ("^", True),
        ("^a*", True),
        ("a*$", True),
        ("[$^]?", True),
        (r"\$?", True),
        (r"\p{L}?", True),
        (r"a+", False),
        ("a", False),
        ("^a*$", False),
        ("(?!a)", False),
        (r"(?<!a)b?", False),
        (r"\b|x", False),
        (r"\p{L}?(?=b|$)", False),
    ],
)
def test_whether_it_matches_everything(pattern, always):
    assert inspect_pattern(pattern).always is always


def test_whatever_is_accepted_compiles_with_the_module_that_runs_it():
    """The shortcut must never accept what the real check refuses."""
    chance = random.Random(5)
    text = r"(?i) (?<= (?: (?! ( ) a b 0 . | * + ? {2} {1,} {,2} \b \d \. [a-z] [^0-9,] [+*] [z-a] ^ $ ?? - #"
    atoms = text.split()
    accepted = 0
    for _ in range(4000):
        pattern = "".join(chance.choice(atoms) for _ in range(chance.randint(1, 6)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if inspect_pattern(pattern).error is None:
                accepted += 1
                regex.compile(pattern)
    assert accepted > 500


def test_a_pattern_is_read_in_the_spelling_it_is_searched_with():
    """`[e-é]` is a range; decomposed it is a different one, and reversed it is an error in either spelling."""
    assert inspect_pattern("[e-e\u0301]").error is None
    assert inspect_pattern("[\u0300-e\u0301]").error is not None


@pytest.mark.parametrize("pattern", ["(?R)", "a(b)(?1)", "(?P<n>a)(?&n)", "(?P<n>a)(?P>n)", "(?-1)(a)"])
def test_a_pattern_that_calls_its_groups_is_refused_before_it_takes_all_memory(pattern):
    assert inspect_pattern(pattern).error == "calls of groups, such as (?R) or (?1), are not supported"


@pytest.mark.parametrize("pattern", ["[(?R)]x", r"\(?R", "(?i)abc", "(?:a)(?=b)", r"(a)\1", "(?P<n>a)(?P=n)"])
def test_what_only_looks_like_a_call_is_not(pattern):
    assert inspect_pattern(pattern).error is None
