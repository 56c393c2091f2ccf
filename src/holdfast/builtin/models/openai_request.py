"""Our request as OpenAI's JSON, in the dialect that the server at hand understands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.records.base import Record
from holdfast.records.message import Message, ToolCall
from holdfast.records.model import ChatRequest

_encode = msgspec.json.Encoder().encode
_REFUSALS = (400, 404, 405, 415, 422, 501)
_STREAM = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)
_SCHEMA = re.compile(r"response_format|json_schema|structured output|guided decoding", re.IGNORECASE)


class Dialect(Record):
    """What the server is known to understand. Starts with everything; refusals take away."""

    stream: bool = True
    stream_options: bool = True
    json_schema: bool = True
    tokens_field: str = "max_tokens"

    def without(self, status: int, message: str, request: ChatRequest) -> Dialect | None:
        """The dialect to try instead after this refusal, or None when the refusal is about something else."""
        if status not in _REFUSALS:
            return None
        if self.stream and self.stream_options and "stream_options" in message:
            return msgspec.structs.replace(self, stream_options=False)
        if request.max_tokens is not None and self.tokens_field == "max_tokens" and "max_completion_tokens" in message:
            return msgspec.structs.replace(self, tokens_field="max_completion_tokens")
        if request.json_schema is not None and self.json_schema and _SCHEMA.search(message):
            return msgspec.structs.replace(self, json_schema=False)
        if self.stream and _STREAM.search(message):
            return msgspec.structs.replace(self, stream=False)
        return None


def encode_request(request: ChatRequest, *, model: str, dialect: Dialect, extra: Mapping[str, Any]) -> bytes:
    """The body to post. `extra` comes from the user's settings and has the last word."""
    body: dict[str, Any] = {"model": model, "messages": [_message(message) for message in request.messages]}
    if dialect.stream:
        body["stream"] = True
        if dialect.stream_options:
            body["stream_options"] = {"include_usage": True}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body[dialect.tokens_field] = request.max_tokens
    if request.seed is not None:
        body["seed"] = request.seed
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters or {"type": "object", "properties": {}},
                },
            }
            for tool in request.tools
        ]
    if request.json_schema is not None and dialect.json_schema:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": request.json_schema},
        }
    if extra:
        body.update(extra)
    return _encode(body)


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content}
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        out["name"] = message.name
    if message.tool_calls:
        out["content"] = message.content or None
        out["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return out


def _tool_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.raw if call.raw is not None else _encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
