"""Gemini's `generateContent`, as a client speaks it: requests read, answers written, streamed or complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, ToolCall, ToolSpec, WireDialect
from steadyhand.records.tool_result import has_failed
from steadyhand.wire.dialect import (
    EVENT_STREAM,
    AnswerStream,
    Interface,
    encode,
    finish_of,
    number,
    object_of,
    objects,
    sse,
    text_of,
    whole_number,
)

_REASONS = {FinishReason.LENGTH: "MAX_TOKENS", FinishReason.CONTENT_FILTER: "SAFETY", FinishReason.REFUSAL: "SAFETY"}


class Gemini(Interface):
    """Calls without an id are paired with their results in order, by name."""

    dialect: ClassVar[WireDialect] = "gemini"
    stream_type: ClassVar[str] = EVENT_STREAM

    def read(self, body: dict[str, Any]) -> ChatRequest:
        messages: list[Message] = []
        if system := text_of(object_of(body.get("systemInstruction")).get("parts")):
            messages.append(Message(role="system", content=system))
        counts: Counter[tuple[str, str]] = Counter()
        for content in objects(body.get("contents"), "contents"):
            messages.extend(_messages(content, counts))
        tools = objects(body.get("tools"), "tools")
        settings = object_of(body.get("generationConfig"))
        return ChatRequest(
            messages=tuple(messages),
            tools=tuple(
                _tool(each)
                for tool in tools
                for each in objects(tool.get("functionDeclarations"), "functionDeclarations")
            ),
            other_tools=(
                *(name for tool in tools for name in tool if name != "functionDeclarations"),
                *(("candidates other than the first",) if (whole_number(settings, "candidateCount") or 1) > 1 else ()),
            ),
            temperature=number(settings, "temperature"),
            max_tokens=whole_number(settings, "maxOutputTokens"),
            seed=whole_number(settings, "seed"),
            json_schema=_schema(object_of(settings.get("responseJsonSchema") or settings.get("responseSchema")))
            or None,
            json_mode=settings.get("responseMimeType") == "application/json",
        )

    def whole(self, response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]:
        return _answer([*([{"text": response.text}] if response.text else []), *_calls(response)], response)

    def stream(self, body: Mapping[str, Any], known: ChatResponse | None = None) -> AnswerStream:
        return _Chunks()


class _Chunks:
    """An `AnswerStream`."""

    def open(self) -> bytes:
        return b""

    def piece(self, text: str) -> bytes:
        return sse(encode(_answer([{"text": text}], None)))

    def close(self, response: ChatResponse) -> bytes:
        return sse(encode(_answer(_calls(response) or [{"text": ""}], response)))

    def fail(self, message: str) -> bytes:
        return sse(encode({"error": {"code": 500, "message": message, "status": "INTERNAL"}}))


def _answer(parts: list[dict[str, Any]], ended: ChatResponse | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    made: dict[str, Any] = {"candidates": [candidate]}
    if ended is not None:
        candidate["finishReason"] = _REASONS.get(finish_of(ended), "STOP")
        if (usage := ended.usage) is not None:
            read, written = usage.input_tokens, usage.output_tokens
            made["usageMetadata"] = {
                "promptTokenCount": read,
                "candidatesTokenCount": written,
                "totalTokenCount": read + written,
            }
    return made


def _calls(response: ChatResponse) -> list[dict[str, Any]]:
    return [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in response.tool_calls
    ]


def _messages(content: dict[str, Any], counts: Counter[tuple[str, str]]) -> Iterator[Message]:
    parts = objects(content.get("parts"), "parts")
    calls: list[ToolCall] = []
    for part in parts:
        if call := object_of(part.get("functionCall")):
            name = str(call.get("name", ""))
            calls.append(ToolCall(id=_id(call, name, "call", counts), name=name, arguments=object_of(call.get("args"))))
        elif result := object_of(part.get("functionResponse")):
            name, response = str(result.get("name", "")), object_of(result.get("response"))
            number = _id(result, name, "result", counts)
            failed = has_failed(response)
            text = encode(response).decode()
            yield Message(role="tool", content=text, tool_call_id=number, name=name, failed=failed)
    text = "".join(str(part["text"]) for part in parts if part.get("text") and not part.get("thought"))
    if text or calls:
        role = "assistant" if content.get("role") == "model" else "user"
        yield Message(role=role, content=text, tool_calls=tuple(calls))


def _id(held: Mapping[str, Any], name: str, kind: str, counts: Counter[tuple[str, str]]) -> str:
    counts[kind, name] += 1
    return str(held.get("id") or f"{name} {counts[kind, name]}")


def _tool(given: dict[str, Any]) -> ToolSpec:
    schema = object_of(given.get("parametersJsonSchema")) or _schema(object_of(given.get("parameters")))
    return ToolSpec(name=str(given.get("name", "")), description=str(given.get("description") or ""), parameters=schema)


def _schema(given: Any) -> Any:
    """Gemini's own schemas have their types in capitals."""
    if isinstance(given, dict):
        found = cast("dict[str, Any]", given)
        return {
            name: value.lower() if name == "type" and isinstance(value, str) else _schema(value)
            for name, value in found.items()
        }
    return [_schema(each) for each in given] if isinstance(given, list) else given  # pyright: ignore[reportUnknownVariableType] - JSON
