"""JSON read strictly, compared by value, and paths into it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.json_text import JsonPath, NotJson, parse_json, same_json, show_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 1, column 1"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": 1,}', "column"),
        ('{"a": 1} and more', "column 10"),
        ('{"a": 1, "b": 2, "a": 1}', 'the name "a" is used twice'),
        ('[{"x": {"a": 1, "a": 1}}]', "used twice"),
        ("NaN", "NaN is not a number"),
        ('{"a": -Infinity}', "-Infinity is not a number"),
        ("1e400", "out of range"),
        ("9" * 5000, "5000 digits"),
        ("[" * 100_000, "nested too deeply"),
        ("\ufeff{}", "column 1"),
        ("01", "column 2"),
    ],
)
def test_what_is_not_json(text, why):
    with pytest.raises(NotJson) as caught:
        parse_json(text)
    assert why in str(caught.value)


@given(VALUES)
def test_what_is_written_is_read_back(value):
    assert same_json(parse_json(show_json(value)), value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", 1.0, True),
        ("1", True, False),
        ("true", 1, False),
        ("0.1", 0.1, True),
        ("1.00000000000000000001", 1, False),
        ("9007199254740993", 9007199254740992, False),
        ("9007199254740993.0", 9007199254740992, False),
        ('"1"', 1, False),
        ('"caf\\u00e9"', "cafe\u0301", True),
        ('{"a": [1, null]}', {"a": [1, None]}, True),
        ('{"a": null}', {}, False),
        ("[1, 2]", [2, 1], False),
        ("null", 0, False),
        ('""', None, False),
    ],
)
def test_equality(one, other, same):
    assert same_json(parse_json(one), other) is same


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [("$", {"a": [{"b": 1}, {"b": 2}], "c d": {"$x": None}, "e.f": "g"})]),
        ("$.a[0].b", [('$["a"][0]["b"]', 1)]),
        ("$.a[-1].b", [('$["a"][1]["b"]', 2)]),
        ("$.a[2]", []),
        ("$.a[-3]", []),
        ("$.a.b", []),
        ("$[0]", []),
        ("$.a[*].b", [('$["a"][0]["b"]', 1), ('$["a"][1]["b"]', 2)]),
        ("$['c d']['$x']", [('$["c d"]["$x"]', None)]),
        ('$["e.f"]', [('$["e.f"]', "g")]),
        ("$['c d'].*", [('$["c d"]["$x"]', None)]),
        ("$.missing.*", []),
    ],
)
def test_paths(path, found):
    value = parse_json('{"a": [{"b": 1}, {"b": 2}], "c d": {"$x": null}, "e.f": "g"}')
    assert [tuple(each) for each in JsonPath(path).find(value)] == found
