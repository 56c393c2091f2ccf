"""OpenAI's Chat Completions API, for the model server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from steadyhand.testing.wire import Answer, WireReply, event, event_stream, plain

_encode = msgspec.json.Encoder().encode


def reply_to(body: Mapping[str, Any], answer: Answer) -> WireReply:
    """The response that delivers `answer` to a request with this body."""
    if answer.body is not None:
        return plain(answer.status, answer.body, answer.content_type, answer)
    if answer.status != 200:
        return _error(answer.status, answer.error, answer)
    if body.get("stream") and answer.streaming == "refused":
        return _error(400, "stream not supported by this server", answer)
    if "stream_options" in body and answer.streaming == "options_refused":
        return _error(400, "unknown field: stream_options", answer)
    if body.get("stream") and answer.streaming != "ignored":
        deltas = (_event(_chunk(body, delta, None), answer) for delta in _deltas(answer))
        return event_stream(answer, deltas=deltas, ending=_ending(body, answer))
    return plain(200, _completion(body, answer), "application/json", answer)


def error_body(status: int, message: str) -> bytes:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return _encode({"error": {"message": message, "type": kind, "param": None, "code": None}})


def _error(status: int, message: str, answer: Answer) -> WireReply:
    return plain(status, error_body(status, message), "application/json", answer)


def _completion(body: Mapping[str, Any], answer: Answer) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None, _spoken(answer): answer.whole_text() or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}
            for call in answer.tool_calls
        ]
    whole: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": _reason(answer)}],
    }
    if answer.usage is not None:
        whole["usage"] = _usage(answer)
    return _encode(whole)


def _spoken(answer: Answer) -> str:
    """The field for the text: a refusal has its own, and its finish reason is a plain stop."""
    return "refusal" if answer.finish_reason == "refusal" else "content"


def _reason(answer: Answer) -> str | None:
    return "stop" if answer.finish_reason == "refusal" else answer.finish_reason


def _usage(answer: Answer) -> dict[str, int]:
    assert answer.usage is not None
    total = answer.usage.input_tokens + answer.usage.output_tokens
    return {
        "prompt_tokens": answer.usage.input_tokens,
        "completion_tokens": answer.usage.output_tokens,
        "total_tokens": total,
    }


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.reasoning:
        yield {"reasoning_content": answer.reasoning}
    for piece in answer.text_pieces():
        yield {_spoken(answer): piece}
    for index, call in enumerate(answer.tool_calls):
        yield {
            "tool_calls": [
                {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
            ]
        }
        text = call.arguments_text
        for at in range(0, len(text), answer.piece_chars):
            yield {"tool_calls": [{"index": index, "function": {"arguments": text[at : at + answer.piece_chars]}}]}


def _ending(body: Mapping[str, Any], answer: Answer) -> Iterator[bytes]:
    if answer.stream_error is not None:
        yield _event({"error": {"message": answer.stream_error, "type": "server_error"}}, answer)
        return
    if answer.finish_reason is not None:
        yield _event(_chunk(body, {}, _reason(answer)), answer)
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
    return event(b"[DONE]" if value is None else _encode(value), answer)
