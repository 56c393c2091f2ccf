"""One connection of the gateway's server: reads requests, and answers them completely or chunk by chunk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, cast

import httptools
import msgspec

LARGEST_BODY = 64 * 1024 * 1024
_MOST_WAITING = 8
_NO_HEADERS: dict[str, str] = {}


class GatewayRequest(msgspec.Struct, frozen=True, gc=False):
    """`path` is what follows the mount's name, without a slash in front. Header names are lower case.

    A mount may answer on the `connection` itself, chunk by chunk, and is notified there if the client disconnects.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    connection: GatewayConnection | None = None


class GatewayResponse(msgspec.Struct, frozen=True):
    """A `stream` is sent chunk by chunk, instead of `body`. `sent` means that the mount has already answered."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = _NO_HEADERS
    stream: AsyncIterator[bytes] | None = None
    sent: bool = False


def json_response(value: Any, status: int = 200) -> GatewayResponse:
    return GatewayResponse(status=status, body=msgspec.json.encode(value))


def refusal(status: int, message: str) -> GatewayResponse:
    """An error in a format that both vendors' clients understand."""
    kind = _phrase(status).lower().replace(" ", "_")
    return json_response({"type": "error", "error": {"type": kind, "code": status, "message": message}}, status)


class GatewayCall:
    """A request that is being read."""

    __slots__ = ("body", "headers", "keep_alive", "method", "target")

    def __init__(self) -> None:
        self.method: str = ""
        self.target: str = ""
        self.headers: dict[str, str] = {}
        self.body: bytearray = bytearray()
        self.keep_alive: bool = True


class GatewayConnection(asyncio.Protocol):
    """One connection: requests are handled in sequence, each answered before the next one starts."""

    def __init__(
        self,
        answer: Callable[[GatewayCall, GatewayConnection], Awaitable[None]],
        gone: Callable[[GatewayConnection], None],
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self.when_gone: Callable[[], object] | None = None
        """Called when the client disconnects."""
        self.admitted: tuple[object, object] = (None, None)
        """For which trial and process it is known that the latter, or what it started, is at the other end."""
        self.opened: float = time.monotonic()
        self._begun: bool = False
        self._answer = answer
        self._gone = gone
        self._transport: asyncio.Transport | None = None
        self._writable: asyncio.Event = asyncio.Event()
        self._writable.set()
        self._call: GatewayCall = GatewayCall()
        self._waiting: deque[GatewayCall] = deque()
        self._parser: Any = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.refuse(refusal(400, "this server does not switch protocols"))
        except httptools.HttpParserError as error:
            self.refuse(refusal(400, f"this is not HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        self._waiting.clear()
        if self.when_gone is not None:
            self.when_gone()
        if self.task is None:
            self._gone(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]] | None:
        """The address of the client and our own; None if it has disconnected."""
        if self._transport is None:
            return None
        peer, ours = self._transport.get_extra_info("peername"), self._transport.get_extra_info("sockname")
        return (peer[:2], ours[:2]) if peer and ours else None

    @property
    def gone(self) -> bool:
        """Whether the client has disconnected."""
        return self._transport is None or self._transport.is_closing()

    @property
    def full(self) -> bool:
        """Whether the client reads more slowly than it is written to."""
        return not self._writable.is_set()

    async def ready(self) -> None:
        await self._writable.wait()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle(self) -> None:
        """At once, so that a client that uses it again notices before it sends."""
        if self._transport is None or self.task is not None:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno())) as held,
        ):
            held.shutdown(socket.SHUT_RDWR)
        self._transport.close()

    def refuse(self, response: GatewayResponse) -> None:
        """Answer, and close the connection."""
        self._write(_head(response, close=True) + response.body)
        if self._transport is not None:
            self._transport.close()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._call = GatewayCall()

    def on_url(self, url: bytes) -> None:
        self._call.target += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._call.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._call.headers.get("expect", "").lower() == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._call.body += body
        if len(self._call.body) > LARGEST_BODY:
            self.refuse(refusal(413, f"the request is longer than {LARGEST_BODY} bytes"))

    def on_message_complete(self) -> None:
        call = self._call
        call.method = self._parser.get_method().decode("ascii")
        call.keep_alive = self._parser.should_keep_alive()
        self._waiting.append(call)
        if self.task is None:
            self._next()
        elif len(self._waiting) >= _MOST_WAITING and self._transport is not None:
            self._transport.pause_reading()

    def _next(self) -> None:
        if not self._waiting or self._transport is None:
            return
        call = self._waiting.popleft()
        self._begun = False
        if not self._transport.is_reading():
            self._transport.resume_reading()
        self.task = asyncio.get_running_loop().create_task(self._serve(call))
        self.task.add_done_callback(self._served)

    async def _serve(self, call: GatewayCall) -> None:
        await self._answer(call, self)
        if not call.keep_alive and self._transport is not None:
            self._transport.close()

    def _served(self, task: asyncio.Task[None]) -> None:
        self.task = None
        if self._transport is None:
            self._gone(self)
        elif task.cancelled() or task.exception() is not None:
            self._transport.abort()  # part of an answer may already have been sent
        else:
            self._next()

    async def send(self, response: GatewayResponse) -> None:
        """Write the response. If the client has disconnected, a stream is still consumed."""
        if response.sent:
            return
        if self._begun:  # it would end up in the middle of another
            self.abort()
        elif response.stream is None:
            self._write(_head(response) + response.body)
        else:
            self.begin(response)
            async for piece in response.stream:
                if piece:
                    self.write(piece)
                    await self._writable.wait()
            self.end()

    def begin(self, response: GatewayResponse, first: bytes = b"") -> None:
        """Write the head of an answer whose body follows piece by piece, and its first piece."""
        self._begun = True
        self._write(_head(response, chunked=True) + (_chunk(first) if first else b""))

    def write(self, piece: bytes) -> None:
        self._write(_chunk(piece))

    def end(self) -> None:
        self._write(b"0\r\n\r\n")

    def break_off(self) -> None:
        """Close the connection in the middle of the answer, after sending what was written."""
        if self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _head(response: GatewayResponse, *, close: bool = False, chunked: bool = False) -> bytes:
    lines = [f"HTTP/1.1 {response.status} {_phrase(response.status)}"]
    if (response.body or chunked) and "content-type" not in response.headers:
        lines.append(f"Content-Type: {response.content_type}")
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    if chunked:
        lines.append("Transfer-Encoding: chunked")
    elif response.status != HTTPStatus.NO_CONTENT:
        lines.append(f"Content-Length: {len(response.body)}")
    if close:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _phrase(status: int) -> str:
    """Some providers use non-standard codes, such as 529."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Other"
