"""OpenAI's Responses API, for the model server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from steadyhand.testing.openai_wire import error_body
from steadyhand.testing.wire import Answer, WireReply, event, event_stream, plain

_encode = msgspec.json.Encoder().encode
_CUT = {"length": "max_output_tokens", "content_filter": "content_filter", "incomplete": None}
_MESSAGE = "msg_67ccd2bf17f0819081ff3bb2cf6508e6"


def reply_to(body: Mapping[str, Any], answer: Answer) -> WireReply:
    """The response that delivers `answer` to a request with this body."""
    if answer.body is not None:
        return plain(answer.status, answer.body, answer.content_type, answer)
    if answer.status != 200:
        return plain(answer.status, error_body(answer.status, answer.error), "application/json", answer)
    if body.get("stream") and answer.streaming == "refused":
        return plain(400, error_body(400, "stream not supported by this server"), "application/json", answer)
    if body.get("stream") and answer.streaming != "ignored":
        return _Stream(body, answer).reply()
    return plain(200, _encode(_finished(body, answer)), "application/json", answer)


def _finished(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    cut = answer.finish_reason in _CUT
    response = _response(body, "incomplete" if cut else "completed")
    response["output"] = _items(answer)
    if cut and (reason := _CUT[answer.finish_reason or ""]):
        response["incomplete_details"] = {"reason": reason}
    if answer.usage is not None:
        read, written = answer.usage.input_tokens, answer.usage.output_tokens
        response["usage"] = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    return response


def _response(body: Mapping[str, Any], status: str) -> dict[str, Any]:
    return {
        "id": "resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
        "object": "response",
        "created_at": 1741476542,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "model": body.get("model"),
        "output": [],
        "usage": None,
    }


def _items(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        items.append(
            {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": answer.reasoning}]}
        )
    if text := answer.whole_text():
        part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
        if answer.finish_reason == "refusal":
            part = {"type": "refusal", "refusal": text}
        items.append({"id": _MESSAGE, "type": "message", "status": "completed", "role": "assistant", "content": [part]})
    items.extend(
        {
            "id": f"fc_{number}",
            "type": "function_call",
            "status": "completed",
            "arguments": call.arguments_text,
            "call_id": call.id,
            "name": call.name,
        }
        for number, call in enumerate(answer.tool_calls)
    )
    return items


class _Stream:
    """The events of one response, numbered in order."""

    def __init__(self, body: Mapping[str, Any], answer: Answer) -> None:
        self._body = body
        self._answer = answer
        self._number = 0

    def reply(self) -> WireReply:
        started = _response(self._body, "in_progress")
        opening = self._event("response.created", response=started) + self._event(
            "response.in_progress", response=started
        )
        return event_stream(self._answer, opening=opening, deltas=self._deltas(), ending=self._ending())

    def _deltas(self) -> Iterator[bytes]:
        for index, item in enumerate(_items(self._answer)):
            match item["type"]:
                case "message":
                    yield from self._message(index, item)
                case "function_call":
                    yield from self._call(index, item)
                case _:
                    yield self._event("response.output_item.done", output_index=index, item=item)

    def _message(self, index: int, item: dict[str, Any]) -> Iterator[bytes]:
        part = item["content"][0]
        kind = "refusal" if part["type"] == "refusal" else "text"
        event = "response.refusal" if kind == "refusal" else "response.output_text"
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        empty: dict[str, Any] = {**item, "status": "in_progress", "content": []}
        start = self._event("response.output_item.added", output_index=index, item=empty)
        start += self._event("response.content_part.added", **place, part={**part, kind: ""})
        for piece in self._answer.text_pieces():
            yield start + self._event(f"{event}.delta", **place, delta=piece)
            start = b""
        yield (
            self._event(f"{event}.done", **place, **{kind: part[kind]})
            + self._event("response.content_part.done", **place, part=part)
            + self._event("response.output_item.done", output_index=index, item=item)
        )

    def _call(self, index: int, item: dict[str, Any]) -> Iterator[bytes]:
        place = {"item_id": item["id"], "output_index": index}
        text = item["arguments"]
        size = self._answer.piece_chars
        empty = {**item, "status": "in_progress", "arguments": ""}
        yield self._event("response.output_item.added", output_index=index, item=empty)
        for at in range(0, len(text), size):
            yield self._event("response.function_call_arguments.delta", **place, delta=text[at : at + size])
        yield self._event("response.function_call_arguments.done", **place, arguments=text) + self._event(
            "response.output_item.done", output_index=index, item=item
        )

    def _ending(self) -> Iterator[bytes]:
        answer = self._answer
        if answer.stream_error is not None:
            failed = _response(self._body, "failed")
            failed["error"] = {"code": answer.error_type or "server_error", "message": answer.stream_error}
            yield self._event("response.failed", response=failed)
        elif answer.done:
            finished = _finished(self._body, answer)
            yield self._event(f"response.{finished['status']}", response=finished)

    def _event(self, kind: str, **fields: Any) -> bytes:
        value = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event(_encode(value), self._answer, name=kind)
