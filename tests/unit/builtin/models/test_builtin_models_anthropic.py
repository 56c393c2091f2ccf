"""`anthropic/NAME` against a real server: what is sent, what is read, when it arrived, and how it fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steadyhand.builtin.models.anthropic import AnthropicModel
from steadyhand.errors import ModelError, SetupError
from steadyhand.http.endpoint import retry_after_s
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, ChatResponse, Message, ToolCall, ToolSpec, Usage
from steadyhand.testing import Answer, ModelServer

ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))
KEY = "sk-ant-secret"
UMLAUTS = 'Zürich, 心臓 🫀 stoppt: "quoted" \\ and\nnew lines. ' * 3


def build(variables: dict[str, str], timeout_s: float = 30.0, **options) -> AnthropicModel:
    return AnthropicModel(
        ModelSettings(name="claude", folder=Path(), variables=variables, timeout_s=timeout_s, options=options)
    )


@contextlib.asynccontextmanager
async def serving(behaviour, **options) -> AsyncIterator[tuple[ModelServer, AnthropicModel]]:
    async with ModelServer(behaviour) as server:
        model = build({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.port}"}, **options)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model: AnthropicModel, request: ChatRequest = ASKED) -> ChatResponse:
    return await model.attempt(request, zero=time.perf_counter())


async def failure(behaviour, request: ChatRequest = ASKED, **options) -> ModelError:
    async with serving(behaviour, **options) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model, request)
    error = caught.value
    assert KEY not in str(error)
    assert error.attempt is not None
    assert error.attempt.error == str(error)
    assert error.attempt.latency_ms is None
    return error


DOCUMENTED = b"""event: message_start
data: {"type": "message_start", "message": {"id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY", "type": "message", \
"role": "assistant", "content": [], "model": "claude", "stop_reason": null, "stop_sequence": null, \
"usage": {"input_tokens": 25, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me see."}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQBCgIYAhIM"}}

event: content_block_stop
data: {"type": "content_block_stop", "index": 0}

event: content_block_start
data: {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hello"}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "!"}}

event: content_block_stop
data: {"type": "content_block_stop", "index": 1}

event: something_new
data: {"type": "something_new", "index": 7}

event: content_block_start
data: {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "toolu_01", \
"name": "get_weather", "input": {}}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", \
"partial_json": "{\\"location\\": \\"San"}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", \
"partial_json": " Francisco, CA\\"}"}}

event: content_block_stop
data: {"type": "content_block_stop", "index": 2}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, \
"usage": {"output_tokens": 15}}

event: message_stop
data: {"type": "message_stop"}

"""


async def test_a_stream_as_it_is_documented():
    async with serving(Answer(body=DOCUMENTED, content_type="text/event-stream; charset=utf-8")) as (_, model):
        response = await ask(model)
    assert model.name == "anthropic/claude"
    assert response.text == "Hello!"
    assert response.tool_calls == (
        ToolCall(id="toolu_01", name="get_weather", arguments={"location": "San Francisco, CA"}),
    )
    assert (response.finish_reason, response.usage) == ("tool_calls", Usage(input_tokens=40, output_tokens=15))
    assert (response.attempt.streamed, response.attempt.status, response.source) == (True, 200, "live")


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"write_size": 1},
        {"write_size": 3, "newline": "\r\n"},
        {"comments": True, "space": False},
        {"framing": "close"},
        {"streaming": "ignored"},
    ],
    ids=str,
)
async def test_the_answer_does_not_depend_on_its_shape(shape):
    calls = (ToolCall(id="a", name="stop", arguments={"why": "心臓"}), ToolCall(id="b", name="wait"))
    answer = Answer(text=UMLAUTS, piece_chars=7, tool_calls=calls, reasoning="hm", finish_reason="tool_calls", **shape)
    async with serving(answer) as (_, model):
        response = await ask(model)
    assert (response.text, response.tool_calls, response.finish_reason) == (UMLAUTS, calls, "tool_calls")
    assert response.usage == Usage(input_tokens=7, output_tokens=5)
    assert sum(characters for _, characters in response.chunks) == len(UMLAUTS)
    assert response.attempt.streamed == (shape.get("streaming") != "ignored")
    assert (response.attempt.first_token_ms is not None) == response.attempt.streamed


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("stop", "stop"), ("length", "length"), ("refusal", "refusal"), ("pause_turn", "pause_turn")],
)
async def test_reasons_to_stop(reason, expected):
    async with serving(Answer(text="x", finish_reason=reason)) as (_, model):
        assert (await ask(model)).finish_reason == expected


async def test_what_is_asked_reaches_the_server():
    call = ToolCall(id="c1", name="look", arguments={"at": "pump"})
    broken = ToolCall(id="c2", name="look", raw="{not json")
    request = ChatRequest(
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="hi"),
            Message(role="user", content="there"),
            Message(role="assistant", content=" ", tool_calls=(call, broken)),
            Message(role="tool", content="on", tool_call_id="c1"),
            Message(role="tool", content="", tool_call_id="c2"),
            Message(role="user", content="and now?"),
            Message(role="system", content="Be kind."),
        ),
        tools=(ToolSpec(name="look", description="looks", parameters={"type": "object"}), ToolSpec(name="wait")),
        temperature=0.0,
        max_tokens=50,
        seed=3,
        json_schema={"type": "object"},
    )
    async with serving(Answer(text="x"), body={"top_k": 5}, headers={"anthropic-beta": "b"}) as (server, model):
        await ask(model, request)
        seen = server.log[0]
    assert seen.path == "/v1/messages"
    assert seen.body == {
        "model": "claude",
        "max_tokens": 50,
        "system": "Be brief.\n\nBe kind.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "there"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "pump"}},
                    {"type": "tool_use", "id": "c2", "name": "look", "input": {"not_json": "{not json"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "on"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": ""},
                    {"type": "text", "text": "and now?"},
                ],
            },
        ],
        "stream": True,
        "temperature": 0.0,
        "tools": [
            {"name": "look", "description": "looks", "input_schema": {"type": "object"}},
            {"name": "wait", "description": "", "input_schema": {"type": "object", "properties": {}}},
        ],
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "top_k": 5,
    }
    assert (seen.headers["x-api-key"], seen.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert seen.headers["anthropic-beta"] == "b"


async def test_what_is_not_asked_is_left_out():
    async with serving(Answer(text="x"), send_temperature=False, max_tokens=99) as (server, model):
        await ask(model, ChatRequest(messages=ASKED.messages, temperature=0.5, json_mode=True))
        body = server.log[0].body
    assert set(body) == {"model", "messages", "max_tokens", "stream"}
    assert body["max_tokens"] == 99


@pytest.mark.parametrize("streaming", ["offered", "ignored"])
async def test_a_refused_output_format_becomes_a_tool_that_must_be_called(streaming):
    given = {"judgment": "yes", "confidence": 1}

    def answer(request):
        if "output_config" in request.body:
            return Answer(status=400, error="output_config.format.schema: 'additionalProperties' must be false")
        call = ToolCall(id="t", name="answer", arguments=given)
        return Answer(tool_calls=(call,), finish_reason="tool_calls", streaming=streaming)

    request = ChatRequest(messages=ASKED.messages, json_schema={"type": "object"})
    async with serving(answer) as (server, model):
        response = await ask(model, request)
        await ask(model, request)
        body = server.log[-1].body
        assert server.received == 3
    assert body["tools"] == [{"name": "answer", "description": "Gives the answer.", "input_schema": {"type": "object"}}]
    assert body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert response.text == '{"judgment":"yes","confidence":1}'
    assert (response.tool_calls, response.finish_reason) == ((), "stop")
    assert sum(characters for _, characters in response.chunks) == len(response.text)


async def test_with_other_tools_no_answer_is_forced():
    def answer(request):
        if "output_config" in request.body:
            return Answer(status=400, error="output_config: Extra inputs are not permitted")
        return Answer(text="{}")

    request = ChatRequest(messages=ASKED.messages, json_schema={}, tools=(ToolSpec(name="look"),))
    async with serving(answer) as (server, model):
        assert (await ask(model, request)).text == "{}"
        assert "tool_choice" not in server.log[-1].body


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "refused", False),
        (401, "auth", False),
        (402, "refused", False),
        (403, "auth", False),
        (404, "refused", False),
        (413, "refused", False),
        (429, "rate_limit", True),
        (500, "server", True),
        (504, "server", True),
        (529, "server", True),
    ],
)
async def test_each_status_has_its_kind(status, kind, retryable):
    error = await failure(Answer(status=status, error=f"because of {KEY}"))
    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)
    assert "because of ***" in str(error)


async def test_the_wait_that_the_server_asks_for():
    error = await failure(Answer(status=429, headers={"retry-after": "12"}))
    assert error.retry_after_s == 12.0


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "07:28:30Z"}, 30.0),
        ({"anthropic-ratelimit-requests-remaining": "3", "anthropic-ratelimit-requests-reset": "07:28:30Z"}, None),
        ({"anthropic-ratelimit-input-tokens-remaining": "0"}, None),
        ({"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "soon"}, None),
    ],
)
def test_when_a_used_up_limit_is_reset(headers, expected):
    dated = {name: f"2026-10-21T{value}" if "Z" in value else value for name, value in headers.items()}
    assert retry_after_s({**dated, "date": "Wed, 21 Oct 2026 07:28:00 GMT"}) == expected


@pytest.mark.parametrize(
    ("kind", "expected", "retryable"),
    [
        ("overloaded_error", "server", True),
        ("api_error", "server", True),
        ("rate_limit_error", "rate_limit", True),
        ("invalid_request_error", "refused", False),
        ("authentication_error", "auth", False),
    ],
)
async def test_an_error_inside_the_stream(kind, expected, retryable):
    error = await failure(Answer(text="Stop the", stream_error="Overloaded", error_type=kind))
    assert (error.kind, error.retryable, error.status) == (expected, retryable, 200)
    assert f"{kind}: Overloaded" in str(error)


async def test_half_an_answer_is_none():
    for answer in (Answer(text="Stop the pump now", cut_after=1), Answer(text="Stop", done=False)):
        error = await failure(answer)
        assert (error.kind, error.retryable) == ("stream", True)
    marked = b'data: {"type": "message_start"}\n\ndata: [DONE]\n\n'
    error = await failure(Answer(body=marked, content_type="text/event-stream"))
    assert error.kind == "stream", "a gateway's [DONE] is not the end of a message"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html>busy</html>", "text/html"),
        (b"{}", "application/json"),
        (b'{"choices": [{"message": {"content": "hi"}}]}', "application/json"),
        (b'{"type": "message", "content": [{"type": "text", "text": 5}]}', "application/json"),
        (b"data: {}\n\n", "text/event-stream"),
        (b"data: nonsense\n\n", "text/event-stream"),
        (b'data: {"type": "message_stop"}\n\n', "text/event-stream"),
    ],
)
async def test_what_is_not_a_message(body, content_type):
    error = await failure(Answer(body=body, content_type=content_type))
    assert error.kind == "malformed"
    assert "the answer is not a message" in str(error)


async def test_an_error_in_a_body_with_status_200():
    body = b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}'
    assert (await failure(Answer(body=body, content_type="application/json"))).kind == "server"


async def test_a_refused_temperature_says_what_to_set():
    error = await failure(Answer(status=400, error="`temperature` is deprecated for this model"))
    assert "send_temperature = false" in str(error)


async def test_an_answer_can_be_taken_as_far_as_it_had_come():
    async with serving(Answer(pieces=("STOP", " now"), piece_s=60.0)) as (_, model):
        response = await ask(model, ChatRequest(messages=ASKED.messages, cut_after_ms=200.0))
    assert (response.text, response.finish_reason, response.cut) == ("STOP", "deadline", True)
    assert response.attempt.latency_ms == pytest.approx(200.0)


async def test_a_server_that_does_not_answer():
    error = await failure(Answer(fault="hang"), ChatRequest(messages=ASKED.messages, timeout_s=0.05))
    assert error.kind == "timeout"
    assert (await failure(Answer(fault="reset"))).kind == "connect"


async def test_reported_times_lie_around_the_servers_own():
    answer = Answer(text="abcdef", piece_chars=2, delay_s=0.01, first_token_s=0.01, piece_s=0.01)
    async with serving(answer) as (server, model):
        for reused in (False, True, True):
            zero = time.perf_counter()
            response = await model.attempt(ASKED, zero=zero)
            attempt, own = response.attempt, server.log[-1].times

            def ms(moment: float, zero: float = zero) -> float:
                return (moment - zero) * 1000

            rounding = 0.001
            assert attempt.reused_connection == reused
            assert 0 <= attempt.started_ms <= attempt.connected_ms <= attempt.sent_ms
            assert attempt.sent_ms <= ms(own.received) + rounding
            assert ms(own.first_write) <= attempt.first_byte_ms + rounding
            assert attempt.first_byte_ms < attempt.first_token_ms < attempt.last_byte_ms
            assert ms(own.last_write) <= attempt.last_byte_ms + rounding
            assert [characters for _, characters in response.chunks] == [2, 2, 2]


def test_settings():
    with pytest.raises(SetupError, match="set ANTHROPIC_API_KEY"):
        build({})
    with pytest.raises(SetupError, match="did you mean `max_tokens`"):
        build({"ANTHROPIC_API_KEY": "k"}, max_token=5)
    with pytest.raises(SetupError, match="a number of at least 1"):
        build({"ANTHROPIC_API_KEY": "k"}, max_tokens=0)
    with pytest.raises(SetupError, match="unknown key `send_seed`"):
        build({"ANTHROPIC_API_KEY": "k"}, send_seed=True)
    with pytest.raises(SetupError) as caught:
        build({"ANTHROPIC_API_KEY": "sk-1\n2"})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/messages"])
async def test_the_base_url_may_be_short_or_long(path):
    async with ModelServer(Answer(text="x")) as server:
        model = build({"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.port}{path}"})
        await ask(model)
        await model.close()
        assert server.log[0].path == "/v1/messages"
        assert "x-api-key" not in server.log[0].headers
