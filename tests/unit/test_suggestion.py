import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.suggestion import edit_distance, nearest


@pytest.mark.parametrize(
    ("wrong", "allowed", "right"),
    [
        ("modle", ["mode", "models", "model"], "model"),
        ("rnu", ["runs", "run"], "run"),
        ("--trails", ["--retries", "--until", "--trials"], "--trials"),
        ("vaildate", ["matrix", "validate"], "validate"),
        ("maxTurns", ["max_turns_2", "max_turns"], "max_turns"),
        ("tpye", ["type"], "type"),
        ("evaluation", ["evaluations"], "evaluations"),
        ("xyz", ["run", "show"], None),
        ("a", ["b"], None),
        ("anything", [], None),
    ],
)
def test_the_name_that_was_meant(wrong, allowed, right):
    assert nearest(wrong, allowed) == right


def test_as_close_as_asked():
    assert nearest("opena", ["openai"], likeness=0.75) == "openai"
    assert nearest("myai", ["openai"], likeness=0.75) is None


words = st.text("abc", max_size=7)


def slow_distance(one: str, other: str) -> int:
    if not one or not other:
        return len(one) + len(other)
    found = min(
        slow_distance(one[1:], other) + 1,
        slow_distance(one, other[1:]) + 1,
        slow_distance(one[1:], other[1:]) + (one[0] != other[0]),
    )
    if one[:2] == other[1::-1] and len(one) > 1 and len(other) > 1:
        found = min(found, slow_distance(one[2:], other[2:]) + 1)
    return found


@given(st.text("abc", max_size=5), st.text("abc", max_size=5))
def test_the_distance_is_the_least_number_of_edits(one, other):
    assert edit_distance(one, other, 9) == slow_distance(one, other)


@given(words, words, st.integers(0, 7))
def test_a_limit_changes_nothing_within_it(one, other, most):
    whole = edit_distance(one, other, 14)
    assert min(edit_distance(one, other, most), most + 1) == min(whole, most + 1)
    assert whole == edit_distance(other, one, 14)
