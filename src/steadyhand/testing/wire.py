"""Responses as timed pieces of bytes, for any vendor's API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from steadyhand.records.base import Record
from steadyhand.records.chat import ToolCall, Usage


class Answer(Record):
    """One answer of the server. The defaults are a well-behaved one; each field is one way to differ.

    What it says: `text` (or `pieces`, the same text already cut as it is to be streamed, or `json`, any value to be
    written as JSON), `tool_calls`, `reasoning`, `finish_reason` (in the words of chat completions, and `refusal`),
    `usage` (None leaves it out).

    When: `delay_s` before the headers, `first_token_s` between them and the first piece, `piece_s` between pieces.

    How it fails: a `status` other than 200 with `error` in the vendor's error body (its `error_type` follows
    from the status unless given) and `headers` such as `Retry-After`;
    `body` and `content_type` replace the whole answer; `fault` never answers or resets the connection; `cut_after`
    closes the connection after this many pieces; `stream_error` puts an error object into the stream after the pieces.

    Streaming: `offered`; `refused` with status 400; `ignored`, answering plain JSON; `options_refused`, status 400 for
    `stream_options` only.

    On the wire: `done` writes `[DONE]`; `framing` ends the stream by a last chunk or by closing; `newline`, `space`
    (after `data:`) and `comments` vary the event stream; `write_size` passes the socket this many bytes at a time.
    """

    text: str = ""
    pieces: tuple[str, ...] = ()
    piece_chars: int = 12
    json: Any = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish_reason: str | None = "stop"
    usage: Usage | None = Usage(input_tokens=7, output_tokens=5)

    delay_s: float = 0.0
    first_token_s: float = 0.0
    piece_s: float = 0.0

    status: int = 200
    error: str = "the server was told to fail"
    error_type: str | None = None
    headers: dict[str, str] = {}
    body: bytes | None = None
    content_type: str = "text/html"
    fault: Literal["hang", "reset"] | None = None
    cut_after: int | None = None
    stream_error: str | None = None
    streaming: Literal["offered", "refused", "ignored", "options_refused"] = "offered"

    done: bool = True
    framing: Literal["chunked", "close"] = "chunked"
    newline: Literal["\n", "\r\n"] = "\n"
    space: bool = True
    comments: bool = False
    write_size: int | None = None

    def text_pieces(self) -> tuple[str, ...]:
        """The text in the pieces in which it is streamed."""
        if self.pieces:
            return self.pieces
        text = self.whole_text()
        return tuple(text[at : at + self.piece_chars] for at in range(0, len(text), self.piece_chars))

    def whole_text(self) -> str:
        if self.json is not None:
            return msgspec.json.encode(self.json).decode()
        return "".join(self.pieces) or self.text


class Times(Record):
    """The times of a request on the server, in seconds of `time.perf_counter()`.

    That clock is the machine's monotonic one, so times of two processes can be compared. `first_write` and `last_write`
    are read just before the bytes go to the kernel: no client can have them earlier. `drained` is when the transport's
    buffer was empty.
    """

    received: float
    first_write: float | None = None
    last_write: float | None = None
    drained: float | None = None


class Served(Record):
    """One request and how it was answered. `prompt` is the content of its last message."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    prompt: str = ""
    times: Times


Behaviour = Answer | Sequence[Answer] | Callable[[Served], Answer]
"""One answer for all requests, one per request (the last repeats), or a function of the request."""


def answer_for(behaviour: Behaviour, request: Served) -> Answer:
    if isinstance(behaviour, Answer):
        return behaviour
    if callable(behaviour):
        return behaviour(request)
    return behaviour[min(request.number, len(behaviour)) - 1]


_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class Piece(NamedTuple):
    """Bytes to write, and how long to wait first."""

    delay_s: float
    data: bytes


class WireReply(NamedTuple):
    """A whole response. `close` ends the connection afterwards."""

    pieces: list[Piece]
    close: bool


def plain_response(status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}\r\nContent-Type: {content_type}\r\n{extra}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def plain(status: int, body: bytes, content_type: str, answer: Answer) -> WireReply:
    """A body in one piece; `cut_after` drops its second half."""
    whole = plain_response(status, body, content_type, answer.headers)
    if answer.cut_after is not None:
        return WireReply([Piece(answer.first_token_s, whole[: len(whole) - max(1, len(body) // 2)])], close=True)
    return WireReply([Piece(answer.first_token_s, whole)], close=False)


def event_stream(
    answer: Answer, *, opening: bytes = b"", deltas: Iterable[bytes], ending: Iterable[bytes]
) -> WireReply:
    """An event stream: the opening is sent with the headers, each delta after its wait, the ending at once."""
    chunked = answer.framing == "chunked"
    extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    framing = "Transfer-Encoding: chunked" if chunked else "Connection: close"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{extra}{framing}\r\n\r\n".encode()
    pieces = [Piece(0.0, head)]
    if opening:
        pieces.append(Piece(0.0, _frame(opening, chunked=chunked)))
    for number, delta in enumerate(deltas):
        if answer.cut_after is not None and number >= answer.cut_after:
            return WireReply(pieces, close=True)
        wait = answer.first_token_s if number == 0 else answer.piece_s
        pieces.append(Piece(wait, _frame(delta, chunked=chunked)))
    if answer.cut_after is not None:
        return WireReply(pieces, close=True)
    pieces.extend(Piece(0.0, _frame(event, chunked=chunked)) for event in ending)
    if chunked:
        pieces.append(Piece(0.0, b"0\r\n\r\n"))
    return WireReply(pieces, close=not chunked)


def event(data: bytes, answer: Answer, *, name: str | None = None) -> bytes:
    """One server-sent event, formatted as the answer specifies."""
    newline = answer.newline.encode()
    comment = b": keep-alive" + newline + newline + b"event: message" + newline if answer.comments else b""
    named = b"" if name is None else b"event: " + name.encode() + newline
    return comment + named + (b"data: " if answer.space else b"data:") + data + newline + newline


def _frame(data: bytes, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked else data
