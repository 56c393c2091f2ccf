"""`openai/NAME` over the Responses API, against a real server."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.errors import ModelError, SetupError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, ChatResponse, Message, ToolCall, ToolSpec, Usage
from steadyhand.testing import Answer, ModelServer

ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))
KEY = "sk-secret"
UMLAUTS = 'Zürich, 心臓 🫀 stoppt: "quoted" \\ and\nnew lines. ' * 3


def build(base_url: str, **options) -> OpenAIModel:
    return OpenAIModel(
        ModelSettings(
            name="gpt",
            folder=Path(),
            variables={"OPENAI_API_KEY": KEY},
            options={"base_url": base_url, "api": "responses", **options},
        )
    )


@contextlib.asynccontextmanager
async def serving(behaviour, **options) -> AsyncIterator[tuple[ModelServer, OpenAIModel]]:
    async with ModelServer(behaviour) as server:
        model = build(server.base_url, **options)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model: OpenAIModel, request: ChatRequest = ASKED) -> ChatResponse:
    return await model.attempt(request, zero=time.perf_counter())


async def failure(behaviour) -> ModelError:
    async with serving(behaviour) as (_, model):
        with pytest.raises(ModelError) as caught:
            await ask(model)
    error = caught.value
    assert KEY not in str(error)
    assert error.attempt is not None
    assert error.attempt.latency_ms is None
    return error


def events(*lines: str) -> Answer:
    return Answer(body="".join(f"data: {line}\n\n" for line in lines).encode(), content_type="text/event-stream")


async def test_a_stream_with_its_documented_events():
    async with serving(
        events(
            '{"type":"response.created","response":{"id":"resp_1","object":"response","status":"queued"}}',
            '{"type":"response.in_progress","response":{"id":"resp_1","object":"response","status":"in_progress"}}',
            '{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}',
            '{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Thinking"}',
            '{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message",'
            '"status":"in_progress","role":"assistant","content":[]}}',
            '{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,'
            '"part":{"type":"output_text","text":"","annotations":[]}}',
            '{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Hi"}',
            '{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":" you"}',
            '{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"Hi you"}',
            '{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call",'
            '"status":"in_progress","arguments":"","call_id":"call_1","name":"get_weather"}}',
            '{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"{\\"city\\":"}',
            '{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":2,"delta":"\\"Bern\\"}"}',
            '{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":2,'
            '"arguments":"{\\"city\\":\\"Bern\\"}"}',
            '{"type":"response.output_item.done","output_index":2,"item":{"id":"fc_1","type":"function_call",'
            '"status":"completed","arguments":"{\\"city\\":\\"Bern\\"}","call_id":"call_1","name":"get_weather"}}',
            '{"type":"response.completed","response":{"id":"resp_1","object":"response","status":"completed","error":null,'
            '"output":[{"type":"message","content":[{"type":"output_text","text":"Hi you"}]}],'
            '"usage":{"input_tokens":37,"output_tokens":11,"total_tokens":48}}}',
        )
    ) as (_, model):
        response = await ask(model)
    assert response.text == "Hi you"
    assert response.tool_calls == (ToolCall(id="call_1", name="get_weather", arguments={"city": "Bern"}),)
    assert (response.finish_reason, response.usage) == ("tool_calls", Usage(input_tokens=37, output_tokens=11))
    assert response.attempt.streamed


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"write_size": 1},
        {"write_size": 3, "newline": "\r\n"},
        {"comments": True, "space": False},
        {"framing": "close"},
        {"streaming": "ignored"},
        {"streaming": "refused"},
    ],
    ids=str,
)
async def test_the_answer_does_not_depend_on_its_shape(shape):
    calls = (
        ToolCall(id="a", name="stop", arguments={"why": "心臓"}),
        ToolCall(id="b", name="list", raw="[1, 2]"),
        ToolCall(id="c", name="none", raw=""),
    )
    answer = Answer(text=UMLAUTS, piece_chars=7, tool_calls=calls, reasoning="hm", **shape)
    async with serving(answer) as (_, model):
        response = await ask(model)
    assert response.text == UMLAUTS
    assert response.tool_calls == (calls[0], calls[1], ToolCall(id="c", name="none"))
    assert (response.finish_reason, response.usage) == ("tool_calls", Usage(input_tokens=7, output_tokens=5))
    assert sum(characters for _, characters in response.chunks) == len(UMLAUTS)
    assert response.attempt.streamed == ("streaming" not in shape)


@pytest.mark.parametrize("streaming", ["offered", "ignored"])
@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
async def test_reasons_to_stop(reason, streaming):
    async with serving(Answer(text="x", finish_reason=reason, streaming=streaming)) as (_, model):
        assert (await ask(model)).finish_reason == reason


async def test_a_refusal_is_text_and_a_stream_without_deltas_is_read_at_its_end():
    async with serving(
        events(
            '{"type":"response.refusal.delta","output_index":0,"content_index":0,"delta":"I will not."}',
            '{"type":"response.completed","response":{"status":"completed"}}',
        )
    ) as (_, model):
        assert (await ask(model)).text == "I will not."
    async with serving(
        events(
            '{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":'
            '[{"type":"output_text","text":"Stop"},{"type":"refusal","refusal":"ped"}]},'
            '{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}]}}',
        )
    ) as (_, model):
        response = await ask(model)
    assert (response.text, response.tool_calls) == ("Stopped", (ToolCall(id="c", name="n"),))


async def test_what_is_asked_reaches_the_server():
    call = ToolCall(id="c1", name="look", arguments={"at": "pump"})
    request = ChatRequest(
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="hi"),
            Message(role="assistant", content="I look.", tool_calls=(call,)),
            Message(role="tool", content="on", tool_call_id="c1"),
            Message(role="assistant", tool_calls=(ToolCall(id="c2", name="look", raw="{no"),)),
            Message(role="tool", content="?", tool_call_id="c2"),
        ),
        tools=(ToolSpec(name="look", description="looks", parameters={"type": "object"}),),
        temperature=0.0,
        max_tokens=50,
        seed=3,
        json_schema={"type": "object"},
    )
    async with serving(Answer(text="x"), body={"reasoning": {"effort": "low"}}) as (server, model):
        await ask(model, request)
        seen = server.log[0]
    assert seen.path == "/v1/responses"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body == {
        "model": "gpt",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":"pump"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "on"},
            {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{no"},
            {"type": "function_call_output", "call_id": "c2", "output": "?"},
        ],
        "store": False,
        "stream": True,
        "temperature": 0.0,
        "max_output_tokens": 50,
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "looks",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}, "strict": False}},
        "reasoning": {"effort": "low"},
    }


async def test_json_mode_and_a_refused_format():
    def answer(request):
        refused = "text" in request.body and request.body["text"]["format"]["type"] == "json_schema"
        return Answer(status=400, error="Invalid schema for text.format") if refused else Answer(text="{}")

    async with serving(answer) as (server, model):
        await ask(model, ChatRequest(messages=ASKED.messages, json_mode=True))
        assert server.log[-1].body["text"] == {"format": {"type": "json_object"}}
        assert (await ask(model, ChatRequest(messages=ASKED.messages, json_schema={}))).text == "{}"
        assert "text" not in server.log[-1].body


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [(400, "refused", False), (401, "auth", False), (429, "rate_limit", True), (500, "server", True)],
)
async def test_each_status_has_its_kind(status, kind, retryable):
    error = await failure(Answer(status=status, error=f"because of {KEY}"))
    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("server_error", "server", True),
        ("rate_limit_exceeded", "rate_limit", True),
        ("invalid_prompt", "refused", False),
        ("context_length_exceeded", "refused", False),
    ],
)
async def test_a_failed_response_and_an_error_event(code, kind, retryable):
    failed = Answer(text="Stop", stream_error="no luck", error_type=code)
    reported = events(f'{{"type":"error","code":"{code}","message":"no luck","param":null,"sequence_number":1}}')
    nested = events(f'{{"type":"error","error":{{"code":"{code}","message":"no luck"}}}}')
    whole = Answer(
        body=f'{{"object":"response","status":"failed","error":{{"code":"{code}","message":"no luck"}}}}'.encode(),
        content_type="application/json",
    )
    for answer in (failed, reported, nested, whole):
        error = await failure(answer)
        assert (error.kind, error.retryable, error.status) == (kind, retryable, 200)
        assert f"{code}: no luck" in str(error)


async def test_half_an_answer_is_none():
    for answer in (
        Answer(text="Stop the pump", cut_after=1),
        Answer(text="Stop", done=False),
        events('{"type":"response.output_text.delta","delta":"x"}', "[DONE]"),
    ):
        assert (await failure(answer)).kind == "stream"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html>busy</html>", "text/html"),
        (b"{}", "application/json"),
        (b'{"object": "response", "status": "queued", "output": []}', "application/json"),
        (b"data: {}\n\n", "text/event-stream"),
        (b"data: nonsense\n\n", "text/event-stream"),
    ],
)
async def test_what_is_not_a_response(body, content_type):
    error = await failure(Answer(body=body, content_type=content_type))
    assert error.kind == "malformed"
    assert "the answer is not a response" in str(error)


async def test_reported_times_lie_around_the_servers_own():
    answer = Answer(text="abcdef", piece_chars=2, delay_s=0.01, first_token_s=0.01, piece_s=0.01)
    async with serving(answer) as (server, model):
        for _ in range(3):
            zero = time.perf_counter()
            response = await model.attempt(ASKED, zero=zero)
            attempt, own = response.attempt, server.log[-1].times
            rounding = 0.001
            assert attempt.sent_ms <= (own.received - zero) * 1000 + rounding
            assert (own.first_write - zero) * 1000 <= attempt.first_byte_ms + rounding
            assert attempt.first_byte_ms < attempt.first_token_ms < attempt.last_byte_ms
            assert (own.last_write - zero) * 1000 <= attempt.last_byte_ms + rounding
            assert [characters for _, characters in response.chunks] == [2, 2, 2]


def test_settings():
    with pytest.raises(SetupError, match=r"\(allowed: chat, responses\)"):
        build("http://host/v1", api="completions")
    with pytest.raises(SetupError, match="takes no seed"):
        build("http://host/v1", send_seed=True)
