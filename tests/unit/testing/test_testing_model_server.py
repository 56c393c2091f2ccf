"""The model server: what it writes, how it misbehaves, and the times it notes."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import aiohttp
import pytest

from steadyhand.records.chat import ToolCall
from steadyhand.testing import Answer, ModelServer

PROMPT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
STREAM = {**PROMPT, "stream": True, "stream_options": {"include_usage": True}}


async def post(server: ModelServer, body=PROMPT, path="/chat/completions"):
    async with aiohttp.ClientSession() as session, session.post(server.base_url + path, json=body) as response:
        return response.status, response.headers, await response.text()


def events(text: str) -> list:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


async def test_a_plain_completion():
    async with ModelServer(Answer(text="Stop.")) as server:
        status, headers, text = await post(server)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert json.loads(text) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Stop."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }


async def test_a_stream_of_text_tool_calls_and_usage():
    call = ToolCall(id="c1", name="stop", arguments={"now": True})
    async with ModelServer(Answer(pieces=("St", "op."), tool_calls=(call,), piece_chars=6)) as server:
        _, headers, text = await post(server, STREAM)
    assert headers["Content-Type"] == "text/event-stream"
    *chunks, finish, usage, done = events(text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[:2] == [{"content": "St"}, {"content": "op."}]
    assert deltas[2]["tool_calls"][0] == {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "stop", "arguments": ""},
    }
    pieces = [delta["tool_calls"][0]["function"]["arguments"] for delta in deltas[2:]]
    assert len(pieces) > 2
    assert "".join(pieces) == '{"now":true}'
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["total_tokens"] == 12
    assert done == "[DONE]"


async def test_usage_is_streamed_only_when_asked_for():
    async with ModelServer(Answer(text="x")) as server:
        _, _, text = await post(server, {**PROMPT, "stream": True})
    assert "usage" not in text


async def test_one_answer_for_each_request_and_the_last_repeats():
    async with ModelServer([Answer(status=500), Answer(text="b")]) as server:
        assert [(await post(server))[0] for _ in range(3)] == [500, 200, 200]
        assert [served.number for served in server.log] == [1, 2, 3]


async def test_a_function_answers_by_the_request():
    async with ModelServer(lambda request: Answer(text=request.prompt.upper())) as server:
        _, _, text = await post(server)
    assert json.loads(text)["choices"][0]["message"]["content"] == "HI"


async def test_a_function_that_raises_is_not_forgotten():
    def broken(_):
        raise LookupError("not in the script")

    with pytest.raises(LookupError, match="not in the script"):
        async with ModelServer(broken) as server:
            assert (await post(server))[0] == 500


async def test_errors_have_openai_bodies_and_headers():
    async with ModelServer(Answer(status=429, error="slow down", headers={"Retry-After": "3"})) as server:
        status, headers, text = await post(server)
        assert (await post(server, path="/nothing"))[0] == 404
    assert (status, headers["Retry-After"]) == (429, "3")
    assert json.loads(text)["error"]["message"] == "slow down"


async def test_streaming_can_be_refused_or_ignored():
    async with ModelServer(Answer(text="x", streaming="refused")) as server:
        assert (await post(server, STREAM))[0] == 400
        assert (await post(server))[0] == 200
    async with ModelServer(Answer(text="x", streaming="ignored")) as server:
        assert (await post(server, STREAM))[1]["Content-Type"] == "application/json"
    async with ModelServer(Answer(text="x", streaming="options_refused")) as server:
        assert (await post(server, STREAM))[0] == 400
        assert (await post(server, {**PROMPT, "stream": True}))[0] == 200


async def test_a_reset_and_a_cut_break_the_connection():
    async with ModelServer(Answer(fault="reset")) as server:
        with pytest.raises(aiohttp.ClientConnectionError):
            await post(server)
    async with ModelServer(Answer(text="x" * 100, cut_after=2)) as server:
        with pytest.raises(aiohttp.ClientPayloadError):
            await post(server, STREAM)


async def test_leaving_the_server_ends_a_hanging_request():
    async with ModelServer(Answer(fault="hang")) as server:
        waiting = asyncio.create_task(post(server))
        await server.until_received(1)
    with pytest.raises(aiohttp.ClientError):
        await waiting


async def test_the_log_has_the_times_in_order_and_the_delays_in_them():
    before = time.perf_counter()
    answer = Answer(pieces=("a", "b", "c"), delay_s=0.02, first_token_s=0.02, piece_s=0.01)
    async with ModelServer(answer) as server:
        await post(server, STREAM)
        times = server.log[0].times
    assert before < times.received < times.first_write < times.last_write <= times.drained < time.perf_counter()
    assert times.first_write - times.received >= 0.019
    assert times.last_write - times.first_write >= 0.038


async def test_the_server_in_its_own_process():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "steadyhand.testing.model_server", "--delay-ms", "5", "--text", "Hello"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        base_url = json.loads(await process.stdout.readline())["base_url"]
        log_url = base_url.removesuffix("/v1") + "/log"
        async with aiohttp.ClientSession() as session:
            before = time.perf_counter()
            async with session.post(base_url + "/chat/completions", json=PROMPT) as response:
                assert (await response.json())["choices"][0]["message"]["content"] == "Hello"
            after = time.perf_counter()
            async with session.get(log_url) as response:
                (entry,) = await response.json()
            async with session.delete(log_url) as response:
                assert await response.json() == []
    finally:
        process.terminate()
        await process.communicate()
    assert entry["prompt"] == "hi"
    assert before < entry["times"]["received"] < entry["times"]["last_write"] < after
