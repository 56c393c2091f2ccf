"""A chat model over HTTP: one attempt, timed at the socket, for any vendor's API.

One attempt is one request, without retries. It streams, so that every token has an arrival time. If the server refuses
an optional part of the request, a new request without that part is sent and timed by itself; the refused one does not
count, and this instance remembers the refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from types import CoroutineType
from typing import Any

import msgspec

from steadyhand.errors import ModelError, ModelErrorKind
from steadyhand.http.client import CannotConnect, HttpClient
from steadyhand.http.connection import Broken, Connection, NotHttp, Response
from steadyhand.http.endpoint import Endpoint, status_error
from steadyhand.http.stamps import Stamps
from steadyhand.ports.model import Cut, Listener, cut_short, end_to_end
from steadyhand.records.base import ms_of
from steadyhand.records.chat import (
    ArrivalClock,
    Attempt,
    ChatRequest,
    ChatResponse,
    FinishReason,
    ServerAnswer,
)
from steadyhand.redaction import maskable
from steadyhand.wire.dialect import Wire, client_body
from steadyhand.wire.stream import AnswerReader, ErrorInAnswer, UnreadableResponse, error_code, error_text

_MAX_BODY = 32 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024
_END_WAIT_S = 0.25
_NOT_PASSED_ON = ("set-cookie", "alt-svc")
_EVENT_STARTS = (b"data:", b"event:", b":", b"id:")
_HEADERS = {
    "Accept": "text/event-stream, application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "steadyhand",
}


class _OtherWire(Exception):
    """The server refused an optional part of the request."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire: Wire = wire


class _Attempting:
    """One request: its wire, its times, and what has been read of its answer."""

    __slots__ = (
        "complete",
        "headers",
        "held_up",
        "kept",
        "listener",
        "reader",
        "request",
        "stamps",
        "streamed",
        "wire",
    )

    def __init__(self, wire: Wire, request: ChatRequest, listener: Listener | None) -> None:
        self.wire: Wire = wire
        self.request: ChatRequest = request
        self.listener: Listener | None = listener
        self.headers: dict[str, str] = {}
        self.held_up: bool = False
        """The server had to wait for the agent's client."""
        self.reader: AnswerReader = wire.reader(request)
        self.streamed: bool = wire.stream
        self.complete: bool = False
        self.stamps: Stamps = Stamps()
        relayed = request.client is not None and client_body(request, wire.dialect) is not None
        self.kept: list[bytes] | None = [] if relayed else None
        """The answer as it arrives, for an agent's client that speaks this wire."""


class HttpModel:
    """A `ports.model.ChatModel`. Must be used on one event loop."""

    def __init__(self, name: str, endpoint: Endpoint, wire: Wire) -> None:
        self.name: str = name
        self._endpoint = endpoint
        self._wire = wire
        self._client = HttpClient(endpoint.url, {**_HEADERS, **endpoint.defaults, **endpoint.headers})
        self._fixed = frozenset(name.lower() for name in endpoint.headers)

    def attempt(self, request: ChatRequest, *, zero: float) -> CoroutineType[Any, Any, ChatResponse]:
        """Ask once; see `ports.model.ChatModel.attempt`."""
        return self._attempt(request, zero, None)

    def relay(self, request: ChatRequest, listener: Listener, *, zero: float) -> CoroutineType[Any, Any, ChatResponse]:
        """Ask once and relay the answer to the listener; see `ports.model.RelayingModel.relay`."""
        return self._attempt(request, zero, listener)

    async def _attempt(self, request: ChatRequest, zero: float, listener: Listener | None) -> ChatResponse:
        limit = self._endpoint.timeout_s if request.timeout_s is None else request.timeout_s
        deadline = asyncio.get_running_loop().time() + limit
        made = _Attempting(self._wire, request, listener)
        try:
            while True:
                try:
                    if request.cut_after_ms is None:
                        await self._exchange(made, deadline, None)
                    else:
                        await self._exchange_until(request.cut_after_ms, made, deadline)
                    break
                except _OtherWire as other:
                    made = _Attempting(other.wire, request, listener)
            self._wire = made.wire
        except asyncio.CancelledError:
            if listener is None or not listener.gone:
                raise
            return _hung_up(made, zero, proxied=self._client.proxy is not None)
        except Exception as error:
            failure = self._failure(error, made.stamps.status, limit)
            if failure is None:
                raise
            failure.attempt = _attempt(made, zero, error=str(failure), proxied=self._client.proxy is not None)
            raise failure from error
        response = _response(made, zero, proxied=self._client.proxy is not None)
        after_ms = request.cut_after_ms
        if after_ms is None:
            return response
        whole = made.complete or made.reader.done is not None
        return response if whole and _latency_ms(response) <= after_ms else cut_short(response, after_ms)

    async def close(self) -> None:
        await self._client.close()

    async def _exchange_until(self, after_ms: float, made: _Attempting, deadline: float) -> None:
        async with Cut(after_ms) as cut:
            made.stamps.when_sent = lambda: cut.start(made.stamps.begun)
            await self._exchange(made, deadline, cut)

    async def _exchange(self, made: _Attempting, deadline: float, cut: Cut | None) -> None:
        """One request and its answer. The connection is closed unless it ended well."""
        request = made.request
        headers = {**self._clients_headers(made), **request.headers} if request.client is not None else request.headers
        connection, response = await self._client.post(
            made.wire.encode(request), made.stamps, deadline=deadline, headers=headers
        )
        try:
            if made.kept is not None:
                made.headers = self._passed_on(response)
            if response.status is None or not 200 <= response.status < 300:
                if cut is not None:
                    cut.stop()
                await self._refused(response, made)
            elif response.streamed:
                made.streamed = True
                if made.listener is None:
                    await self._read_stream(response, made)
                else:
                    await self._relay_stream(connection, response, made, made.listener, deadline)
            else:
                await self._read_whole(response, made)
        except BaseException:
            connection.close()
            raise
        made.complete = True
        if not response.complete:
            await response.end(_END_WAIT_S)
        connection.release()

    async def _refused(self, response: Response, made: _Attempting) -> None:
        status = response.status or 0
        body = await response.body(limit=_MAX_ERROR_BODY)
        message = error_text(body)
        other = made.wire.without(status, message, made.request)
        # What an agent's client insists on cannot be left out.
        if other is not None and (made.kept is None or other.encode(made.request) != made.wire.encode(made.request)):
            raise _OtherWire(other)
        error = status_error(self._endpoint, status, message, code=error_code(body), headers=response.headers)
        if made.kept is not None:
            shown = self._masked(body).decode("utf-8", "replace")
            error.answer = ServerAnswer(status=status, headers=made.headers, body=shown)
        raise error

    def _clients_headers(self, made: _Attempting) -> dict[str, str]:
        """The headers of an agent's client that speaks this wire, without those that the user's settings fix."""
        client = made.request.client
        if client is None or made.kept is None:
            return {}
        return {name: value for name, value in client.headers.items() if name not in self._fixed}

    def _passed_on(self, response: Response) -> dict[str, str]:
        given = response.headers
        passed = end_to_end(given, without=_NOT_PASSED_ON)
        if "content-type" in given:
            passed["content-type"] = given["content-type"]
        return {name: self._masked(value.encode("latin-1")).decode("latin-1") for name, value in passed.items()}

    def _masked(self, data: bytes) -> bytes:
        """What an error or a header says, without the key: that is the user's, and the agent only has a placeholder.
        Answers are passed on as they are: what looks like the key there is the model's own text."""
        key = self._endpoint.key.encode()
        return data.replace(key, b"***") if key in data and maskable(self._endpoint.key) else data

    async def _relay_stream(
        self, connection: Connection, response: Response, made: _Attempting, listener: Listener, deadline: float
    ) -> None:
        """Read the answer as it arrives and pass it on: unchanged, or as text to a client of another dialect."""
        reader, heard = made.reader, 0
        try:
            while True:
                block = await response.arrival()
                if made.kept is not None and block:
                    made.kept.append(block)
                    listener.pass_on(block, made.headers)
                ended = reader.feed(block)
                if made.kept is None:
                    for text in reader.texts[heard:]:
                        listener.say(text)
                    heard = len(reader.texts)
                if ended or response.complete:
                    break
                if response.received > _MAX_BODY:
                    raise UnreadableResponse(f"the stream is longer than {_MAX_BODY} bytes")
                if listener.full:
                    await self._wait_for(listener, connection, made, deadline)
        except asyncio.CancelledError:
            with contextlib.suppress(UnreadableResponse, ErrorInAnswer):
                reader.feed(response.take())
            raise
        except ErrorInAnswer:
            await self._pass_rest(response, made, listener)
            raise
        await self._pass_rest(response, made, listener)
        self._require_complete(reader)

    async def _pass_rest(self, response: Response, made: _Attempting, listener: Listener) -> None:
        """The answer has ended, or failed; pass on whatever still arrives, if it arrives soon."""
        if not response.complete:
            await response.end(_END_WAIT_S)
        if made.kept is not None and (rest := response.take()):
            made.kept.append(rest)
            listener.pass_on(rest, made.headers)
        if response.complete:
            listener.end()

    async def _wait_for(self, listener: Listener, connection: Connection, made: _Attempting, deadline: float) -> None:
        """Make the server wait until the client has read what was passed on."""
        made.held_up = True
        connection.pause()
        try:
            async with asyncio.timeout_at(deadline):
                await listener.ready()
        finally:
            connection.resume()

    async def _read_stream(self, response: Response, made: _Attempting) -> None:
        """Read the answer once it is complete; its times were taken on arrival."""
        reader = made.reader
        try:
            while True:
                block = await response.body(reader.ends, limit=_MAX_BODY)
                if made.kept is not None:
                    made.kept.append(block)
                if reader.feed(block) or response.complete:
                    break
                if response.received > _MAX_BODY:
                    raise UnreadableResponse(f"the stream is longer than {_MAX_BODY} bytes")
        except asyncio.CancelledError:
            with contextlib.suppress(UnreadableResponse, ErrorInAnswer):
                reader.feed(response.take())
            raise
        except Broken:
            # An error that the server reported before that is more informative.
            reader.feed(response.take())
            raise
        self._require_complete(reader)

    async def _read_whole(self, response: Response, made: _Attempting) -> None:
        """Read an answer that is not declared as a stream, but may be one."""
        body = await response.body(limit=_MAX_BODY)
        if response.received > _MAX_BODY:
            raise UnreadableResponse(f"it is longer than {_MAX_BODY} bytes")
        if made.kept is not None:
            made.kept.append(body)
        reader = made.reader
        streamed = body.lstrip()[:6].startswith(_EVENT_STARTS)
        if streamed:
            reader.feed(body)
            self._require_complete(reader)
        else:
            reader.whole(body)
        if not reader.seen:
            raise UnreadableResponse("it has no answer")
        made.streamed = streamed

    def _require_complete(self, reader: AnswerReader) -> None:
        if not reader.ended:
            raise self._error("the stream ended before the answer did", "stream", 200)
        if not reader.seen:
            raise UnreadableResponse("the stream has no answer")

    def _failure(self, error: Exception, status: int | None, limit: float) -> ModelError | None:
        """The `ModelError` for an exception, or None if it is not about the call."""
        match error:
            case ModelError():
                return error
            case UnreadableResponse():
                return self._error(f"the answer is not {self._wire.what}: {error}", "malformed", status)
            case ErrorInAnswer():
                text = f"the server reported an error in its answer: {error}"
                return self._error(text, error.kind, status, retryable=error.retryable)
            case TimeoutError():
                return self._error(f"no complete answer within {limit:g} s", "timeout", status)
            case _:
                return self._broken_connection(error, status)

    def _broken_connection(self, error: Exception, status: int | None) -> ModelError | None:
        match error:
            case CannotConnect():
                return self._error(f"cannot connect: {error}", "connect")
            case NotHttp():
                return self._error(f"the answer is not HTTP: {error}", "malformed", status)
            case Broken() if status is None:
                return self._error(f"the connection broke before an answer: {error}", "connect")
            case Broken():
                return self._error(f"the connection broke in the middle of the answer: {error}", "stream", status)
            case _:
                return None

    def _error(
        self, text: str, kind: ModelErrorKind, status: int | None = None, *, retryable: bool = True
    ) -> ModelError:
        shown = self._endpoint.shown(text)
        return ModelError(f"{self._endpoint.host}: {shown}", kind=kind, retryable=retryable, status=status)


def _latency_ms(response: ChatResponse) -> float:
    latency_ms = response.attempt.latency_ms
    return math.inf if latency_ms is None else latency_ms


def _response(made: _Attempting, zero: float, *, proxied: bool) -> ChatResponse:
    reader = made.reader
    return ChatResponse(
        text=reader.text,
        attempt=_attempt(made, zero, proxied=proxied),
        tool_calls=reader.tool_calls,
        usage=reader.usage,
        chunks=made.stamps.chunks(reader.pieces),
        finish_reason=reader.finish(streamed=made.streamed),
        finish_raw=reader.finish_reason,
        token_limit=made.wire.token_limit(made.request),
        timing_includes="waiting for the agent to read" if made.held_up else None,
        body=None if made.kept is None else b"".join(made.kept).decode("utf-8", "replace"),
        headers=made.headers,
        arrivals=made.stamps.arrivals if made.listener is not None and made.kept else (),
    )


def _hung_up(made: _Attempting, zero: float, *, proxied: bool) -> ChatResponse:
    """What had arrived when the agent hung up. How long the whole answer would have taken is unknown."""
    heard = _response(made, zero, proxied=proxied)
    attempt = msgspec.structs.replace(heard.attempt, last_byte_ms=None)
    reason = FinishReason.HUNG_UP
    return msgspec.structs.replace(heard, attempt=attempt, tool_calls=(), finish_reason=reason, finish_raw=None)


def _attempt(made: _Attempting, zero: float, *, proxied: bool, error: str | None = None) -> Attempt:
    """The stamps as a record. If an answer arrived in one piece, its first token has no time of its own."""
    stamps, reader = made.stamps, made.reader
    first_token = last_byte = None
    shared = False
    if error is None:
        last_byte = stamps.last_byte
        if reader.done is not None:
            last_byte, shared = stamps.arrival(reader.done), stamps.shared(reader.done)
        if made.streamed and reader.first_token is not None:
            first_token = stamps.arrival(reader.first_token)

    times, connected, sent = stamps.times, stamps.connected, stamps.sent
    return Attempt(
        started_ms=ms_of(stamps.started - zero),
        connected_ms=None if connected is None else ms_of(connected - zero),
        sent_ms=None if sent is None else ms_of(sent - zero),
        first_byte_ms=ms_of(times[0] - zero) if times else None,
        first_token_ms=None if first_token is None else ms_of(first_token - zero),
        last_byte_ms=None if last_byte is None else ms_of(last_byte - zero),
        status=stamps.status,
        reused_connection=stamps.reused,
        streamed=made.streamed,
        error=error,
        proxied=proxied,
        clock=stamps.clock or ArrivalClock.OWN,
        last_byte_shared=shared,
    )
