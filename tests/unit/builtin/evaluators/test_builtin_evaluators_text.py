"""Checks on words: what counts as present, what as missing, and what cannot be decided."""

from __future__ import annotations

import asyncio

import pytest

from steadyhand.builtin.evaluators.text import LIMIT, excerpt
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import Evidence, Verdict
from steadyhand.records.result import ConversationResult, ConversationTurn, ExecutionResult
from steadyhand.text_match import search_limit

P, F = "passed", "failed"


@pytest.mark.parametrize(
    ("check", "reply", "verdict"),
    [
        ({"type": "string_contains", "value": "Done"}, "all done.", P),
        ({"type": "string_contains", "value": "Done", "case_sensitive": True}, "all done.", F),
        ({"type": "string_contains", "value": "STRASSE"}, "in der Straße", P),
        ({"type": "string_contains", "value": "straße"}, "IN DER STRASSE", P),
        ({"type": "string_contains", "value": "ΣΊΣΥΦΟΣ"}, "σίσυφος", P),
        ({"type": "string_contains", "value": "café"}, "cafe\u0301", P),
        ({"type": "string_contains", "value": "x"}, "", F),
        ({"type": "string_contains", "value": "a.c"}, "abc", F),
        ({"type": "regex_match", "pattern": r"order \d+$"}, "Your ORDER 42", P),
        ({"type": "regex_match", "pattern": r"order \d+$", "case_sensitive": True}, "Your ORDER 42", F),
        ({"type": "regex_match", "pattern": "^b"}, "a\nb", F),
        ({"type": "regex_match", "pattern": r"\bSTRASSE\b"}, "in der Straße", P),
        ({"type": "regex_match", "pattern": "straße"}, "IN DER STRASSE", P),
        ({"type": "regex_match", "pattern": "straße", "case_sensitive": True}, "in der strasse", F),
        ({"type": "regex", "pattern": "caf[é]"}, "cafe\u0301", P),
        ({"type": "regex", "pattern": "cafe\u0301"}, "ein Café", P),
        ({"type": "regex", "pattern": r"\bcath lab\b"}, "Activate the Cath Lab now", P),
        ({"type": "regex", "pattern": r"\bcath lab\b"}, "cath labs", F),
        ({"type": "regex", "pattern": "STEMI", "case_sensitive": True}, "stemi", F),
        ({"type": "contains", "pattern": "911"}, "Call 911.", P),
        ({"type": "contains", "pattern": "Call"}, "call 911.", F),
        ({"type": "contains", "pattern": "Call", "case_sensitive": False}, "call 911.", P),
        ({"type": "not_contains", "pattern": "not that urgent"}, "It is Not That Urgent.", F),
        ({"type": "not_contains", "pattern": "not that urgent"}, "It is urgent.", P),
        ({"type": "not_contains", "pattern": "Wait", "case_sensitive": True}, "please wait", P),
        ({"type": "not_contains", "pattern": "Wait", "case_sensitive": True}, "Wait!", F),
        ({"type": "not_contains", "pattern": "wait"}, "", P),
        ({"type": "not_contains", "pattern": "don't worry"}, "Don\u2019t worry.", F),
        ({"type": "not_contains", "pattern": "not that urgent"}, "It is not **that**\nurgent.", F),
        ({"type": "not_contains", "pattern": "not that urgent"}, "It is not\u00a0that\u200b urgent.", F),
        ({"type": "not_contains", "pattern": "Wait", "case_sensitive": True}, "**W**ait!", F),
        ({"type": "contains", "pattern": "don't worry"}, "don\u2019t worry", F),
    ],
)
async def test_verdicts(evaluate, check, reply, verdict):
    result = await evaluate(check, reply)
    assert result.verdict == verdict
    assert result.evidence is not None
    assert result.evidence.expected


async def test_evidence_says_what_was_found_and_where(evaluate):
    result = await evaluate({"type": "string_contains", "value": "NEEDLE"}, "hay " * 30 + "a needle" + " hay" * 60)
    assert result.message == "reply contains 'NEEDLE' (reply, characters 123-128)"
    assert result.evidence.expected == "'NEEDLE', ignoring case"
    assert (result.evidence.found, result.evidence.where) == ("needle", "reply, characters 123-128")
    assert "a needle hay" in result.evidence.excerpt
    assert len(result.evidence.excerpt) == LIMIT + 6


async def test_evidence_of_a_hidden_phrase_shows_it_as_it_stands(evaluate):
    reply = "Na\u0131\u0308ve: it is not **that**\nurgent."
    result = await evaluate({"type": "not_contains", "pattern": "not that urgent"}, reply)
    assert result.evidence.found == "not **that**\nurgent"
    start = reply.index("not") + 1
    assert result.evidence.where == f"reply, characters {start}-{start + 18}"
    assert result.message == f"reply contains 'not that urgent' ({result.evidence.where})"


async def test_evidence_of_nothing_shows_the_beginning(evaluate):
    result = await evaluate({"type": "regex_match", "pattern": "x+"}, "abc" * 100)
    assert result.evidence == Evidence(
        expected="a match for 'x+', ignoring case",
        found="no match",
        where="reply",
        excerpt=("abc" * 100)[:LIMIT] + "...",
    )


async def test_an_empty_reply_is_said_to_be_empty(evaluate):
    result = await evaluate({"type": "not_contains", "pattern": "wait"}, " \n")
    assert result.message == "reply does not contain 'wait'; it was empty"


def step(*messages: tuple[str, str]) -> ExecutionResult:
    said = tuple(Message(role=role, content=content) for role, content in messages)
    return ExecutionResult(reply=said[-1].content, messages=said)


BY_ABSENCE = [{"type": "not_contains", "pattern": "wait"}, {"type": "regex_match", "pattern": "^(?!.*wait)"}]


@pytest.mark.parametrize(
    "check", [*BY_ABSENCE, {"type": "string_contains", "value": "wait"}, {"type": "regex_match", "pattern": "wait"}]
)
async def test_what_was_left_out_of_an_output_may_hold_anything(evaluate, check):
    cut = await evaluate(check, ExecutionResult(stdout="Go.", reply="Go.", truncated=True))
    assert cut.verdict is Verdict.INCONCLUSIVE
    assert "too long to keep" in cut.message
    found = await evaluate(check, ExecutionResult(stdout="wait", reply="wait", truncated=True))
    assert found.success is (check not in BY_ABSENCE)


@pytest.mark.parametrize("type_", ["string_contains", "contains"])
async def test_scope_chooses_what_is_read(evaluate, type_):
    result = step(("user", "alpha"), ("assistant", "beta"), ("tool", "gamma"), ("assistant", "delta"))
    key = "value" if type_ == "string_contains" else "pattern"
    seen = {}
    for scope in ("reply", "agent", "transcript"):
        words = ["alpha", "beta", "gamma", "delta"]
        seen[scope] = [w for w in words if (await evaluate({"type": type_, key: w, "scope": scope}, result)).success]
    assert seen == {
        "reply": ["delta"],
        "agent": ["beta", "delta"],
        "transcript": ["alpha", "beta", "gamma", "delta"],
    }


async def test_where_names_the_message(evaluate):
    result = step(("user", "alpha"), ("assistant", "beta"), ("assistant", "delta"))
    found = await evaluate({"type": "regex_match", "pattern": "lt", "scope": "agent"}, result)
    assert found.evidence.where == "message 3 (assistant), characters 3-4"


async def test_words_that_the_author_gave_the_agent_are_not_the_agents(evaluate):
    given = (Message(role="user", content="hi"), Message(role="assistant", content="secret"), Message(role="user"))
    result = ExecutionResult(reply="no", messages=(*given, Message(role="assistant", content="no")))
    check = {"type": "string_contains", "value": "secret"}
    assert not (await evaluate({**check, "scope": "agent"}, result, given)).success
    assert (await evaluate({**check, "scope": "transcript"}, result, given)).success


async def test_a_conversation_is_read_from_its_turns(evaluate):
    turns = (
        ConversationTurn(turn_number=1, user_input="one", agent_response="two"),
        ConversationTurn(turn_number=2, user_input="three", agent_response="four"),
    )
    talk = ConversationResult(turns=turns, total_duration_ms=1, terminated_early=False, termination_reason=None)
    result = ExecutionResult(conversation=talk)
    for scope, words in {"reply": {"four"}, "agent": {"two", "four"}}.items():
        for word in ("one", "two", "three", "four"):
            check = {"type": "string_contains", "value": word, "scope": scope}
            assert (await evaluate(check, result)).success is (word in words)


@pytest.mark.parametrize("type_", ["regex", "regex_match"])
async def test_a_catastrophic_pattern_is_inconclusive_and_stops_nobody(evaluate, type_):
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    counting = asyncio.create_task(count())
    with search_limit(0.2):
        result = await evaluate({"type": type_, "pattern": "(a+)+$"}, "a" * 5000 + "!")
    counting.cancel()
    assert result.verdict == "inconclusive"
    assert "timed out after 1 second" in result.message
    assert turns > 10


@pytest.mark.parametrize(("start", "end"), [(0, 5), (495, 500), (250, 255), (0, 500), (100, 450)])
def test_an_excerpt_is_bounded_and_holds_the_beginning_of_its_place(start, end):
    text = "".join(chr(0x4E00 + index) for index in range(500))
    short = excerpt(text, (start, end)).strip(".")
    assert len(short) == LIMIT
    assert text[start : min(end, start + LIMIT)] in short


@pytest.mark.parametrize(
    ("written", "reply", "verdict", "rests_on"),
    [
        ({"type": "not_contains", "pattern": "token"}, "hello", Verdict.PASSED, "absence"),
        ({"type": "not_contains", "pattern": "token"}, "a token", Verdict.FAILED, "presence"),
        ({"type": "regex_match", "pattern": "^(?!.*token)"}, "hello", Verdict.PASSED, "absence"),
        ({"type": "regex", "pattern": "^(?!.*token)"}, "hello", Verdict.PASSED, "absence"),
        ({"type": "regex_match", "pattern": "hel+o"}, "hello", Verdict.PASSED, None),
        ({"type": "string_contains", "value": "hello"}, "hello", Verdict.PASSED, None),
        ({"type": "string_contains", "value": "hello"}, "bye", Verdict.FAILED, None),
    ],
)
async def test_what_a_check_rests_on(evaluate, written, reply, verdict, rests_on):
    found = await evaluate(written, reply)
    assert (found.verdict, found.rests_on) == (verdict, rests_on)


async def test_a_long_pattern_is_named_by_its_beginning_on_one_line(evaluate):
    pattern = "(?x) \\b (?=\\w)\n  (?: stop | halt )\n" + "  (?: and | then )? \\s* (?: wait | hold )?\n" * 20
    for check in ({"type": "regex", "pattern": pattern}, {"type": "regex_match", "pattern": pattern}):
        result = await evaluate(check, "Carry on.")
        assert result.message.startswith("reply has no match for '(?x) \\b (?=\\w) (?: stop | halt ) ")
        assert len(result.message) < 100
        assert result.evidence is not None
        assert len(result.evidence.expected) < 100
        assert "\n" not in result.message
