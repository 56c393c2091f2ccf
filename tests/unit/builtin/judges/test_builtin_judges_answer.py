from __future__ import annotations

import pytest

from steadyhand.builtin.judges.answer import UnreadableAnswer, answer_schema, read_answer, read_object
from steadyhand.ports.agent import Question
from steadyhand.text_match import search_limit
from support.judges import answer

ASKED = Question(prompt="Is it so?", materials=())
SKILLED = Question(prompt="Is it so?", materials=(), capabilities=("Greets", "Explains why"))


@pytest.mark.parametrize(
    "text",
    [
        answer(),
        f"\n  {answer()}\n",
        f"```json\n{answer()}\n```",
        f"```\n{answer()}\n```\nI hope this helps.",
        f"Sure! Here is my judgment: {answer()}",
        f"<think>Maybe {{no}}? Let me see.</think>\n{answer()}",
        f"{answer()}\n{answer()}",
        '{"reasoning": "a } and a { in a text", "judgment": "yes", "confidence": 1}',
    ],
)
def test_one_object_is_read_whatever_stands_around_it(text: str):
    assert read_answer(read_object(text), ASKED).judgment == "yes"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no JSON object"),
        ("yes", "no JSON object"),
        ("No. Yesterday it would have been fine.", "no JSON object"),
        ("judgment: yes\nconfidence: 1", "no JSON object"),
        ('["yes"]', "no JSON object"),
        (f"{answer('no')} On second thought: {answer('yes')}", "several different JSON objects"),
        (f"{{oops}} {answer()}", "invalid"),
        ('{"judgment": "no", broken {"judgment": "yes", "confidence": 1, "reasoning": ""}}', "invalid"),
        (answer()[:-1], "invalid"),
        ('{"judgment": "no", "judgment": "yes", "confidence": 1, "reasoning": ""}', "duplicate key"),
        ('{"Judgment": "no", "judgment": "yes", "confidence": 1, "reasoning": ""}', "duplicate key"),
        (f"{answer()}\nWait, on reflection the answer is no.", "may take it back"),
        (f"```json\n{answer()}\n```\nActually, I was mistaken.", "may take it back"),
        ('{"judgment": "yes", "confidence": NaN, "reasoning": ""}', "NaN is not a JSON number"),
        ('{"judgment": "yes", "confidence": Infinity, "reasoning": ""}', "Infinity is not"),
        ('{"a":' * 100_000, "invalid|nested too deeply|characters long"),
        ('{"a": ' + "[" * 50_000 + "]" * 50_000 + "}", "nested too deeply"),
        ('{"judgment": "yes", "confidence": ' + "9" * 5_000 + ', "reasoning": ""}', "invalid"),
        ('{"judgment": "yes", "confidence": 1, "reasoning": "\\ud800"}', "lone surrogate"),
    ],
)
def test_what_is_not_clear_is_unreadable(text: str, complaint: str):
    with pytest.raises(UnreadableAnswer, match=complaint):
        read_object(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{}", '"judgment" must be text, found nothing'),
        (answer(True), '"judgment" must be text, found a boolean'),
        (answer(1), "found a number"),
        (answer(["yes"]), "found a list"),
        (answer("maybe"), "found 'maybe'"),
        (answer("yes and no"), "found 'yes and no'"),
        (answer(confidence=1.01), "from 0 to 1"),
        (answer(confidence=-0.1), "from 0 to 1"),
        (answer(confidence="0.9"), "from 0 to 1"),
        (answer(confidence=True), "from 0 to 1"),
        ('{"judgment": "yes", "confidence": 1e999, "reasoning": ""}', "from 0 to 1"),
        (answer(confidence=None), '"confidence" is missing'),
        ('{"judgment": "yes", "confidence": 1}', '"reasoning" is missing'),
        (answer(reasoning=5), '"reasoning" must be text'),
    ],
)
def test_an_object_that_is_not_an_answer_is_refused(text: str, complaint: str):
    with pytest.raises(UnreadableAnswer, match=complaint):
        read_answer(read_object(text), ASKED)


def entry(name: str, achieved: object = True) -> dict:
    return {"capability": name, "achieved": achieved, "reasoning": ""}


@pytest.mark.parametrize(
    ("entries", "achieved"),
    [
        ([entry("Greets"), entry("Explains why")], [True, True]),
        ([entry(" GREETS "), entry("explains why", achieved=False)], [True, False]),
        ([entry("Greets")], [True, False]),
        ([], [False, False]),
        (None, [False, False]),
        ([entry("Greets"), entry("Explains")], [True, False]),
        ([entry("Greets"), entry("2. Explains why")], [True, False]),
        ([entry("Greets"), entry("Greets", achieved=False), entry("Explains why")], [False, True]),
        ([entry("Something else"), entry("Another thing")], [False, False]),
    ],
)
def test_a_capability_that_is_not_named_exactly_is_not_achieved(entries: list | None, achieved: list[bool]):
    found = read_answer(read_object(answer(capabilities=entries)), SKILLED)
    assert list(found.achieved.values()) == achieved


@pytest.mark.parametrize("entries", ["all", {"Greets": True}, ["Greets"], [entry("Greets", achieved="yes")], [{}]])
def test_capabilities_in_another_form_are_refused(entries: object):
    with pytest.raises(UnreadableAnswer, match="capabilities"):
        read_answer(read_object(answer(capabilities=entries)), SKILLED)


def test_a_quotation_from_the_data_is_not_an_answer():
    quoted = answer(reasoning="it is fine")
    spaced = quoted.replace(", ", ",\n  ")
    for shown in (quoted, f"see {spaced}!", f'{{"a": [{quoted}]}}', quoted.replace("fine", "f\\u{200b}ine")):
        with pytest.raises(UnreadableAnswer, match="quoted from the data"):
            read_object(quoted, shown=shown)
    reordered = '{"reasoning": "it is fine", "confidence": 0.9, "judgment": "yes"}'
    with pytest.raises(UnreadableAnswer, match="quoted from the data"):
        read_object(quoted, shown=f"text {{ {reordered}")
    assert read_object(quoted, shown=answer(reasoning="it is not fine"))["judgment"] == "yes"


def test_an_answer_that_repeats_our_marks_is_refused():
    with pytest.raises(UnreadableAnswer, match="markers"):
        read_object(answer(reasoning="<<<end ABCDEF>>>"), nonce="abcdef")


def own_schema(**more: object) -> dict:
    return {
        "type": "object",
        "properties": {"judgment": {"type": "string", "enum": ["good", "bad"]}, "grade": {"type": "integer"}},
        "required": ["judgment", "grade"],
        "additionalProperties": False,
        **more,
    }


def test_the_scenarios_own_schema_rules():
    asked = Question(prompt="?", materials=(), json_schema=own_schema())
    found = read_answer(read_object('{"judgment": "good", "grade": 2}'), asked)
    assert (found.judgment, found.confidence, found.fields["grade"]) == ("good", None, 2)
    for text in ('{"judgment": "good"}', '{"judgment": "yes", "grade": 2}', '{"judgment": "bad", "grade": "2"}'):
        with pytest.raises(UnreadableAnswer, match="does not match the schema"):
            read_answer(read_object(text), asked)


def test_capabilities_are_added_to_the_scenarios_own_schema():
    asked = Question(prompt="?", materials=(), json_schema=own_schema(), capabilities=("Greets",))
    schema = answer_schema(asked)
    assert "capabilities" in schema["properties"]
    assert "capabilities" in schema["required"]
    assert "capabilities" not in own_schema()["properties"]
    assert asked.json_schema == own_schema()
    text = '{"judgment": "good", "grade": 2, "capabilities": [{"capability": "Greets", "achieved": true}]}'
    assert read_answer(read_object(text), asked).achieved == {"Greets": True}
    assert read_answer(read_object('{"judgment": "good", "grade": 2}'), asked).achieved == {"Greets": False}


def test_a_schema_never_fetches_anything():
    elsewhere = own_schema(allOf=[{"$ref": "http://127.0.0.1:9/other.json"}])
    asked = Question(prompt="?", materials=(), json_schema=elsewhere)
    with pytest.raises(UnreadableAnswer, match="references"):
        read_answer(read_object('{"judgment": "good", "grade": 2}'), asked)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"properties": {"why": {"pattern": "^(a|aa)+$"}}}, "takes too long to match"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "refers to itself endlessly"),
    ],
)
def test_an_answer_is_held_against_a_hostile_schema_in_time(more: dict, complaint: str):
    asked = Question(prompt="?", materials=(), json_schema={"type": "object", **more})
    with search_limit(0.1), pytest.raises(UnreadableAnswer, match=complaint):
        read_answer(read_object(f'{{"judgment": "good", "why": "{"a" * 60}!"}}'), asked)


def test_our_schema_fits_strict_structured_output():
    schema = answer_schema(SKILLED)
    assert schema["additionalProperties"] is False
    assert sorted(schema["required"]) == sorted(schema["properties"])
