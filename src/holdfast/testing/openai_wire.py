"""OpenAI's chat completions as bytes, for the model server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from holdfast.records.message import ToolCall
from holdfast.testing.answers import Answer

_encode = msgspec.json.Encoder().encode
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


class Piece(NamedTuple):
    """Bytes to write, and how long to wait before."""

    delay_s: float
    data: bytes


class Reply(NamedTuple):
    """A whole response. `close` ends the connection afterwards."""

    pieces: list[Piece]
    close: bool


def reply_to(body: Mapping[str, Any], answer: Answer) -> Reply:
    """What to write for `answer`, given the request's body."""
    if answer.body is not None:
        return _plain(answer.status, answer.body, answer.content_type, answer)
    if answer.status != 200:
        return _error(answer.status, answer.error, answer)
    if body.get("stream") and answer.streaming == "refused":
        return _error(400, "stream not supported by this server", answer)
    if "stream_options" in body and answer.streaming == "options_refused":
        return _error(400, "unknown field: stream_options", answer)
    if body.get("stream") and answer.streaming != "ignored":
        return _stream(body, answer)
    return _plain(200, _completion(body, answer), "application/json", answer)


def error_body(status: int, message: str) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": None}})


def plain_response(status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None) -> bytes:
    extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Other')}\r\nContent-Type: {content_type}\r\n{extra}"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def _error(status: int, message: str, answer: Answer) -> Reply:
    return _plain(status, error_body(status, message), "application/json", answer)


def _plain(status: int, body: bytes, content_type: str, answer: Answer) -> Reply:
    whole = plain_response(status, body, content_type, answer.headers)
    if answer.cut_after is not None:
        return Reply([Piece(answer.first_token_s, whole[: len(whole) - max(1, len(body) // 2)])], close=True)
    return Reply([Piece(answer.first_token_s, whole)], close=False)


def _completion(body: Mapping[str, Any], answer: Answer) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": answer.whole_text() or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in answer.tool_calls]
    whole: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
    }
    if answer.usage is not None:
        whole["usage"] = _usage(answer)
    return _encode(whole)


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call)}}


def _arguments(call: ToolCall) -> str:
    return call.raw if call.raw is not None else _encode(call.arguments).decode()


def _usage(answer: Answer) -> dict[str, int]:
    assert answer.usage is not None
    total = answer.usage.input_tokens + answer.usage.output_tokens
    return {
        "prompt_tokens": answer.usage.input_tokens,
        "completion_tokens": answer.usage.output_tokens,
        "total_tokens": total,
    }


def _stream(body: Mapping[str, Any], answer: Answer) -> Reply:
    chunked = answer.framing == "chunked"
    extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
    framing = "Transfer-Encoding: chunked" if chunked else "Connection: close"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{extra}{framing}\r\n\r\n".encode()
    pieces = [Piece(0.0, head)]
    deltas = list(_deltas(answer))
    for number, delta in enumerate(deltas):
        if answer.cut_after is not None and number >= answer.cut_after:
            return Reply(pieces, close=True)
        wait = answer.first_token_s if number == 0 else answer.piece_s
        pieces.append(Piece(wait, _frame(_event(_chunk(body, delta, None), answer), chunked=chunked)))
    if answer.cut_after is not None:
        return Reply(pieces, close=True)
    pieces.extend(Piece(0.0, _frame(event, chunked=chunked)) for event in _ending(body, answer))
    if chunked:
        pieces.append(Piece(0.0, b"0\r\n\r\n"))
    return Reply(pieces, close=not chunked)


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.reasoning:
        yield {"reasoning_content": answer.reasoning}
    for piece in answer.text_pieces():
        yield {"content": piece}
    for index, call in enumerate(answer.tool_calls):
        yield {
            "tool_calls": [
                {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            ]
        }
        text = _arguments(call)
        for at in range(0, len(text), answer.piece_chars):
            yield {"tool_calls": [{"index": index, "function": {"arguments": text[at : at + answer.piece_chars]}}]}


def _ending(body: Mapping[str, Any], answer: Answer) -> Iterator[bytes]:
    if answer.stream_error is not None:
        yield _event({"error": {"message": answer.stream_error, "type": "server_error"}}, answer)
        return
    if answer.finish_reason is not None:
        yield _event(_chunk(body, {}, answer.finish_reason), answer)
    options = cast("Mapping[str, Any] | None", body.get("stream_options"))
    if options and options.get("include_usage") and answer.usage is not None:
        yield _event({**_chunk(body, {}, None), "choices": [], "usage": _usage(answer)}, answer)
    if answer.done:
        yield _event(None, answer)


def _chunk(body: Mapping[str, Any], delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": body.get("model"),
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _event(value: dict[str, Any] | None, answer: Answer) -> bytes:
    newline = answer.newline.encode()
    comment = b": keep-alive" + newline + newline + b"event: message" + newline if answer.comments else b""
    data = b"[DONE]" if value is None else _encode(value)
    return comment + (b"data: " if answer.space else b"data:") + data + newline + newline


def _frame(data: bytes, *, chunked: bool) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if chunked else data
