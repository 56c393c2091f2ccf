"""Checking a value against somebody else's schema takes bounded time and fetches nothing."""

from __future__ import annotations

import pytest

from steadyhand.judging.bounded_schema import EndlessSchema, bounded_validator, complaint
from steadyhand.testing import Answer
from steadyhand.text_match import search_limit
from support.loopback import Loopback

SLOW = "^(a|aa)+$"
LONG = "a" * 60 + "b"


def of(**members):
    return {"type": "object", "properties": members}


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"$ref": "#"}, {}, "endlessly|references"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}, "$ref": "#/$defs/a"}, {}, "endlessly|references"),
        (of(x={"pattern": "(a{999}){999}"}), {"x": "a"}, "too large"),
        ({"patternProperties": {"a{99999999}": {}}}, {"x": "a"}, "too large"),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, {}, "which it does not contain"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, {}, "is not supported"),
        ({"type": "objekt"}, {}, "is not valid"),
    ],
)
def test_what_would_never_end_is_the_fault_of_the_schema(schema, value, said):
    with pytest.raises(ValueError, match=f"(?s)the schema.*({said})"):
        complaint(schema, value, "the schema")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (of(x={"pattern": SLOW}), {"x": LONG}),
        ({"patternProperties": {SLOW: {}}}, {LONG: 1}),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": False}, {LONG: 1}),
    ],
)
def test_a_pattern_that_would_never_end_is_the_fault_of_the_schema(schema, value):
    with search_limit(0.1), pytest.raises(ValueError, match=r"(?s)the schema.*takes too long to match"):
        complaint(schema, value, "the schema")


def test_many_patterns_that_are_just_quick_enough_share_one_limit():
    members = {f"p{number}": {"pattern": f"^(a|aa){{1,28}}{number}$"} for number in range(400)}
    with search_limit(0.1), pytest.raises(EndlessSchema, match="takes too long to check"):
        list(bounded_validator(of(**members)).iter_errors(dict.fromkeys(members, "a" * 19)))


def test_a_list_of_unlike_things_is_compared_once_each():
    items: list[object] = [[number, {"a": number}] for number in range(20_000)]
    schema = {"type": "array", "uniqueItems": True}
    assert complaint(schema, [*items, 1, True, "1", None], "s") is None
    assert complaint(schema, [{"a": 1.0}, {"a": 1}], "s") == "$: [{'a': 1.0}, {'a': 1}] has non-unique elements"


def test_nothing_is_fetched():
    with Loopback(Answer(text="{}")) as server:
        schema = {"$ref": f"{server.url}/schema.json"}
        with pytest.raises(ValueError, match="does not contain"):
            complaint(schema, {}, "s")
        assert server.received == 0


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}, {"x-a": 1}),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, {"a": 1, "b": "c"}),
        ({"patternProperties": {"^x-": {"type": "integer"}}}, {"y": "1"}),
        (of(x={"pattern": "^[A-Z]+$"}), {"x": "ABC"}),
    ],
)
def test_it_accepts_what_it_describes(schema, value):
    assert complaint(schema, value, "s") is None


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"patternProperties": {"^x-": {"type": "integer"}}}, {"x-a": "1"}, "$.x-a: '1' is not of type 'integer'"),
        (
            {"patternProperties": {"^x-": {}}, "additionalProperties": False},
            {"x-a": 1, "b": 2},
            "$: Additional properties are not allowed ('b' was unexpected)",
        ),
        (
            {"properties": {"a": {}}, "additionalProperties": {"type": "string"}},
            {"b": 1},
            "$.b: 1 is not of type 'string'",
        ),
        (of(x={"pattern": "^[A-Z]+$"}), {"x": "abc"}, "$.x: 'abc' does not match '^[A-Z]+$'"),
    ],
)
def test_it_says_what_is_wrong(schema, value, said):
    complained = complaint(schema, value, "s")
    assert complained is not None
    assert complained.replace("['x-a']", ".x-a") == said


def test_each_value_has_the_limits_to_itself():
    schema = {"type": "array", "items": {"$ref": "#/$defs/any"}, "$defs": {"any": {}}}
    for _ in range(3):
        assert complaint(schema, [0] * 6_000, "`schema`") is None


def test_schemas_of_one_name_are_told_apart():
    schema = {"type": "string"}
    assert complaint(schema, 1, "`schema`") == "$: 1 is not of type 'string'"
    schema["type"] = "integer"
    assert complaint(schema, 1, "`schema`") is None
