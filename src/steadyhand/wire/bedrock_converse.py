"""Bedrock's Converse, as a client speaks it: requests read, answers written, complete or as an AWS event stream."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, ToolSpec, WireDialect
from steadyhand.wire.dialect import (
    AnswerStream,
    Interface,
    encode,
    finish_of,
    number,
    object_of,
    objects,
    text_of,
    tool_call,
    whole_number,
)

_REASONS = {
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "content_filtered",
    FinishReason.REFUSAL: "content_filtered",
}
_TEXT_HEADER = 7


class BedrockConverse(Interface):
    dialect: ClassVar[WireDialect] = "bedrock_converse"
    stream_type: ClassVar[str] = "application/vnd.amazon.eventstream"

    def read(self, body: dict[str, Any]) -> ChatRequest:
        messages: list[Message] = []
        if system := text_of(body.get("system")):
            messages.append(Message(role="system", content=system))
        for each in objects(body.get("messages"), "messages"):
            messages.extend(_messages(each))
        tools = objects(object_of(body.get("toolConfig")).get("tools"), "tools")
        settings = object_of(body.get("inferenceConfig"))
        return ChatRequest(
            messages=tuple(messages),
            tools=tuple(_tool(object_of(each["toolSpec"])) for each in tools if "toolSpec" in each),
            other_tools=tuple(name for each in tools for name in each if name not in ("toolSpec", "cachePoint")),
            temperature=number(settings, "temperature"),
            max_tokens=whole_number(settings, "maxTokens"),
        )

    def whole(self, response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"text": response.text}] if response.text else []
        content += [
            {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}
            for call in response.tool_calls
        ]
        message = {"role": "assistant", "content": content}
        return {"output": {"message": message}, "stopReason": _reason(response), **_counts(response)}

    def stream(self, body: Mapping[str, Any], known: ChatResponse | None = None) -> AnswerStream:
        return _Frames()


class _Frames:
    """An `AnswerStream`: the text is one block, and every tool call another."""

    def __init__(self) -> None:
        self._text: bool = False

    def open(self) -> bytes:
        return frame("messageStart", {"role": "assistant"})

    def piece(self, text: str) -> bytes:
        self._text = True
        return frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": text}})

    def close(self, response: ChatResponse) -> bytes:
        frames = [frame("contentBlockStop", {"contentBlockIndex": 0})] if self._text else []
        for index, call in enumerate(response.tool_calls, start=int(self._text)):
            begun, place = {"toolUse": {"toolUseId": call.id, "name": call.name}}, {"contentBlockIndex": index}
            frames += [
                frame("contentBlockStart", {**place, "start": begun}),
                frame("contentBlockDelta", {**place, "delta": {"toolUse": {"input": call.arguments_text}}}),
                frame("contentBlockStop", place),
            ]
        frames += [frame("messageStop", {"stopReason": _reason(response)}), frame("metadata", _counts(response))]
        return b"".join(frames)

    def fail(self, message: str) -> bytes:
        return frame("internalServerException", {"message": message}, kind="exception")


def frame(event: str, payload: Mapping[str, Any], *, kind: str = "event") -> bytes:
    """One message of an AWS event stream: lengths, headers, payload, and a checksum of each part."""
    name = ":exception-type" if kind == "exception" else ":event-type"
    named = {":message-type": kind, name: event, ":content-type": "application/json"}
    headers = b"".join(_header(*each) for each in named.items())
    body = encode(payload)
    lengths = struct.pack(">II", 16 + len(headers) + len(body), len(headers))
    message = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + body
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _TEXT_HEADER, len(value)) + value.encode()


def _messages(given: dict[str, Any]) -> Iterator[Message]:
    blocks = objects(given.get("content"), "content")
    for block in blocks:
        if result := object_of(block.get("toolResult")):
            parts = objects(result.get("content"), "content")
            content = "".join(encode(part["json"]).decode() if "json" in part else text_of(part) for part in parts)
            failed = {"error": True, "success": False}.get(str(result.get("status")))
            yield Message(role="tool", content=content, tool_call_id=str(result.get("toolUseId") or ""), failed=failed)
    text = "".join(str(block["text"]) for block in blocks if block.get("text"))
    used = [object_of(block["toolUse"]) for block in blocks if "toolUse" in block]
    calls = tuple(tool_call(each.get("toolUseId"), each.get("name"), each.get("input") or {}) for each in used)
    if text or calls:
        yield Message(role="assistant" if given.get("role") == "assistant" else "user", content=text, tool_calls=calls)


def _tool(given: dict[str, Any]) -> ToolSpec:
    schema = object_of(object_of(given.get("inputSchema")).get("json"))
    return ToolSpec(name=str(given.get("name", "")), description=str(given.get("description") or ""), parameters=schema)


def _reason(response: ChatResponse) -> str:
    return _REASONS.get(finish_of(response), "end_turn")


def _counts(response: ChatResponse) -> dict[str, Any]:
    """The API has no way to express that the token counts are unknown."""
    usage = response.usage
    read, written = (0, 0) if usage is None else (usage.input_tokens, usage.output_tokens)
    return {
        "usage": {"inputTokens": read, "outputTokens": written, "totalTokens": read + written},
        "metrics": {"latencyMs": 0},
    }
