"""The connection under `openai/NAME`, against servers that write raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Self

import pytest

from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.errors import ModelError
from steadyhand.http.client import WakeQueue
from steadyhand.plugins.plugin import ModelSettings
from steadyhand.records.chat import ChatRequest, ChatResponse, Message

TLS = Path(__file__).parent / "tls"
ASKED = ChatRequest(messages=(Message(role="user", content="hi"),))
WHOLE = b'{"choices": [{"message": {"content": "Stop."}, "finish_reason": "stop"}]}'
EVENTS = (
    b'data: {"choices": [{"delta": {"content": "Stop"}}]}\n\n'
    b'data: {"choices": [{"delta": {"content": "."}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


def sized(head: bytes, body: bytes) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


async def request_of(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


class Raw:
    """A server that hands every request to `serve`, and counts connections."""

    def __init__(self, serve: Serve, context: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._talks: set[asyncio.Task[None]] = set()
        self._serve = serve
        self._context = context

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self._talks:
            await asyncio.wait(self._talks)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while not writer.is_closing():
                request = await request_of(reader)
                self.requests.append(request)
                await self._serve(request, writer)
                await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(
    serve: Serve, *, context: ssl.SSLContext | None = None, timeout_s: float = 10.0, **options
) -> AsyncIterator[tuple[Raw, OpenAIModel]]:
    async with Raw(serve, context) as server:
        base_url = f"{'https' if context else 'http'}://127.0.0.1:{server.port}/v1"
        settings = ModelSettings(
            name="gpt", folder=Path(), variables={}, options={"base_url": base_url, **options}, timeout_s=timeout_s
        )
        model = OpenAIModel(settings)
        try:
            yield server, model
        finally:
            await model.close()


def always(response: bytes, *, close: bool = False) -> Serve:
    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(response)
        if close:
            await writer.drain()
            writer.close()

    return serve


async def ask(model: OpenAIModel, request: ChatRequest = ASKED) -> ChatResponse:
    return await model.attempt(request, zero=time.perf_counter())


@pytest.mark.parametrize(
    "response",
    [
        sized(JSON_HEAD, WHOLE),
        sized(STREAM_HEAD, EVENTS),
        STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(EVENTS[:9], EVENTS[9:]) + b"0\r\n\r\n",
        sized(JSON_HEAD + b"Content-Encoding: gzip\r\n", gzip.compress(WHOLE)),
        sized(STREAM_HEAD + b"Content-Encoding: gzip\r\n", gzip.compress(EVENTS)),
        sized(STREAM_HEAD + b"Content-Encoding: gzip\r\n", gzip.compress(EVENTS[:20]) + gzip.compress(EVENTS[20:])),
        b"HTTP/1.1 100 Continue\r\n\r\n" + sized(JSON_HEAD, WHOLE),
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Type: text/plain\r\n\r\n" + sized(JSON_HEAD, WHOLE),
    ],
    ids=["length", "stream with length", "chunks", "gzip", "gzip stream", "gzip of two members", "continue", "hints"],
)
async def test_every_way_to_send_a_body_and_the_connection_is_kept(response):
    async with serving(always(response)) as (server, model):
        for _ in range(3):
            answer = await ask(model)
            assert (answer.text, answer.attempt.status) == ("Stop.", 200)
        assert server.connections == 1
        assert answer.attempt.reused_connection


@pytest.mark.parametrize("head", [JSON_HEAD, STREAM_HEAD])
async def test_a_body_without_a_length_ends_with_its_connection(head):
    body = WHOLE if head is JSON_HEAD else EVENTS
    async with serving(always(head + b"\r\n" + body, close=True)) as (server, model):
        assert (await ask(model)).text == "Stop."
        assert (await ask(model)).text == "Stop."
        assert server.connections == 2


@pytest.mark.parametrize(
    ("response", "kind", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "malformed", "not HTTP"),
        (JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n", "malformed", "not HTTP"),
        (sized(JSON_HEAD + b"Content-Encoding: br\r\n", WHOLE), "malformed", "encoded as br"),
        (sized(JSON_HEAD + b"Content-Encoding: gzip\r\n", WHOLE), "malformed", "cannot be decompressed"),
        (JSON_HEAD + b"Content-Length: 999\r\n\r\n" + WHOLE, "stream", "in the middle"),
        (STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(EVENTS[:70]), "stream", "in the middle"),
        (b"HTTP/1.1 200 O", "connect", "before an answer"),
        (b"", "connect", "before an answer"),
    ],
)
async def test_what_is_not_an_answer(response, kind, said):
    async with serving(always(response, close=True)) as (_, model):
        with pytest.raises(ModelError, match=said) as caught:
            await ask(model)
        assert (caught.value.kind, caught.value.retryable) == (kind, True)


async def test_an_end_that_never_comes_costs_the_connection_and_not_the_answer():
    head = STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    async with serving(always(head + chunked(EVENTS))) as (server, model):
        assert (await ask(model)).text == "Stop."
        assert (await ask(model)).text == "Stop."
        assert server.connections == 2


async def test_more_than_was_asked_for_costs_the_connection():
    async with serving(always(sized(JSON_HEAD, WHOLE) + b"HTTP/1.1 200 OK\r\n")) as (server, model):
        assert (await ask(model)).text == "Stop."
        assert (await ask(model)).text == "Stop."
        assert server.connections == 2


async def test_a_connection_that_the_server_closed_is_not_used_again():
    async with serving(always(sized(JSON_HEAD, WHOLE), close=True)) as (server, model):
        for _ in range(3):
            assert (await ask(model)).text == "Stop."
            await asyncio.sleep(0.02)
        assert server.connections == 3


async def test_every_byte_of_an_end_may_come_alone():
    """Even after a text that looks like the end."""

    async def serve(_: bytes, writer: asyncio.StreamWriter) -> None:
        events = b'data: {"choices": [{"delta": {"content": "say [DONE] now"}}]}\r\n\r\n' + EVENTS.replace(
            b"\n", b"\r\n"
        )
        writer.write(STREAM_HEAD + b"Content-Length: %d\r\n\r\n" % len(events))
        for at in range(len(events)):
            writer.write(events[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0)

    async with serving(serve) as (_, model):
        assert (await ask(model)).text == "say [DONE] nowStop."


async def test_a_large_request_goes_out_whole_and_is_sent_when_its_last_piece_is():
    asked = ChatRequest(messages=(Message(role="user", content="long " * 1_000_000),))
    begun = asyncio.Event()
    went_on = 0.0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal went_on
        begun.set()
        await asyncio.sleep(0.2)
        went_on = time.perf_counter()
        assert b"long " * 100 in await request_of(reader)
        writer.write(sized(JSON_HEAD, WHOLE))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1024)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = OpenAIModel(ModelSettings(name="gpt", folder=Path(), variables={}, options={"base_url": base_url}))
    zero = time.perf_counter()
    try:
        answer = await model.attempt(asked, zero=zero)
    finally:
        await model.close()
        server.close()
    assert answer.text == "Stop."
    assert answer.attempt.sent_ms is not None
    assert zero + answer.attempt.sent_ms / 1000 > went_on


async def test_a_refusal_that_comes_while_the_request_is_still_being_sent():
    """The rest of the request is held back: a server that refuses it does not read it."""
    asked = ChatRequest(messages=(Message(role="user", content="long " * 4_000_000),))
    body = b'{"error": {"message": "that is too long"}}'
    answered = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(sized(b"HTTP/1.1 413 Too Large\r\nContent-Type: application/json\r\n", body))
        await writer.drain()
        await answered.wait()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, limit=1024)
    base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    model = OpenAIModel(ModelSettings(name="gpt", folder=Path(), variables={}, options={"base_url": base_url}))
    try:
        with pytest.raises(ModelError, match="that is too long") as caught:
            await ask(model, asked)
    finally:
        answered.set()
        await model.close()
        server.close()
    assert (caught.value.kind, caught.value.status) == ("refused", 413)


async def test_headers_and_the_host_are_those_asked_for():
    headers = {"X-Team": "100 % ours", "user-agent": "mine"}
    async with serving(always(sized(JSON_HEAD, WHOLE)), headers=headers) as (server, model):
        await ask(model)
        head = server.requests[0].split(b"\r\n\r\n")[0].decode()
        assert head.startswith("POST /v1/chat/completions HTTP/1.1\r\n")
        lines = head.split("\r\n")
        assert f"Host: 127.0.0.1:{server.port}" in lines
        assert "X-Team: 100 % ours" in lines
        assert "user-agent: mine" in lines
        assert not any(line.startswith("User-Agent") for line in lines)


@pytest.mark.parametrize("headers", [{"X-A": "1\r\nX-B: 2"}, {"X A": "1"}, {"X-\u00e4": "1"}])
def test_a_header_that_cannot_be_sent_is_refused(headers):
    settings = ModelSettings(
        name="gpt", folder=Path(), variables={}, options={"base_url": "http://localhost/v1", "headers": headers}
    )
    with pytest.raises(Exception, match="characters that cannot be sent"):
        OpenAIModel(settings)


def secure() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "loopback.pem", TLS / "loopback.key")
    return context


async def test_over_tls(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "loopback.pem"))
    asked = ChatRequest(messages=(Message(role="user", content="long " * 200_000),))
    async with serving(always(sized(STREAM_HEAD, EVENTS)), context=secure()) as (server, model):
        assert (await ask(model)).text == "Stop."
        answer = await ask(model, asked)
        assert (answer.text, answer.attempt.reused_connection) == ("Stop.", True)
        assert answer.attempt.latency_ms is not None
        assert server.connections == 1


async def test_a_certificate_that_nobody_vouches_for_is_refused():
    async with serving(always(sized(STREAM_HEAD, EVENTS)), context=secure()) as (server, model):
        with pytest.raises(ModelError, match=r"cannot connect: .*certificate verify failed") as caught:
            await ask(model)
        assert caught.value.kind == "connect"
        assert server.requests == []


async def test_over_tls_to_one_who_does_not_speak_it():
    async with serving(always(b"")) as (server, _):
        options = {"base_url": f"https://127.0.0.1:{server.port}/v1"}
        model = OpenAIModel(ModelSettings(name="gpt", folder=Path(), variables={}, options=options, timeout_s=5.0))
        with pytest.raises(ModelError):
            await ask(model)
        await model.close()


@pytest.mark.parametrize(
    ("at_once", "rounds", "woken"),
    [(1, 1, [1, 1, 1, 1, 1]), (2, 1, [2, 2, 1]), (2, 3, [2, 0, 0, 2, 0, 0, 1]), (9, 4, [5])],
)
async def test_tasks_whose_answers_arrived_together_are_woken_a_few_at_a_time(at_once, rounds, woken):
    loop = asyncio.get_running_loop()
    queue = WakeQueue(at_once=at_once, rounds=rounds)
    cancelled, *waiting = [loop.create_future() for _ in range(6)]
    cancelled.cancel()
    for future in (cancelled, *waiting):
        queue.wake(future)
    found, before = [], 0
    while before < len(waiting):
        await asyncio.sleep(0)
        done = sum(future.done() for future in waiting)
        found.append(done - before)
        before = done
    assert found == woken
    await asyncio.sleep(0)
    late = loop.create_future()
    queue.wake(late)  # after a pause, and while the rounds of the last ones are not over
    for _ in range(rounds + 2):
        await asyncio.sleep(0)
    assert late.done()
