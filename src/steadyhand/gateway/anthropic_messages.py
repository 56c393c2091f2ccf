"""The server side of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from steadyhand.gateway.dialect import (
    AnswerStream,
    encode,
    finish_of,
    joined,
    named_results,
    number,
    object_of,
    objects,
    sse,
    text_of,
    tool_call,
    tool_spec,
    whole_number,
)
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, Role, WireDialect

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
        wanted = object_of(object_of(body.get("output_config")).get("format"))
        return ChatRequest(
            messages=named_results(messages),
            tools=tuple(tool_spec(each, "input_schema") for each in objects(body.get("tools"), "tools")),
            temperature=number(body, "temperature"),
            max_tokens=whole_number(body, "max_tokens"),
            json_schema=object_of(wanted.get("schema")) or None,
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

    def stream(self, body: Mapping[str, Any], known: ChatResponse | None = None) -> AnswerStream:
        return _Blocks(_head(known, body))

    def filter(self, body: Mapping[str, Any]) -> Callable[[bytes], bytes] | None:
        return None


class _Blocks:
    """An `AnswerStream`: the text is one block, and every tool call another."""

    def __init__(self, head: dict[str, Any]) -> None:
        self._head = head
        self._text: bool = False

    def open(self) -> bytes:
        return _event({"type": "message_start", "message": self._head})

    def piece(self, text: str) -> bytes:
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        if self._text:
            return _event(delta)
        self._text = True
        begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return _event(begun) + _event(delta)

    def close(self, response: ChatResponse) -> bytes:
        events: list[dict[str, Any]] = [{"type": "content_block_stop", "index": 0}] if self._text else []
        for index, call in enumerate(response.tool_calls, start=int(self._text)):
            begun: dict[str, Any] = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": call.arguments_text}
            events += [
                {"type": "content_block_start", "index": index, "content_block": begun},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        ended = {"stop_reason": _reason(response), "stop_sequence": None}
        read, written = _tokens(response)
        usage = {"input_tokens": read, "output_tokens": written}
        events += [{"type": "message_delta", "delta": ended, "usage": usage}, {"type": "message_stop"}]
        return b"".join(map(_event, events))

    def fail(self, message: str) -> bytes:
        return _event({"type": "error", "error": {"type": "api_error", "message": message}})


def _event(value: dict[str, Any]) -> bytes:
    return sse(encode(value), value["type"])


def _messages(given: dict[str, Any]) -> Iterator[Message]:
    """One message may contain several tool results besides its text; each becomes a separate message here."""
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


def _reason(response: ChatResponse) -> str:
    return _WORDS.get(finish_of(response), "end_turn")


def _tokens(response: ChatResponse | None) -> tuple[int, int]:
    """The API has no way to express that the token counts are unknown."""
    usage = None if response is None else response.usage
    return (0, 0) if usage is None else (usage.input_tokens, usage.output_tokens)


def _head(response: ChatResponse | None, body: Mapping[str, Any]) -> dict[str, Any]:
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
