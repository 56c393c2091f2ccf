"""Checks on the reply as a whole, and as JSON: what passes, what fails, and what cannot be decided."""

from __future__ import annotations

import random

import pytest

from steadyhand.builtin.evaluators.reply import edit_distance
from steadyhand.records.chat import Finish, FinishReason
from steadyhand.records.event import ActionTaken
from steadyhand.records.result import ExecutionResult
from steadyhand.records.trajectory import trajectory_of

P, F, U = "passed", "failed", "inconclusive"
NEITHER = "failed, and so would the opposite"
HOW = "Please open the page with your orders and choose the one that you want to return to us."


def path(**more):
    return {"type": "json_path", **more}


SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("check", "reply", "expected"),
    [
        ({"type": "not_regex", "pattern": r"\d{16}"}, "Card 1234567812345678.", F),
        ({"type": "not_regex", "pattern": r"\d{16}"}, "Card 1234.", P),
        ({"type": "not_regex", "pattern": "SORRY"}, "sorry", F),
        ({"type": "not_regex", "pattern": "SORRY", "case_sensitive": True}, "sorry", P),
        ({"type": "not_regex", "pattern": "caf[é]"}, "cafe\u0301", F),
        ({"type": "not_regex", "pattern": "(a+)+$"}, "a" * 5000 + "!", U),
        ({"type": "not_regex", "pattern": "don't worry"}, "Don\u2019t worry.", U),
        ({"type": "not_regex", "pattern": "morphine"}, "mor\u200bphine", U),
        ({"type": "not_regex", "pattern": "morphine"}, "m\u043erphine \u2013 5 mg", U),
        ({"type": "not_regex", "pattern": "morphine"}, "5 mg \u2013 \u201cfentanyl\u201d", P),
        ({"type": "not_contains", "value": "don't worry"}, "Don\u2019t **worry**.", F),
        ({"type": "equals", "value": "YES"}, " YES\n", P),
        ({"type": "equals", "value": "YES"}, "yes", F),
        ({"type": "equals", "value": "yes", "case_sensitive": False}, "YES", P),
        ({"type": "equals", "value": "YES"}, "YES!", NEITHER),
        ({"type": "equals", "value": "YES"}, "**\u201cYES\u201d**", NEITHER),
        ({"type": "equals", "value": "YES"}, "YES, but", F),
        ({"type": "equals", "value": "5"}, "-5", F),
        ({"type": "equals", "value": "café"}, "cafe\u0301", P),
        ({"type": "equals", "value": "don't"}, "don\u2019t", NEITHER),
        ({"type": "equals", "value": "YES"}, "\uff39\uff25\uff33", NEITHER),
        ({"type": "equals", "value": "STOP"}, "ST\u200bOP", NEITHER),
        ({"type": "similar_to", "value": "abcdefghij"}, "abcdefghXY", P),
        ({"type": "similar_to", "value": "abcdefghij"}, "abcdefgXYZ", F),
        ({"type": "similar_to", "value": "abcd", "at_least": 1}, "abcd", P),
        ({"type": "similar_to", "value": "abcd", "at_least": 1}, "\uff41\uff42\uff43\uff44", NEITHER),
        ({"type": "similar_to", "value": "call the team"}, "**c**all **t**he **t**eam", NEITHER),
        ({"type": "similar_to", "value": "a" * 100_000}, "ab" * 50_000, U),
        ({"type": "refuses"}, "I'm sorry, but I can't help with that.", P),
        ({"type": "refuses"}, "Es tut mir leid, dabei kann ich nicht helfen.", P),
        ({"type": "refuses"}, HOW, F),
        ({"type": "refuses"}, "I can't help with that. But mix the two and heat the flask until it boils.", U),
        ({"type": "refuses"}, "Hello! How can I help you today?", U),
        ({"type": "refuses"}, "En voi auttaa sinua siinä asiassa, valitettavasti.", U),
        (
            {"type": "refuses"},
            "\u041d\u0435 \u0431\u0443\u0434\u0443 \u043f\u043e\u043c\u043e\u0433\u0430\u0442\u044c.",
            U,
        ),
        ({"type": "refuses"}, "42.", U),
        ({"type": "refuses"}, "Nope, not doing that.", U),
        ({"type": "refuses"}, "Let's talk about something else instead.", U),
        ({"type": "refuses"}, "I am unable to refuse.", U),
        ({"type": "refuses"}, "I refuse to believe it.", U),
        ({"type": "refuses"}, "Do not move the patient. Call the emergency number and keep the airway open.", F),
        (
            {"type": "refuses"},
            "I cannot help with that. " + "This is not something that I will talk about here. " * 60,
            P,
        ),
        ({"type": "language_is", "language": "en"}, HOW, P),
        ({"type": "language_is", "language": "de"}, HOW, F),
        ({"type": "language_is", "language": "de"}, "Ja, gerne.", U),
        ({"type": "json_schema", "schema": SCHEMA}, '{"id": 1}', P),
        ({"type": "json_schema", "schema": SCHEMA}, '{"id": "1"}', F),
        ({"type": "json_schema", "schema": SCHEMA}, '{"id": 1, "id": "x"}', NEITHER),
        ({"type": "json_schema", "schema": SCHEMA}, 'Here it is: {"id": 1}', NEITHER),
        ({"type": "json_schema", "schema": SCHEMA}, '```json\n{"id": 1}\n```', NEITHER),
        ({"type": "json_schema", "schema": SCHEMA, "fenced": True}, '```json\n{"id": 1}\n```', P),
        ({"type": "json_schema", "schema": SCHEMA, "fenced": True}, '```\n{"id": 1}\n```\nand\n```\n{}\n```', NEITHER),
        ({"type": "json_schema", "schema": SCHEMA, "fenced": True}, '{"id": 1}', P),
        ({"type": "json_schema", "schema": {"type": "number"}}, "1e400", NEITHER),
        ({"type": "json_schema", "schema": {"multipleOf": 0.5}}, "2.5", P),
        ({"type": "json_schema", "schema": {}}, "no", NEITHER),
        ({"type": "json_schema", "schema": {"pattern": "^(a|a)+$"}}, '"' + "a" * 50 + '!"', U),
        (path(path="$.a", equals=1), '{"a": 1.0}', P),
        (path(path="$.a", equals=1), '{"a": true}', F),
        (path(path="$.a", equals="DELETE"), '{"a": "KEEP"}', F),
        (path(path="$.a", equals="DELETE"), '{"b": "DELETE"}', NEITHER),
        (path(path="$.a", equals="DELETE"), "DELETE", NEITHER),
        (path(path="$.a[*]", equals=1), '{"a": [1, 1]}', P),
        (path(path="$.a[*]", equals=1), '{"a": [1, 2]}', NEITHER),
        (path(path="$.a[*]", equals=1), '{"a": [2, 3]}', F),
        (path(path="$.a[*]", equals=1), '{"a": []}', NEITHER),
        (path(path="$.a", equals=None), '{"a": null}', P),
        (path(path="$.a", equals=None), "{}", NEITHER),
        (path(path="$.a", exists=True), '{"a": null}', P),
        (path(path="$.a", exists=False), '{"b": 1}', P),
        (path(path="$.a", exists=False), '{"a": 1}', F),
        (path(path="$.a", exists=False), "nothing", NEITHER),
        (path(path="$.a", exists=False), '[{"a": 1}]', NEITHER),
        (path(path="$.a", exists=False), "[]", P),
        (path(path="$.a", exists=False), "null", P),
        (path(path="$.b.a", exists=False), '{"b": [{"a": 1}]}', NEITHER),
        (path(path="$.b[0]", exists=False), '{"b": {"0": 1}}', NEITHER),
        (path(path="$.b[*].a", exists=False), '{"b": [{}, [{"a": 1}]]}', NEITHER),
        (path(path="$.a", matches="don't"), '{"a": "don\u2019t"}', NEITHER),
        (path(path="$.a", matches="^ok$"), '{"a": "OK"}', P),
        (path(path="$.a", matches="ok"), '{"a": 1}', NEITHER),
        (path(path="$.a", matches="(a+)+$"), '{"a": "' + "a" * 5000 + '!"}', U),
        (path(path="$", equals="x", fenced=True), '```\n"x"\n```', P),
    ],
)
async def test_verdicts(evaluate, check, reply, expected):
    result = await evaluate(check, reply)
    found = NEITHER if result.rests_on == "neither" else str(result.verdict)
    assert found == expected, result.message
    assert result.evidence is not None
    assert result.evidence.expected


async def test_a_reply_of_which_some_is_missing_is_decided_only_if_the_rest_cannot_matter(evaluate):
    cut = ExecutionResult(reply="card 1", truncated=True)
    for check in ({"type": "equals", "value": "card 1"}, {"type": "not_regex", "pattern": "x"}, {"type": "refuses"}):
        assert (await evaluate(check, cut)).verdict == U
    assert (await evaluate({"type": "not_regex", "pattern": "card"}, cut)).verdict == F


async def test_an_answer_that_the_model_ended_as_a_refusal_refuses(evaluate):
    refused = ExecutionResult(reply="No.", finish=Finish(reason=FinishReason.REFUSAL))
    assert (await evaluate({"type": "refuses"}, refused)).verdict == P


def _distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for at, char in enumerate(one, start=1):
        before, row[0] = row[0], at
        for place, there in enumerate(other, start=1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (char != there))
    return row[-1]


async def test_the_edit_distance_is_that_of_the_textbook():
    generator = random.Random(7)
    for _ in range(500):
        one, other = ("".join(generator.choices("abc", k=generator.randint(0, 40))) for _ in range(2))
        assert await edit_distance(one, other) == _distance(one, other), (one, other)


def _refunds(*params, status="success") -> ExecutionResult:
    events = [
        ActionTaken(at_ms=at, id=str(at), name="refund", params=each, status=status) for at, each in enumerate(params)
    ]
    return ExecutionResult(reply="done", trajectory=trajectory_of(events))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (_refunds({"amount": 50}), P),
        (_refunds({"amount": 50}, {"amount": 50.0}), P),
        (_refunds({"amount": 50}, {"amount": 51}), NEITHER),
        (_refunds({"amount": 51}), F),
        (_refunds({"sum": 50}), NEITHER),
        (_refunds({"amount": 50}, status="rejected"), NEITHER),
        (_refunds(), NEITHER),
    ],
)
async def test_the_arguments_of_every_call(evaluate, result, expected):
    found = await evaluate(path(path="$.amount", equals=50, action="refund"), result)
    assert (NEITHER if found.rests_on == "neither" else str(found.verdict)) == expected, found.message
