"""A chat model behind HTTP, straight on aiohttp: one attempt, timed at the socket, whatever the vendor's wire.

One attempt is one request, without retries. It streams, so that the first token and every later one have a time. A
server that refuses a part of the request which can be left out is asked once more without it, as a new request with its
own times; the refused one leaves no trace in them, and what was learnt holds for this instance.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import TYPE_CHECKING, Protocol

from holdfast.builtin.models.answer import AnswerReader, ErrorInAnswer, Unreadable, error_code, error_text
from holdfast.builtin.models.cutting import Cut, cut_short
from holdfast.builtin.models.http_errors import Endpoint, status_error
from holdfast.builtin.models.http_settings import HttpSettings
from holdfast.errors import ModelError, ModelErrorKind
from holdfast.records.model import ChatRequest, ChatResponse
from holdfast.records.timing import Attempt

if TYPE_CHECKING:
    import aiohttp

    from holdfast.builtin.models.timed_http import Stamps

_MAX_BODY = 32 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024
_END_WAIT_S = 0.25
_EVENT_STARTS = (b"data:", b"event:", b":", b"id:")


class Wire(Protocol):
    """A vendor's interface, as the server at hand is known to understand it."""

    @property
    def what(self) -> str:
        """What an answer is called in messages, such as "a chat completion"."""
        ...

    @property
    def stream(self) -> bool: ...

    def encode(self, request: ChatRequest) -> bytes:
        """The body to post."""
        ...

    def reader(self, request: ChatRequest) -> AnswerReader: ...

    def without(self, status: int, message: str, request: ChatRequest) -> Wire | None:
        """The wire to try instead after this refusal, or None when the refusal is about something else."""
        ...


class _OtherWire(Exception):
    """The server refused a part of the request that can be left out."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self.wire: Wire = wire


class HttpModel:
    """A `ports.model.ChatModel`. Must be used on one event loop."""

    def __init__(self, name: str, settings: HttpSettings, wire: Wire) -> None:
        # Loaded here and not by the first attempt: 0.1 s of importing would be in the times of every call in flight.
        from holdfast.builtin.models import timed_http

        self._http = timed_http
        self._name = name
        self._settings = settings
        self._endpoint = Endpoint(host=settings.host, key_variable=settings.key_variable, key=settings.key)
        self._wire = wire
        self._session: aiohttp.ClientSession | None = None

    @property
    def name(self) -> str:
        return self._name

    async def attempt(self, request: ChatRequest, *, zero: float) -> ChatResponse:
        """Ask once; see `ports.model.ChatModel.attempt`."""
        limit = self._settings.timeout_s if request.timeout_s is None else request.timeout_s
        wire = self._wire
        stamps = self._http.Stamps()
        streamed = wire.stream
        reader = wire.reader(request)
        complete = False
        try:
            async with asyncio.timeout(limit), Cut(request.cut_after_ms) as cut:
                while True:
                    try:
                        streamed = await self._exchange(request, wire, stamps, reader, cut)
                        complete = True
                        break
                    except _OtherWire as other:
                        wire = other.wire
                        stamps = self._http.Stamps()
                        streamed = wire.stream
                        reader = wire.reader(request)
            self._wire = wire
        except Exception as error:
            failure = self._failure(error, stamps, limit)
            if failure is None:
                raise
            failure.attempt = _attempt(stamps, zero, streamed=streamed, error=str(failure))
            raise failure from error
        response = _response(reader, stamps, zero, streamed=streamed)
        after_ms = request.cut_after_ms
        if after_ms is None or ((complete or reader.done is not None) and _latency_ms(response) <= after_ms):
            return response
        return cut_short(response, after_ms)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        headers = {
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "holdfast",
        }
        headers.update(self._settings.headers)
        self._session = self._http.open_session(headers)
        return self._session

    async def _exchange(self, request: ChatRequest, wire: Wire, stamps: Stamps, reader: AnswerReader, cut: Cut) -> bool:
        """One request and its answer, and whether that was streamed. The connection is closed unless it ended well."""
        session = self._session or self._open()
        if request.cut_after_ms is not None:
            stamps.when_sent = lambda: cut.start(stamps.sent or stamps.started)
        body = wire.encode(request)
        response = await session.post(
            self._settings.url, data=self._http.StampedBody(body, stamps), allow_redirects=False
        )
        stamps.status = response.status
        try:
            if response.status != 200:
                cut.stop()
                await self._refused(response, request, wire)
            if response.content_type == "text/event-stream":
                await self._read_stream(response, reader)
                return True
            return await self._read_whole(response, reader)
        finally:
            response.close()

    async def _refused(self, response: aiohttp.ClientResponse, request: ChatRequest, wire: Wire) -> None:
        body = await _read(response, _MAX_ERROR_BODY)
        message = error_text(body)
        other = wire.without(response.status, message, request)
        if other is not None:
            raise _OtherWire(other)
        raise status_error(self._endpoint, response.status, message, code=error_code(body), headers=response.headers)

    async def _read_stream(self, response: aiohttp.ClientResponse, reader: AnswerReader) -> None:
        content = response.content
        while True:
            try:
                block = await content.readany()
            except asyncio.CancelledError:
                _read_rest(content, reader)
                raise
            if not block:
                break
            if reader.feed(block):
                await _finish(content)
                break
            if content.total_bytes > _MAX_BODY:
                raise Unreadable(f"the stream is longer than {_MAX_BODY} bytes")
        self._require_complete(reader)

    async def _read_whole(self, response: aiohttp.ClientResponse, reader: AnswerReader) -> bool:
        """Read an answer that does not say it is a stream; whether it was one all the same."""
        body = await _read(response, _MAX_BODY)
        streamed = body.lstrip()[:6].startswith(_EVENT_STARTS)
        if streamed:
            reader.feed(body)
            self._require_complete(reader)
        else:
            reader.whole(body)
        if not reader.seen:
            raise Unreadable("it holds no answer")
        return streamed

    def _require_complete(self, reader: AnswerReader) -> None:
        if not reader.ended:
            raise self._error("the stream ended before the answer did", "stream", 200)
        if not reader.seen:
            raise Unreadable("the stream holds no answer")

    def _failure(self, error: Exception, stamps: Stamps, limit: float) -> ModelError | None:
        """The `ModelError` for what was caught, or None for what is not about the call."""
        status = stamps.status
        match error:
            case ModelError():
                return error
            case Unreadable():
                return self._error(f"the answer is not {self._wire.what}: {error}", "malformed", status)
            case ErrorInAnswer():
                text = f"the server reported an error in its answer: {error}"
                return self._error(text, error.kind, status, retryable=error.retryable)
            case TimeoutError():
                return self._error(f"no complete answer within {limit:g} s", "timeout", status)
            case _:
                return self._broken_connection(error, status)

    def _broken_connection(self, error: Exception, status: int | None) -> ModelError | None:
        import ssl

        import aiohttp

        said = str(error) or type(error).__name__
        match error:
            case aiohttp.ClientConnectorError() | aiohttp.ClientSSLError() | ssl.SSLError():
                return self._error(f"cannot connect: {said}", "connect")
            case aiohttp.ClientResponseError():
                return self._error(f"the answer is not HTTP: {error.message}", "malformed")
            case aiohttp.ClientError() | OSError() if status is None:
                return self._error(f"the connection broke before an answer: {said}", "connect")
            case aiohttp.ClientError() | OSError():
                return self._error(f"the connection broke in the middle of the answer: {said}", "stream", status)
            case _:
                return None

    def _error(
        self, text: str, kind: ModelErrorKind, status: int | None = None, *, retryable: bool = True
    ) -> ModelError:
        shown = self._endpoint.shown(text)
        return ModelError(f"{self._endpoint.host}: {shown}", kind=kind, retryable=retryable, status=status)


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body; one that is longer than `limit` is unreadable when it is an answer, and cut when an error."""
    blocks: list[bytes] = []
    size = 0
    while block := await response.content.readany():
        blocks.append(block)
        size += len(block)
        if size > limit:
            if response.status == 200:
                raise Unreadable(f"it is longer than {limit} bytes")
            break
    return b"".join(blocks)


def _read_rest(content: aiohttp.StreamReader, reader: AnswerReader) -> None:
    """What came in before the call was cut off and nobody had the time to read."""
    import aiohttp

    with contextlib.suppress(aiohttp.ClientError, OSError, RuntimeError, Unreadable, ErrorInAnswer):
        reader.feed(content.read_nowait())


def _latency_ms(response: ChatResponse) -> float:
    latency_ms = response.attempt.latency_ms
    return math.inf if latency_ms is None else latency_ms


async def _finish(content: aiohttp.StreamReader) -> None:
    """Read on to the end of the body after the answer's own, so that the connection can be used again.

    The end is usually there already. A server that does not come to it costs the connection, not the answer.
    """
    import aiohttp

    if content.is_eof():
        return
    with contextlib.suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(_END_WAIT_S):
            while await content.readany():
                pass


def _response(reader: AnswerReader, stamps: Stamps, zero: float, *, streamed: bool) -> ChatResponse:
    return ChatResponse(
        text=reader.text,
        attempt=_attempt(stamps, zero, streamed=streamed, reader=reader),
        tool_calls=reader.tool_calls,
        usage=reader.usage,
        chunks=stamps.chunks(reader.pieces),
        finish_reason=reader.finish_reason,
    )


def _attempt(
    stamps: Stamps, zero: float, *, streamed: bool, reader: AnswerReader | None = None, error: str | None = None
) -> Attempt:
    """The stamps as a record. The first token of an answer that came in one piece has no time of its own."""
    first_token = last_byte = None
    if reader is not None:
        last_byte = stamps.last_byte if reader.done is None else stamps.arrival(reader.done)
        if streamed and reader.first_token is not None:
            first_token = stamps.arrival(reader.first_token)

    def after(moment: float | None) -> float | None:
        return None if moment is None else round((moment - zero) * 1000, 3)

    return Attempt(
        started_ms=round((stamps.started - zero) * 1000, 3),
        connected_ms=after(stamps.connected),
        sent_ms=after(stamps.sent),
        first_byte_ms=after(stamps.first_byte),
        first_token_ms=after(first_token),
        last_byte_ms=after(last_byte),
        status=stamps.status,
        reused_connection=stamps.reused,
        streamed=streamed,
        error=error,
    )
