"""`openai/NAME` against a real server: what is sent, what is read, and when it arrived."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, ChatResponse, Message, ToolCall, ToolSpec, Usage
from steadyhand.testing import Answer, ModelServer

ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))
UMLAUTS = 'Zürich, 心臓 🫀 stoppt, überall: "quoted" \\ and\nnew lines. ' * 3


@contextlib.asynccontextmanager
async def serving(behaviour, **options) -> AsyncIterator[tuple[ModelServer, OpenAIModel]]:
    async with ModelServer(behaviour) as server:
        settings = ModelSettings(
            name="gpt",
            folder=Path(),
            variables={"OPENAI_API_KEY": "sk-secret"},
            options={"base_url": server.base_url, **options},
        )
        model = OpenAIModel(settings)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model: OpenAIModel, request: ChatRequest = ASKED) -> ChatResponse:
    return await model.attempt(request, zero=time.perf_counter())


async def test_a_streamed_answer():
    async with serving(Answer(text=UMLAUTS, piece_chars=7)) as (_, model):
        response = await ask(model)
    assert model.name == "openai/gpt"
    assert response.text == UMLAUTS
    assert (response.finish_reason, response.usage, response.source) == (
        "stop",
        Usage(input_tokens=7, output_tokens=5),
        "live",
    )
    assert sum(characters for _, characters in response.chunks) == len(UMLAUTS)
    assert (response.attempt.streamed, response.attempt.status, response.attempt.error) == (True, 200, None)


@pytest.mark.parametrize(
    "shape",
    [
        {"write_size": 1},
        {"write_size": 3, "newline": "\r\n"},
        {"newline": "\r\n", "comments": True, "space": False},
        {"comments": True, "write_size": 2},
        {"framing": "close"},
        {"framing": "close", "done": False},
        {"done": False},
        {"framing": "close", "write_size": 1},
    ],
    ids=str,
)
async def test_the_answer_does_not_depend_on_the_shape_of_the_stream(shape):
    call = ToolCall(id="c", name="stop", arguments={"why": "心臓"})
    answer = Answer(text=UMLAUTS[:60], piece_chars=5, tool_calls=(call,), **shape)
    async with serving(answer) as (_, model):
        response = await ask(model)
    assert (response.text, response.tool_calls, response.finish_reason) == (UMLAUTS[:60], (call,), "stop")
    assert response.usage == Usage(input_tokens=7, output_tokens=5)
    assert sum(characters for _, characters in response.chunks) == 60
    assert response.attempt.last_byte_ms is not None


async def test_what_is_asked_reaches_the_server():
    call = ToolCall(id="c1", name="look", arguments={"at": "pump"})
    broken = ToolCall(id="c2", name="look", raw="{not json")
    request = ChatRequest(
        messages=(
            Message(role="system", content="Be brief."),
            Message(role="user", content="hi", name="ann"),
            Message(role="assistant", tool_calls=(call, broken)),
            Message(role="tool", content="on", tool_call_id="c1", name="look"),
        ),
        tools=(ToolSpec(name="look", description="looks", parameters={"type": "object"}), ToolSpec(name="wait")),
        temperature=0.0,
        max_tokens=50,
        seed=3,
        json_schema={"type": "object"},
    )
    async with serving(Answer(text="x"), body={"reasoning_effort": "low"}, send_seed=True, headers={"X-Team": "a"}) as (
        server,
        model,
    ):
        await ask(model, request)
        seen = server.log[0]
    assert seen.body == {
        "model": "gpt",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi", "name": "ann"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"pump"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "look", "arguments": "{not json"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "on"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "max_tokens": 50,
        "seed": 3,
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "description": "looks", "parameters": {"type": "object"}},
            },
            {
                "type": "function",
                "function": {"name": "wait", "description": "", "parameters": {"type": "object", "properties": {}}},
            },
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}},
        "reasoning_effort": "low",
    }
    assert seen.headers["authorization"] == "Bearer sk-secret"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["x-team"] == "a"


async def test_what_is_not_asked_is_left_out():
    async with serving(Answer(text="x")) as (server, model):
        await ask(model)
        assert set(server.log[0].body) == {"model", "messages", "stream", "stream_options"}


async def test_json_mode_and_the_seed_and_temperature_are_sent_as_wished():
    request = ChatRequest(messages=ASKED.messages, json_mode=True, seed=3, temperature=0.5)
    async with serving(Answer(text="{}")) as (server, model):
        await ask(model, request)
        body = server.log[0].body
    assert body["response_format"] == {"type": "json_object"}
    assert "seed" not in body, "some servers refuse it"
    assert body["temperature"] == 0.5
    async with serving(Answer(text="{}"), send_seed=True, send_temperature=False) as (server, model):
        await ask(model, request)
        body = server.log[0].body
    assert body["seed"] == 3
    assert "temperature" not in body


async def test_a_refused_json_mode_is_asked_again_without():
    def answer(request):
        refused = "response_format" in request.body
        return Answer(status=400, error="response_format: json_object not supported") if refused else Answer(text="{}")

    async with serving(answer) as (server, model):
        assert (await ask(model, ChatRequest(messages=ASKED.messages, json_mode=True))).text == "{}"
        assert server.received == 2


@pytest.mark.parametrize("streaming", ["offered", "ignored"])
async def test_tool_calls(streaming):
    calls = (
        ToolCall(id="a", name="stop", arguments={"now": True, "why": "heat " * 10}),
        ToolCall(id="b", name="list", raw="[1, 2]"),
        ToolCall(id="c", name="none", raw=""),
    )
    answer = Answer(tool_calls=calls, finish_reason="tool_calls", streaming=streaming)
    async with serving(answer) as (_, model):
        response = await ask(model)
    assert response.tool_calls == (calls[0], calls[1], ToolCall(id="c", name="none"))
    assert (response.text, response.chunks, response.finish_reason) == ("", (), "tool_calls")
    assert (response.attempt.first_token_ms is not None) == (streaming == "offered")


def events(*lines: str) -> Answer:
    body = "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]"))
    return Answer(body=body.encode(), content_type="text/event-stream")


async def test_calls_without_an_index_or_all_with_the_same_are_kept_apart():
    def delta(index: str, identity: str, arguments: str) -> str:
        call = f'{{{index}"id": "{identity}", "function": {{"name": "n", "arguments": {arguments}}}}}'
        return f'{{"choices": [{{"delta": {{"tool_calls": [{call}]}}}}]}}'

    for index in ("", '"index": 0, '):
        answer = events(delta(index, "a", '"{}"'), delta(index, "b", '{"x": 1}'))
        async with serving(answer) as (_, model):
            calls = (await ask(model)).tool_calls
        assert calls == (ToolCall(id="a", name="n"), ToolCall(id="b", name="n", arguments={"x": 1}))


@pytest.mark.parametrize(
    ("reasons", "counts"),
    [
        (("content_filter", "stop"), "content_filter"),
        (("stop", "content_filter"), "content_filter"),
        (("length", "stop"), "length"),
        (("tool_calls", "stop"), "tool_calls"),
    ],
)
async def test_of_several_finish_reasons_the_worst_counts(reasons, counts):
    pieces = [f'{{"choices": [{{"delta": {{"content": "x"}}, "finish_reason": "{word}"}}]}}' for word in reasons]
    async with serving(events(*pieces)) as (_, model):
        assert (await ask(model)).finish_reason == counts


async def test_content_in_parts_refusals_and_other_choices():
    answer = events(
        '{"choices": [{"index": 1, "delta": {"content": "not this"}}]}',
        '{"choices": [{"delta": {"content": [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "I "}]}}]}',
        '{"choices": [{"delta": {"refusal": "will not."}, "finish_reason": "content_filter"}]}',
        '{"choices": null, "usage": {"prompt_tokens": 1}}',
    )
    async with serving(answer) as (_, model):
        response = await ask(model)
    assert (response.text, response.finish_reason, response.usage) == ("I will not.", "content_filter", None)


@pytest.mark.parametrize("streaming", ["offered", "ignored"])
async def test_reasoning_is_not_text_and_finish_reasons_are_kept(streaming):
    answer = Answer(text="Stop", reasoning="think", finish_reason="length", streaming=streaming, usage=None)
    async with serving(answer) as (_, model):
        response = await ask(model)
    assert (response.text, response.finish_reason, response.usage) == ("Stop", "length", None)


async def test_a_server_that_ignores_streaming_is_read_whole():
    async with serving(Answer(text="Stop.", streaming="ignored")) as (_, model):
        response = await ask(model)
    attempt = response.attempt
    assert (response.text, attempt.streamed, attempt.first_token_ms) == ("Stop.", False, None)
    assert response.chunks == ((pytest.approx(attempt.latency_ms, abs=0.002), 5),)


async def test_an_event_stream_under_another_content_type_is_read():
    answer = Answer(
        body=b'data: {"choices": [{"delta": {"content": "Stop"}, "finish_reason": "stop"}]}\n\n',
        content_type="text/plain",
    )
    async with serving(answer) as (_, model):
        assert (await ask(model)).text == "Stop"


async def test_a_refusal_to_stream_is_asked_again_plainly_and_remembered():
    async with serving(Answer(text="Stop.", streaming="refused", delay_s=0.03)) as (server, model):
        first = await ask(model)
        assert [("stream" in served.body) for served in server.log] == [True, False]
        second = await ask(model)
        assert server.received == 3
    assert first.text == second.text == "Stop."
    assert (first.attempt.streamed, first.attempt.status) == (False, 200)
    assert first.attempt.started_ms >= 29, "the refused request must not be in the times"
    assert second.attempt.started_ms < first.attempt.started_ms


async def test_a_refusal_of_stream_options_keeps_the_stream():
    async with serving(Answer(text="Stop.", streaming="options_refused")) as (server, model):
        response = await ask(model)
        await ask(model)
        assert server.received == 3
    assert (response.attempt.streamed, response.usage) == (True, None)


async def test_a_refused_schema_or_token_field_is_asked_again_without():
    def answer(request):
        if "response_format" in request.body:
            return Answer(status=400, error="response_format is not supported")
        if "max_tokens" in request.body:
            return Answer(status=400, error="Unsupported parameter: use 'max_completion_tokens' instead.")
        return Answer(text="{}")

    request = ChatRequest(messages=ASKED.messages, json_schema={}, max_tokens=9)
    async with serving(answer) as (server, model):
        assert (await ask(model, request)).text == "{}"
        assert server.log[-1].body["max_completion_tokens"] == 9
        assert server.received == 3


async def test_a_refusal_that_calls_itself_a_failure_of_the_server():
    """As llama-cpp-python's server formats it."""
    said = "1 validation error: {'loc': ('body', 'response_format', 'type'), 'msg': \"should be 'text'\"}"

    def answer(request):
        return Answer(status=500, error=said) if "response_format" in request.body else Answer(text="{}")

    async with serving(answer) as (server, model):
        assert (await ask(model, ChatRequest(messages=ASKED.messages, json_schema={}))).text == "{}"
        assert server.received == 2


async def test_streaming_can_be_switched_off():
    async with serving(Answer(text="x"), stream=False) as (server, model):
        response = await ask(model)
        assert set(server.log[0].body) == {"model", "messages"}
    assert not response.attempt.streamed


async def test_a_connection_is_used_again():
    async with serving(Answer(text="x")) as (server, model):
        reused = [(await ask(model)).attempt.reused_connection for _ in range(3)]
        assert server.connected == 1
    assert reused == [False, True, True]


async def test_a_connection_that_the_server_closed_behind_our_back_is_not_used_again():
    """The server claims to keep it open, as llama.cpp's does, but has closed it by the time the answer is read."""
    event = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nKeep-Alive: timeout=5\r\nContent-Length: %d\r\n\r\n"

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head % len(event) + event)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = OpenAIModel(ModelSettings(name="m", folder=Path(), options={"base_url": base_url}))
    assert [(await ask(model)).text for _ in range(3)] == ["x", "x", "x"]
    await model.close()
    server.close()
    await server.wait_closed()


async def test_a_request_on_a_connection_that_is_closed_as_it_is_used_again_is_sent_on_a_fresh_one():
    """The server hangs up when the second request arrives; no poll beforehand could have seen that."""
    event = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(event)
    handled: list[asyncio.Task[object]] = []

    async def answer(reader, writer):
        handled.append(asyncio.current_task())
        asked = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(asked.lower().partition(b"content-length:")[2].split()[0]))
        writer.write(head + event)
        await writer.drain()
        await reader.read(1)
        writer.transport.abort()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = OpenAIModel(ModelSettings(name="m", folder=Path(), options={"base_url": base_url}))
    answers = [await ask(model) for _ in range(4)]
    assert [each.text for each in answers] == ["x"] * 4
    assert not any(each.attempt.reused_connection for each in answers)
    assert len(handled) == 4
    await model.close()
    await asyncio.wait(handled)
    await asyncio.sleep(0)
    server.close()
    await server.wait_closed()


async def test_an_end_that_comes_late_does_not_count_and_keeps_the_connection():
    late = Answer(text="Stop.", write_size=1)
    async with serving(late) as (server, model):
        await ask(model)
        await ask(model)
        assert server.connected == 1


async def test_the_previous_answer_on_a_connection_does_not_shift_the_times_of_the_next():
    """While headers arrive in pieces there is no body yet, whatever this connection carried before."""
    long_headers = {"X-Padding": "x" * 2000}
    async with serving(Answer(text="abc", headers=long_headers, write_size=1, first_token_s=0.02)) as (_, model):
        await ask(model)
        attempt = (await ask(model)).attempt
    assert attempt.reused_connection
    assert attempt.first_token_ms - attempt.first_byte_ms >= 19


async def test_64_calls_at_once():
    async with serving(lambda request: Answer(text=request.prompt * 3, first_token_s=0.02)) as (server, model):
        requests = [ChatRequest(messages=(Message(role="user", content=f"call {n}, "),)) for n in range(64)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(model, request)) for request in requests]
        assert server.connected == 64
    assert [task.result().text for task in tasks] == [f"call {n}, " * 3 for n in range(64)]


async def test_cancelling_closes_the_connection():
    async with serving(Answer(text="x" * 100, piece_s=0.01, piece_chars=1)) as (server, model):
        task = asyncio.create_task(ask(model))
        await server.until_received(1)
        await asyncio.sleep(0.03)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.until_disconnected()
        assert server.open_connections == 0


async def test_a_large_request_is_sent_whole():
    text = "0123456789" * 200_000
    async with serving(lambda request: Answer(text=str(len(request.prompt)))) as (_, model):
        response = await ask(model, ChatRequest(messages=(Message(role="user", content=text),)))
    assert response.text == "2000000"
    assert response.attempt.sent_ms is not None


@pytest.mark.parametrize("streaming", ["offered", "ignored"])
async def test_reported_times_lie_around_the_servers_own(streaming):
    answer = Answer(text="abcdef", piece_chars=2, delay_s=0.01, first_token_s=0.01, piece_s=0.01, streaming=streaming)
    async with serving(answer) as (server, model):
        for _ in range(5):
            zero = time.perf_counter()
            response = await model.attempt(ASKED, zero=zero)
            ended = time.perf_counter()
            attempt, own = response.attempt, server.log[-1].times

            def ms(moment: float, zero: float = zero) -> float:
                return (moment - zero) * 1000

            rounding = 0.001
            assert 0 <= attempt.started_ms <= attempt.connected_ms <= attempt.sent_ms
            assert attempt.sent_ms <= ms(own.received) + rounding
            assert ms(own.first_write) <= attempt.first_byte_ms + rounding
            assert ms(own.last_write) <= attempt.last_byte_ms + rounding
            assert attempt.last_byte_ms <= ms(ended) + rounding
            assert attempt.latency_ms >= (own.last_write - own.received) * 1000 - 2 * rounding
            arrivals = [at for at, _ in response.chunks]
            assert arrivals == sorted(arrivals)
            if streaming == "offered":
                assert attempt.first_byte_ms < attempt.first_token_ms < attempt.last_byte_ms
                assert len(arrivals) == 3


async def test_a_late_reader_still_reports_when_the_bytes_came():
    """Other tasks hold up the loop between the arrival of the bytes and the reader's turn: that wait is not the
    model's."""
    held_s = 0.01

    async def hold_up() -> None:
        while True:
            time.sleep(held_s)  # noqa: ASYNC251 -- holding up the loop is the point
            await asyncio.sleep(0)

    async with serving(Answer(text="abcd")) as (_, model):
        await ask(model)
        holding = asyncio.create_task(hold_up())
        zero = time.perf_counter()
        response = await model.attempt(ASKED, zero=zero)
        ended_ms = (time.perf_counter() - zero) * 1000
        holding.cancel()
    assert response.attempt.last_byte_ms is not None
    assert ended_ms - response.attempt.last_byte_ms >= held_s * 1000


def build(variables: dict[str, str], **options) -> OpenAIModel:
    return OpenAIModel(ModelSettings(name="gpt", folder=Path(), variables=variables, options=options))


def test_a_missing_key_for_the_public_server_says_what_to_set():
    with pytest.raises(SetupError, match="set OPENAI_API_KEY"):
        build({})
    with pytest.raises(SetupError, match="set MY_KEY"):
        build({"OPENAI_API_KEY": "x"}, api_key_env="MY_KEY")
    build({"MY_KEY": "x"}, api_key_env="MY_KEY")
    build({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_ulr": "x"}, "did you mean `base_url`"),
        ({"base_url": "localhost:8000"}, "expected http://HOST/v1"),
        ({"base_url": "http://me:word@host/v1"}, "user name or password"),
        ({"base_url": "http://host:port/v1"}, "not a URL"),
        ({"stream": "no"}, "expected true or false"),
        ({"headers": "X: y"}, "expected a mapping"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(SetupError) as caught:
        build({"OPENAI_API_KEY": "k"}, **options)
    assert message in str(caught.value)
    assert "word" not in str(caught.value).replace("password", "")


def test_a_key_that_cannot_be_sent_is_refused_without_showing_it():
    with pytest.raises(SetupError) as caught:
        build({"OPENAI_API_KEY": "sk-1\n2"})
    assert "sk-1" not in str(caught.value)


async def test_no_key_is_sent_where_none_is_set():
    async with ModelServer(Answer(text="x")) as server:
        model = build({"OPENAI_BASE_URL": server.base_url + "/"})
        await ask(model)
        await model.close()
        await model.close()
        assert "authorization" not in server.log[0].headers
        assert server.log[0].path == "/v1/chat/completions"
