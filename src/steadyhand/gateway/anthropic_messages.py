"""Anthropic's messages, as a server speaks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from steadyhand.gateway.dialect import (
    arguments_of,
    encode,
    finish_of,
    joined,
    named_results,
    number,
    objects,
    pieces,
    sse,
    text_of,
    tool_call,
    whole_number,
)
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, Role, ToolSpec, WireDialect

_WORDS = {
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.REFUSAL: "refusal",
    FinishReason.CONTENT_FILTER: "refusal",
}


class AnthropicMessages:
    """An `Interface`."""

    dialect: ClassVar[WireDialect] = "anthropic_messages"

    def read(self, body: dict[str, Any]) -> ChatRequest:
        messages: list[Message] = []
        if system := text_of(body.get("system")):
            messages.append(Message(role="system", content=system))
        for each in objects(body.get("messages"), "messages"):
            messages.extend(_messages(each))
        wanted = _object(_object(body.get("output_config")).get("format"))
        return ChatRequest(
            messages=named_results(messages),
            tools=tuple(_tool(each) for each in objects(body.get("tools"), "tools")),
            temperature=number(body, "temperature"),
            max_tokens=whole_number(body, "max_tokens"),
            json_schema=_object(wanted.get("schema")) or None,
        )

    def whole(self, response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if response.text:
            content.append({"type": "text", "text": response.text})
        content.extend(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in response.tool_calls
        )
        return {**_head(response, body), "content": content, "stop_reason": _reason(response)}

    def events(self, response: ChatResponse, body: Mapping[str, Any]) -> Iterator[bytes]:
        for value in self._events(response, body):
            yield sse(encode(value), value["type"])

    def _events(self, response: ChatResponse, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": _head(response, body)}
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if response.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(response)]
            blocks.append(({"type": "text", "text": ""}, deltas))
        for call in response.tool_calls:
            begun: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            blocks.append((begun, [{"type": "input_json_delta", "partial_json": arguments_of(call)}]))
        for index, (block, deltas) in enumerate(blocks):
            yield {"type": "content_block_start", "index": index, "content_block": block}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        ended = {"stop_reason": _reason(response), "stop_sequence": None}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": _tokens(response)[1]}}
        yield {"type": "message_stop"}

    def as_asked(self, answer: bytes, body: Mapping[str, Any]) -> bytes:
        return answer


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _messages(given: dict[str, Any]) -> Iterator[Message]:
    """One message may hold several results of tools beside its text; each is a message of its own here."""
    role: Role = "assistant" if given.get("role") == "assistant" else "user"
    content = given.get("content")
    if isinstance(content, str):
        yield Message(role=role, content=content)
        return
    blocks = objects(content, "content")
    for block in blocks:
        if block.get("type") == "tool_result":
            told = text_of(block.get("content"))
            yield Message(role="tool", content=told, tool_call_id=str(block.get("tool_use_id") or ""))
    said = joined([str(block.get("text") or "") for block in blocks if block.get("type") == "text"])
    calls = tuple(
        tool_call(block.get("id"), block.get("name"), block.get("input") or {})
        for block in blocks
        if block.get("type") == "tool_use"
    )
    if said or calls:
        yield Message(role=role, content=said, tool_calls=calls)


def _tool(given: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=str(given.get("name", "")),
        description=str(given.get("description") or ""),
        parameters=_object(given.get("input_schema")),
    )


def _reason(response: ChatResponse) -> str:
    return _WORDS.get(finish_of(response), "end_turn")


def _tokens(response: ChatResponse) -> tuple[int, int]:
    """The interface has no way to say that they are not known."""
    return (response.usage.input_tokens, response.usage.output_tokens) if response.usage is not None else (0, 0)


def _head(response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]:
    read, written = _tokens(response)
    return {
        "id": "msg_steadyhand",
        "type": "message",
        "role": "assistant",
        "model": str(body.get("model", "")),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": read, "output_tokens": written},
    }
