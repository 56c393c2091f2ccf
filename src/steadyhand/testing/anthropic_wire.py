"""Anthropic's Messages API, for the model server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from steadyhand.testing.wire import Answer, WireReply, event, event_stream, plain

_encode = msgspec.json.Encoder().encode
_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def reply_to(body: Mapping[str, Any], answer: Answer) -> WireReply:
    """The response that delivers `answer` to a request with this body."""
    if answer.body is not None:
        return plain(answer.status, answer.body, answer.content_type, answer)
    if answer.status != 200:
        kind = answer.error_type or _TYPES.get(answer.status, "api_error")
        return plain(answer.status, _encode(_error(kind, answer.error)), "application/json", answer)
    if body.get("stream") and answer.streaming == "refused":
        refusal = _error("invalid_request_error", "stream: streaming is not supported")
        return plain(400, _encode(refusal), "application/json", answer)
    if body.get("stream") and answer.streaming != "ignored":
        opening = _event(_message_start(body, answer), answer) + _event({"type": "ping"}, answer)
        return event_stream(answer, opening=opening, deltas=_deltas(answer), ending=_ending(answer))
    content: list[dict[str, Any]] = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": "c2lnbmVk"})
    if text := answer.whole_text():
        content.append({"type": "text", "text": text})
    content.extend(
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in answer.tool_calls
    )
    message = _message(body, content, _usage(answer))
    message["stop_reason"] = _reason(answer)
    return plain(200, _encode(message), "application/json", answer)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}


def _message(body: Mapping[str, Any], content: list[dict[str, Any]], usage: dict[str, int] | None) -> dict[str, Any]:
    message: dict[str, Any] = {
        "id": "msg_013Zva2CMHLNnXjNJJKqJ2EF",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": None,
        "stop_sequence": None,
    }
    if usage is not None:
        message["usage"] = usage
    return message


def _message_start(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """The number of output tokens is preliminary here; the total comes at the end."""
    usage = _usage(answer)
    return {
        "type": "message_start",
        "message": _message(body, [], None if usage is None else {**usage, "output_tokens": 1}),
    }


def _usage(answer: Answer) -> dict[str, int] | None:
    if answer.usage is None:
        return None
    return {"input_tokens": answer.usage.input_tokens, "output_tokens": answer.usage.output_tokens}


def _reason(answer: Answer) -> str | None:
    return None if answer.finish_reason is None else _REASONS.get(answer.finish_reason, answer.finish_reason)


def _deltas(answer: Answer) -> Iterator[bytes]:
    """The content, block by block. The start of a block is sent with its first delta, its end with the last."""
    for index, (block, pieces) in enumerate(_blocks(answer)):
        start = _event({"type": "content_block_start", "index": index, "content_block": block}, answer)
        stop = _event({"type": "content_block_stop", "index": index}, answer)
        for number, piece in enumerate(pieces):
            delta = _event({"type": "content_block_delta", "index": index, "delta": piece}, answer)
            yield (start if number == 0 else b"") + delta + (stop if number == len(pieces) - 1 else b"")


def _blocks(answer: Answer) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if answer.reasoning:
        yield (
            {"type": "thinking", "thinking": ""},
            [
                {"type": "thinking_delta", "thinking": answer.reasoning},
                {"type": "signature_delta", "signature": "c2lnbmVk"},
            ],
        )
    if texts := answer.text_pieces():
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in texts]
    for call in answer.tool_calls:
        pieces = ["", *_cut(call.arguments_text, answer.piece_chars)]
        yield (
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in pieces],
        )


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _ending(answer: Answer) -> Iterator[bytes]:
    if answer.stream_error is not None:
        kind = answer.error_type or "overloaded_error"
        yield _event({"type": "error", "error": {"type": kind, "message": answer.stream_error}}, answer)
        return
    delta: dict[str, Any] = {
        "type": "message_delta",
        "delta": {"stop_reason": _reason(answer), "stop_sequence": None},
    }
    if answer.usage is not None:
        delta["usage"] = {"output_tokens": answer.usage.output_tokens}
    yield _event(delta, answer)
    if answer.done:
        yield _event({"type": "message_stop"}, answer)


def _event(value: dict[str, Any], answer: Answer) -> bytes:
    return event(_encode(value), answer, name=str(value["type"]))
