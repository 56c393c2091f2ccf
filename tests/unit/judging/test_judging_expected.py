from __future__ import annotations

import pytest

from steadyhand.judging.expected import check_answer_schema, compare, parse_expected
from steadyhand.text_match import search_limit


@pytest.mark.parametrize(
    ("expected", "judgment", "confidence", "outcome"),
    [
        ("yes", "yes", 0.9, "met"),
        ("YES ", " Yes", None, "met"),
        ("yes", "no", 0.1, "missed"),
        ("yes", "no", 0.9, "unknown"),
        ("yes", "yes", 0.0, "unknown"),
        ("no", "no", 1.0, "unknown"),
        ("0.3-", "yes", 0.1, "unknown"),
        ("yes", "yes, but", 0.9, "missed"),
        ("yes", "yesterday", 0.9, "missed"),
        ("no", "no", 0.1, "met"),
        ("no", "yes", 0.9, "missed"),
        ("0.8+", "yes", 0.8, "met"),
        ("0.8+", "yes", 0.7999, "missed"),
        (".8 +", "yes", 0.8, "met"),
        ("1+", "yes", 1.0, "met"),
        ("0.3-", "no", 0.3, "met"),
        ("0.3-", "no", 0.31, "missed"),
        ("0.2-0.9", "yes", 0.5, "met"),
        ("0.2-0.9", "no", 0.5, "met"),
        ("0.2 - 0.9", "yes", 0.9, "met"),
        ("0.2-0.9", "yes", 0.95, "missed"),
        ("0.2-0.9", "no", 0.1, "missed"),
        ("0.8+", "yes", None, "unknown"),
        ("0.8+", "no", 0.95, "unknown"),
        ("Needs Work", "needs work", None, "met"),
        ("needs work", "work", None, "missed"),
    ],
)
def test_what_an_answer_has_to_be(expected: str, judgment: str, confidence: float | None, outcome: str):
    found = compare(parse_expected(expected), judgment=judgment, confidence=confidence, achieved={})
    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("expected", "judgment", "outcome"),
    [("yes", "yes", "missed"), ("0.8+", "yes", "missed"), ("no", "no", "met"), ("no", "yes", "missed")],
)
def test_a_missed_capability_misses_everything_but_a_plain_no(expected: str, judgment: str, outcome: str):
    found = compare(
        parse_expected(expected),
        judgment=judgment,
        confidence=0.95 if judgment == "yes" else 0.05,
        achieved={"greets": True, "explains": False},
    )
    assert found.outcome == outcome


def test_the_missed_capabilities_are_named():
    found = compare(parse_expected("yes"), judgment="yes", confidence=1.0, achieved={"greets": True, "explains": False})
    assert found.reason == "1 of 2 capabilities not achieved: 'explains'"


@pytest.mark.parametrize(
    "text",
    [
        "0+",
        "1-",
        "0-1",
        "0.0-1.0",
        "",
        "  ",
        "1.2+",
        "1.01-",
        "0.9-0.2",
        "0.5-1.5",
        "-0.3",
        "0.8++",
        ">=0.8",
        "80%",
        "0,8+",
        "0.2\u20130.9",
    ],
)
def test_malformed_numbers_are_refused(text: str):
    with pytest.raises(ValueError):
        parse_expected(text)


def said_by(judgment: dict, confidence: dict | None = None) -> dict:
    members = {"judgment": judgment} if confidence is None else {"judgment": judgment, "confidence": confidence}
    return {"type": "object", "properties": members}


@pytest.mark.parametrize(
    ("schema", "expected", "complaint"),
    [
        ({"type": "array"}, "yes", "must describe an object"),
        ({"type": "objekt"}, "yes", "is not a valid JSON Schema"),
        ({"type": "object", "properties": {"x": {}}, "additionalProperties": False}, "yes", "has no `judgment`"),
        ({"type": "object"}, "yes", "has no `judgment`"),
        ({"type": "object", "properties": {"verdict": {"type": "string"}}}, "yes", "has no `judgment`"),
        ({"type": "object", "properties": {"judgment": False}}, "yes", "has no `judgment`"),
        (said_by({"enum": ["yes"]}), "yes", "can never fail"),
        (said_by({"const": "Yes"}), "yes", "can never fail"),
        (said_by({"const": "no"}), "yes", "allows only 'no'"),
        (said_by({"type": "string", "pattern": "^[0-9]+$"}), "good", "does not allow that"),
        (said_by({"type": "string", "maxLength": 2}), "yes", "does not allow that"),
        ({"$ref": "#/$defs/a", "$defs": {"a": said_by({"enum": ["good", "bad"]})}}, "yes", "allows only 'good', 'bad'"),
        (said_by({"type": "string"}), "0.8+", "has no `confidence`"),
        (said_by({}, {"type": "string"}), "0.8+", "can never pass"),
        (said_by({}, {"type": "number", "maximum": 0.7}), "0.8+", "can never pass"),
        (said_by({}, {"enum": [0, 0.5]}), "0.8+", "can never pass"),
        (said_by({}, {"type": "number", "minimum": 0.805}), "0.8+", "can never fail"),
        ({"type": "object", "properties": {"judgment": {"type": "boolean"}}}, "yes", "must allow a string"),
        ({"type": "object", "properties": {"judgment": {"enum": [1, 2]}}}, "yes", "must allow a string"),
        ({"type": "object", "properties": {"judgment": {"enum": ["good", "bad"]}}}, "yes", "allows only 'good', 'bad'"),
        (
            {"type": "object", "properties": {"judgment": {"type": "string"}}, "additionalProperties": False},
            "0.8+",
            "has no `confidence`",
        ),
    ],
)
def test_a_schema_that_cannot_give_the_answer_is_refused(schema: dict, expected: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        check_answer_schema(schema, parse_expected(expected))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"allOf": [{"properties": {"judgment": {"type": "string"}}}]}, "yes"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"judgment": {"type": "string"}}}}}, "yes"),
        (said_by({"type": "string", "pattern": "^[A-Z]+$"}), "approved"),
        (said_by({"type": "string", "pattern": "^[A-Z]{7}$"}, {"type": "integer"}), "0.8+"),
        ({"properties": {"judgment": {"type": ["string", "null"]}}}, "approved"),
        ({"type": "object", "properties": {"judgment": {"enum": ["Good", "bad"]}}}, "good"),
        ({"type": "object", "properties": {"judgment": {"enum": ["yes", "no"]}, "confidence": {}}}, "0.2-0.9"),
    ],
)
def test_a_schema_that_can_is_taken(schema: dict, expected: str):
    check_answer_schema(schema, parse_expected(expected))


def test_capabilities_of_the_schemas_own_must_be_ours_to_read():
    own = {"type": "object", "properties": {"judgment": {}, "capabilities": {"type": "object"}}}
    with pytest.raises(ValueError, match="leave `capabilities` out of it"):
        check_answer_schema(own, parse_expected("yes"), ["Greets"])
    check_answer_schema(own, parse_expected("yes"))
    listed = {"type": "object", "properties": {"judgment": {}, "capabilities": {"type": "array"}}}
    check_answer_schema(listed, parse_expected("yes"), ["Greets"])


DOUBLING: dict = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)} | {
    "d30": {"type": "string"}
}
SLOW = "^(a|aa)+$"


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (said_by({"type": "string", "pattern": "a{99999999}"}), "too large"),
        (said_by({"type": "string"}) | {"patternProperties": {SLOW: {}}}, "uses `patternProperties`"),
        (said_by({"$ref": "#/$defs/d0"}) | {"$defs": DOUBLING}, "follows more than 10,000 references"),
        (said_by({"$ref": "#/$defs/a"}) | {"$defs": {"a": {"$ref": "#/$defs/a"}}}, "refers to itself endlessly"),
        (
            said_by({"$ref": "#/$defs/a"}) | {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 50}}},
            "refers to itself endlessly",
        ),
    ],
    ids=["large", "names", "doubling", "circle", "wide circle"],
)
@pytest.mark.no_cover
def test_a_hostile_schema_is_refused_in_time(schema: dict, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        check_answer_schema(schema, parse_expected("a" * 60 + "!"))


def test_a_slow_pattern_is_refused_in_time():
    with search_limit(0.1), pytest.raises(ValueError, match="takes too long to match; simplify it"):
        check_answer_schema(said_by({"type": "string", "pattern": SLOW}), parse_expected("a" * 60 + "!"))


def test_a_pattern_is_matched_as_before():
    check_answer_schema(said_by({"type": "string", "pattern": "^(fair|foul)$"}), parse_expected("fair"))
    with pytest.raises(ValueError, match="does not allow that as `judgment`"):
        check_answer_schema(said_by({"type": "string", "pattern": "^(fair|foul)$"}), parse_expected("good"))
