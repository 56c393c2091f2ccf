"""Responses as bytes with waits between them, whatever the vendor's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from steadyhand.testing.answers import Answer

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class Piece(NamedTuple):
    """Bytes to write, and how long to wait before."""

    delay_s: float
    data: bytes


class Reply(NamedTuple):
    """A whole response. `close` ends the connection afterwards."""

    pieces: list[Piece]
    close: bool


def plain_response(status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}\r\nContent-Type: {content_type}\r\n{extra}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def plain(status: int, body: bytes, content_type: str, answer: Answer) -> Reply:
    """A body in one piece; `cut_after` leaves out the second half of it."""
    whole = plain_response(status, body, content_type, answer.headers)
    if answer.cut_after is not None:
        return Reply([Piece(answer.first_token_s, whole[: len(whole) - max(1, len(body) // 2)])], close=True)
    return Reply([Piece(answer.first_token_s, whole)], close=False)


def event_stream(answer: Answer, *, opening: bytes = b"", deltas: Iterable[bytes], ending: Iterable[bytes]) -> Reply:
    """Events: those of the opening come with the headers, each delta after its wait, the ending at once."""
    chunked = answer.framing == "chunked"
    extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    framing = "Transfer-Encoding: chunked" if chunked else "Connection: close"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{extra}{framing}\r\n\r\n".encode()
    pieces = [Piece(0.0, head)]
    if opening:
        pieces.append(Piece(0.0, _frame(opening, chunked=chunked)))
    for number, delta in enumerate(deltas):
        if answer.cut_after is not None and number >= answer.cut_after:
            return Reply(pieces, close=True)
        wait = answer.first_token_s if number == 0 else answer.piece_s
        pieces.append(Piece(wait, _frame(delta, chunked=chunked)))
    if answer.cut_after is not None:
        return Reply(pieces, close=True)
    pieces.extend(Piece(0.0, _frame(event, chunked=chunked)) for event in ending)
    if chunked:
        pieces.append(Piece(0.0, b"0\r\n\r\n"))
    return Reply(pieces, close=not chunked)


def event(data: bytes, answer: Answer, *, name: str | None = None) -> bytes:
    """One server-sent event, in the shape that the answer wants."""
    newline = answer.newline.encode()
    comment = b": keep-alive" + newline + newline + b"event: message" + newline if answer.comments else b""
    named = b"" if name is None else b"event: " + name.encode() + newline
    return comment + named + (b"data: " if answer.space else b"data:") + data + newline + newline


def _frame(data: bytes, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked else data
