"""How `openai/NAME` fails: every failure has its kind, and no partial answer passes for a complete one."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.errors import ModelError
from steadyhand.http.endpoint import retry_after_s
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, Message
from steadyhand.redaction import Redactor
from steadyhand.testing import Answer, ModelServer
from support.patience import with_enough_time

ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))
KEY = "sk-very-secret"


def model_at(base_url: str, timeout_s: float = 30.0) -> OpenAIModel:
    settings = ModelSettings(
        name="gpt",
        folder=Path(),
        variables={"OPENAI_API_KEY": KEY},
        options={"base_url": base_url},
        timeout_s=timeout_s,
    )
    return OpenAIModel(settings)


@contextlib.asynccontextmanager
async def closing(model: OpenAIModel) -> AsyncIterator[OpenAIModel]:
    try:
        yield model
    finally:
        await model.close()


async def failure(behaviour, *, timeout_s: float = 30.0, request: ChatRequest = ASKED) -> ModelError:
    async with ModelServer(behaviour) as server, closing(model_at(server.base_url, timeout_s)) as model:
        with pytest.raises(ModelError) as caught:
            await model.attempt(request, zero=time.perf_counter())
        error = caught.value
        assert f"127.0.0.1:{server.port}" in str(error)
    assert KEY not in str(error)
    assert error.attempt is not None
    assert error.attempt.error == str(error)
    assert error.attempt.latency_ms is None
    return error


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "refused", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "refused", False),
        (408, "server", True),
        (409, "server", True),
        (422, "refused", False),
        (429, "rate_limit", True),
        (302, "refused", False),
        (500, "server", True),
        (503, "server", True),
        (529, "server", True),
    ],
)
async def test_each_status_has_its_kind(status, kind, retryable):
    error = await failure(Answer(status=status, error=f"because of {KEY}: " + "x" * 1000))
    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)
    assert "because of ***" in str(error)
    assert len(str(error)) < 450
    assert error.attempt is not None
    assert error.attempt.status == status
    assert error.attempt.sent_ms is not None
    assert error.attempt.first_byte_ms is not None


async def test_a_refused_key_names_its_variable():
    error = await failure(Answer(status=401, error=f"Incorrect API key provided: {KEY}"))
    told = str(error)
    assert told.endswith("did not accept the key (401): Incorrect API key provided: ***; check OPENAI_API_KEY")
    assert Redactor().text(told) == told, "no part of it looks like a key"


async def test_the_wait_that_the_server_asks_for():
    error = await failure(Answer(status=429, headers={"Retry-After": "7"}))
    assert error.retry_after_s == 7.0
    assert (await failure(Answer(status=503, headers={"Retry-After": "1"}))).retry_after_s == 1.0
    assert (await failure(Answer(status=429))).retry_after_s is None


async def test_a_used_up_quota_does_not_come_back():
    body = b'{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'
    error = await failure(Answer(status=429, body=body, content_type="application/json"))
    assert (error.kind, error.retryable) == ("rate_limit", False)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e9"}, 1e9),
        ({"retry-after-ms": "0"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "3", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 99 Oct 99999 07:28:00 GMT"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "20ms"}, None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "later"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers, expected):
    assert retry_after_s(headers) == expected


async def test_nobody_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with closing(model_at(f"http://127.0.0.1:{port}/v1")) as model:
        with pytest.raises(ModelError) as caught:
            await model.attempt(ASKED, zero=time.perf_counter())
    error = caught.value
    where = f"127.0.0.1:{port}"
    told = f"{where}: cannot connect: nothing listens at {where} (connection refused); is it running there?"
    assert str(error) == told
    assert (error.kind, error.retryable, error.status) == ("connect", True, None)
    assert error.attempt is not None
    assert (error.attempt.connected_ms, error.attempt.sent_ms) == (None, None)


async def test_no_such_host():
    async with closing(model_at("http://no-such-host.invalid/v1")) as model:
        with pytest.raises(ModelError) as caught:
            await model.attempt(ASKED, zero=time.perf_counter())
    assert (caught.value.kind, caught.value.retryable) == ("connect", True)
    assert "the address of no-such-host.invalid was not found (" in str(caught.value)
    assert str(caught.value).endswith("; check its name")


async def test_a_server_without_tls():
    async with ModelServer() as server, closing(model_at(server.base_url.replace("http:", "https:"))) as model:
        with pytest.raises(ModelError, match="; does it speak TLS, or is its address http://") as caught:
            await model.attempt(ASKED, zero=time.perf_counter())
    assert (caught.value.kind, caught.value.retryable) == ("connect", True)


async def test_a_reset_before_the_answer():
    error = await failure(Answer(fault="reset"))
    assert (error.kind, error.retryable) == ("connect", True)
    assert error.attempt is not None
    assert error.attempt.sent_ms is not None
    assert error.attempt.first_byte_ms is None


async def test_a_hang_ends_at_the_timeout():
    error = await failure(Answer(fault="hang"), timeout_s=0.05)
    assert (error.kind, error.retryable) == ("timeout", True)
    assert "0.05 s" in str(error)
    own = await failure(Answer(fault="hang"), request=ChatRequest(messages=ASKED.messages, timeout_s=0.02))
    assert "0.02 s" in str(own)


async def test_a_stream_that_stalls_ends_at_the_timeout():
    stalls = Answer(text="abc", piece_chars=1, piece_s=3600)
    error = await with_enough_time(
        lambda seconds: failure(stalls, timeout_s=seconds), lambda error: error.status is not None
    )
    assert (error.kind, error.status) == ("timeout", 200)
    assert error.attempt is not None
    assert error.attempt.first_byte_ms is not None
    assert error.attempt.last_byte_ms is None


@pytest.mark.parametrize("framing", ["chunked", "close"])
@pytest.mark.parametrize("cut_after", [0, 1, 3])
async def test_a_stream_that_is_cut_is_never_an_answer(framing, cut_after):
    error = await failure(Answer(text="Stop the pump and wait", piece_chars=4, framing=framing, cut_after=cut_after))
    assert (error.kind, error.retryable, error.status) == ("stream", True, 200)


async def test_a_stream_that_just_ends_is_never_an_answer():
    error = await failure(Answer(text="Stop", done=False, finish_reason=None))
    assert (error.kind, error.retryable) == ("stream", True)


async def test_an_empty_finish_reason_is_none():
    """Some servers put one into every piece; a stream that breaks off after it has not ended."""
    piece = b'data: {"choices": [{"delta": {"content": "Stop"}, "finish_reason": ""}]}\n\n'
    error = await failure(Answer(body=piece, content_type="text/event-stream"))
    assert (error.kind, error.retryable) == ("stream", True)


async def test_a_plain_answer_that_is_cut_is_never_an_answer():
    error = await failure(Answer(text="Stop " * 20, streaming="ignored", cut_after=1))
    assert (error.kind, error.retryable) == ("stream", True)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html><body>Welcome</body></html>", "text/html"),
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"choices": []}', "application/json"),
        (b'{"choices": [{"message": {"content": 5}}]}', "application/json"),
        (b'{"choices": [{"message": {"content": "\xff"}}]}', "application/json"),
        (b"data: [DONE]\n\n", "text/event-stream"),
        (b'data: {"choices": [{"del\n\n', "text/event-stream"),
        (b"data: hello\n\ndata: [DONE]\n\n", "text/plain"),
    ],
)
async def test_garbage_is_malformed(body, content_type):
    error = await failure(Answer(body=body, content_type=content_type))
    assert (error.kind, error.retryable, error.status) == ("malformed", True, 200)


async def test_what_is_not_http_is_malformed():
    async def nonsense(reader, writer):
        await reader.read(1)
        writer.write(b"SSH-2.0-OpenSSH_9\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, closing(model_at(f"http://127.0.0.1:{port}/v1")) as model:
        with pytest.raises(ModelError) as caught:
            await model.attempt(ASKED, zero=time.perf_counter())
    assert (caught.value.kind, caught.value.retryable) == ("malformed", True)


async def test_an_error_inside_the_stream_is_the_servers():
    error = await failure(Answer(text="Sto", stream_error=f"out of memory {KEY}"))
    assert (error.kind, error.retryable, error.status) == ("server", True, 200)
    assert "out of memory ***" in str(error)


@pytest.mark.parametrize(
    "body", [b'{"error": {"message": "overloaded"}}', b'{"object": "error", "message": "overloaded", "code": 500}']
)
async def test_an_error_in_place_of_the_answer_is_the_servers(body):
    error = await failure(Answer(body=body, content_type="application/json"))
    assert error.kind == "server"
    assert "overloaded" in str(error)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"detail": [{"msg": "field required"}]}', "field required"),
        (b'{"error": "model not loaded"}', "model not loaded"),
        (b"<h1>Bad\n gateway</h1>", "<h1>Bad gateway</h1>"),
        (b"", "no message"),
    ],
)
async def test_the_servers_message_is_found_in_any_shape(body, message):
    error = await failure(Answer(status=502, body=body, content_type="application/json"))
    assert message in str(error)


async def test_a_refusal_that_only_mentions_streams_is_not_remembered():
    answers = [Answer(status=404, error="no such model: stream"), Answer(status=404, error="no such model: stream")]
    async with (
        ModelServer([*answers, Answer(text="fine")]) as server,
        closing(model_at(server.base_url)) as model,
    ):
        with pytest.raises(ModelError, match="no such model"):
            await model.attempt(ASKED, zero=time.perf_counter())
        assert (await model.attempt(ASKED, zero=time.perf_counter())).attempt.streamed


async def test_after_a_failure_the_next_call_works():
    async with (
        ModelServer([Answer(text="abc", cut_after=1), Answer(fault="reset"), Answer(text="fine")]) as server,
        closing(model_at(server.base_url)) as model,
    ):
        for _ in range(2):
            with pytest.raises(ModelError):
                await model.attempt(ASKED, zero=time.perf_counter())
        assert (await model.attempt(ASKED, zero=time.perf_counter())).text == "fine"
