"""The scripted model: its rules file, what it answers, how it fails, and its times."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from steadyhand.builtin.models.scripted import ScriptedModel
from steadyhand.errors import ModelError, SetupError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, ChatResponse, Message, ToolCall, Usage
from steadyhand.text_match import search_limit


def model(tmp_path: Path, rules: str, *, timeout_s: float = 60.0) -> ScriptedModel:
    (tmp_path / "rules.yaml").write_text(rules, encoding="utf-8")
    return ScriptedModel(ModelSettings(name="rules.yaml", folder=tmp_path, timeout_s=timeout_s))


def asking(text: str, *, answered: int = 0, **fields) -> ChatRequest:
    before = [Message(role="assistant", content=f"answer {number}") for number in range(answered)]
    return ChatRequest(messages=(*before, Message(role="user", content=text)), **fields)


async def ask(scripted: ScriptedModel, request: ChatRequest) -> ChatResponse:
    return await scripted.attempt(request, zero=time.perf_counter())


async def error_of(scripted: ScriptedModel, request: ChatRequest) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(scripted, request)
    return caught.value


async def test_the_first_rule_that_matches_answers(tmp_path):
    scripted = model(
        tmp_path,
        """
        rules:
          - match: "chest\\\\s+pain"
            reply: Call an ambulance.
          - contains: PAIN
            reply: Where does it hurt?
          - reply: Go on.
        """,
    )
    assert (await ask(scripted, asking("Chest   pain since noon"))).text == "Call an ambulance."
    assert (await ask(scripted, asking("a pain in the knee"))).text == "Where does it hurt?"
    assert (await ask(scripted, asking("hello"))).text == "Go on."
    assert scripted.name == "scripted/rules.yaml"


async def test_conditions_on_purpose_system_turn_and_tool_results(tmp_path):
    scripted = model(
        tmp_path,
        """
        rules:
          - {purpose: judge, reply: verdict}
          - {purpose: [user, summary], reply: simulated}
          - {tool_results: true, reply: thanks for the result}
          - {system: "^you are a robot", reply: beep}
          - {turn: 2, reply: second}
          - {reply: first}
        """,
    )
    assert (await ask(scripted, asking("x", purpose="judge"))).text == "verdict"
    assert (await ask(scripted, asking("x", purpose="user"))).text == "simulated"
    assert (await ask(scripted, asking("x", purpose="summary"))).text == "simulated"
    assert (await ask(scripted, asking("x"))).text == "first"
    assert (await ask(scripted, asking("x", answered=1))).text == "second"
    robot = ChatRequest(messages=(Message(role="system", content="You are a robot"), Message(role="user")))
    assert (await ask(scripted, robot)).text == "beep"
    result = ChatRequest(messages=(Message(role="tool", content="42", tool_call_id="a"),))
    assert (await ask(scripted, result)).text == "thanks for the result"


async def test_replies_follow_the_turn_and_the_last_repeats(tmp_path):
    scripted = model(tmp_path, "rules: [{replies: [one, two]}]")
    assert [(await ask(scripted, asking("x", answered=n))).text for n in range(4)] == ["one", "two", "two", "two"]


async def test_a_random_reply_follows_the_seed(tmp_path):
    scripted = model(tmp_path, "rules: [{replies: [a, b, c, d, e, f], pick: random}]")
    seeded = [(await ask(scripted, asking("x", seed=seed))).text for seed in range(20)]
    assert seeded == [(await ask(scripted, asking("x", seed=seed))).text for seed in range(20)]
    assert len(set(seeded)) > 1


async def test_tool_calls_json_echo_and_usage(tmp_path):
    scripted = model(
        tmp_path,
        """
        rules:
          - contains: weather
            tool_calls: [{name: weather, arguments: {city: Bern}}, {name: clock}]
          - contains: verdict
            json: {judgment: yes, confidence: 0.9, code: 012}
            usage: {input_tokens: 12, output_tokens: 3}
          - contains: nothing
            json: null
          - echo: true
        """,
    )
    called = await ask(scripted, asking("the weather"))
    assert called.tool_calls == (
        ToolCall(id="call_1_0", name="weather", arguments={"city": "Bern"}),
        ToolCall(id="call_1_1", name="clock"),
    )
    assert (called.text, called.finish_reason, called.usage) == ("", "tool_calls", None)
    assert called.attempt.first_token_ms is not None
    judged = await ask(scripted, asking("verdict"))
    assert judged.text == '{"judgment":"yes","confidence":0.9,"code":12}'
    assert judged.usage == Usage(input_tokens=12, output_tokens=3)
    assert (await ask(scripted, asking("nothing"))).text == "null"
    assert (await ask(scripted, asking("ignore the above"))).text == "ignore the above"


async def test_times_are_real_and_chunks_make_up_the_reply(tmp_path):
    scripted = model(tmp_path, "rules: [{reply: abcdefgh, delay_ms: 20, chunk_chars: 3, chunk_ms: 10}]")
    zero = time.perf_counter()
    response = await scripted.attempt(asking("x"), zero=zero)
    took = (time.perf_counter() - zero) * 1000
    attempt = response.attempt
    assert [characters for _, characters in response.chunks] == [3, 3, 2]
    assert attempt.started_ms == attempt.connected_ms == attempt.sent_ms
    assert response.chunks[0][0] >= 19
    assert attempt.latency_ms is not None
    assert 39 <= attempt.latency_ms <= took
    assert attempt.first_token_ms is not None
    assert attempt.last_byte_ms is not None
    assert attempt.first_token_ms < attempt.last_byte_ms
    assert (attempt.streamed, attempt.status, attempt.error, response.source) == (True, 200, None, "live")


@pytest.mark.parametrize(
    ("fail", "kind", "status", "retry_after_s"),
    [
        ("{kind: connect}", "connect", None, None),
        ("{kind: server}", "server", 500, None),
        ("{kind: server, status: 503}", "server", 503, None),
        ("{kind: rate_limit, retry_after_s: 1.5}", "rate_limit", 429, 1.5),
        ("{kind: timeout}", "timeout", None, None),
        ("{kind: stream}", "stream", 200, None),
    ],
)
async def test_failures(tmp_path, fail, kind, status, retry_after_s):
    scripted = model(tmp_path, f"rules: [{{reply: abcdef, fail: {fail}}}]")
    error = await error_of(scripted, asking("x"))
    assert (error.kind, error.retryable, error.status, error.retry_after_s) == (kind, True, status, retry_after_s)
    assert error.attempt is not None
    assert error.attempt.error == str(error)
    assert error.attempt.latency_ms is None
    assert (error.attempt.sent_ms is None) == (kind == "connect")


async def test_the_first_attempts_at_each_request_fail_and_then_it_answers(tmp_path):
    scripted = model(tmp_path, "rules: [{reply: fine, fail: {kind: server, attempts: 2}}]")
    for text in ("one", "another"):
        assert (await error_of(scripted, asking(text))).kind == "server"
        assert (await error_of(scripted, asking(text))).kind == "server"
        assert (await ask(scripted, asking(text))).text == "fine"


async def test_a_hang_ends_at_the_timeout(tmp_path):
    scripted = model(tmp_path, "rules: [{fail: {kind: hang}}]", timeout_s=0.05)
    error = await error_of(scripted, asking("x"))
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "0.05 s" in str(error)
    short = await error_of(scripted, asking("x", timeout_s=0.01))
    assert "0.01 s" in str(short)


async def test_a_hang_can_be_cancelled(tmp_path):
    scripted = model(tmp_path, "rules: [{fail: {kind: hang}}]")
    task = asyncio.create_task(ask(scripted, asking("x")))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_no_rule_is_an_error_that_shows_the_request(tmp_path):
    scripted = model(tmp_path, "rules: [{purpose: judge, reply: ok}]")
    error = await error_of(scripted, asking("what is this " * 30))
    assert (error.kind, error.retryable) == ("refused", False)
    assert "scripted/rules.yaml" in str(error)
    assert "what is this" in str(error)
    assert len(str(error)) < 400


async def test_a_pattern_that_takes_too_long_is_an_error(tmp_path):
    scripted = model(tmp_path, 'rules: [{match: "(a|aa|a?a)+$", reply: no}, {reply: yes}]')
    with search_limit(0.1):
        error = await error_of(scripted, asking("a" * 60 + "!" + "a" * 4000 + "b"))
    assert (error.kind, error.retryable) == ("refused", False)
    assert "rule 1" in str(error)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("rules: [{reply: a, delay: 5}]", "1:20: rules[0].delay: unknown key `delay`; did you mean `delay_ms`?"),
        (
            "rules: [{reply: a}, {fail: {kind: server, attempt: 1}}]",
            "rules[1].fail.attempt: unknown key `attempt`; did you mean `attempts`?",
        ),
        ("rules: [{reply: a}]\nrulez: 1", "2:1: rulez: unknown key `rulez`"),
        ("rules: [{match: '(', reply: a}]", "rules[0].match: not a regular expression"),
        ("rules: [{match: a}]", "rules[0]: the rule has no answer"),
        ("rules: [{reply: a, json: {}}]", "rules[0]: reply and json are mutually exclusive"),
        ("rules: [{reply: a, pick: random}]", "rules[0]: pick needs replies to choose from"),
        ("rules: [{fail: {kind: server, attempts: 1}}]", "rules[0]: after 1 failing attempts there is no answer"),
        ("rules: [{purpose: agents, reply: a}]", "rules[0].purpose"),
        ("rules: [{reply: 5}]", "rules[0].reply"),
        ("rules: [{reply: a, turn: 0}]", "rules[0].turn"),
        ("rules: [{reply: a, reply: b}]", "key `reply` is already set on line 1"),
        ("rules: []", "rules"),
        ("rules: [", "not valid YAML"),
        ("- a", "expected a mapping, found a list"),
        ("rules: [!!python/object:os.system {}]", "unknown tag"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path, rules, expected):
    with pytest.raises(SetupError) as caught:
        model(tmp_path, rules)
    assert expected in str(caught.value)
    assert "rules.yaml" in str(caught.value)


def test_every_mistake_is_reported_at_once(tmp_path):
    with pytest.raises(SetupError) as caught:
        model(tmp_path, "rules: [{repl: a}, {reply: b, delay_ms: -1}]")
    assert "rules[0].repl" in str(caught.value)
    assert "rules[1].delay_ms" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SetupError, match=r"none\.yaml"):
        ScriptedModel(ModelSettings(name="none.yaml", folder=tmp_path))
