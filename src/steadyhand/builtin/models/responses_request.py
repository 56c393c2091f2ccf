"""Our request as OpenAI's Responses JSON, as the server at hand is known to understand it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from steadyhand.builtin.models.http.stream import AnswerReader
from steadyhand.builtin.models.http_settings import Asking
from steadyhand.builtin.models.openai_request import REFUSALS, STREAM, arguments_of
from steadyhand.builtin.models.openai_responses import ResponsesReader
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, Message, ToolSpec

_encode = msgspec.json.Encoder().encode


class Responses(Record):
    """A `Wire`. Nothing is kept on the server: `store` is false, and every request holds the whole exchange."""

    asking: Asking
    stream_refused: bool = False
    text_format: bool = True

    @property
    def what(self) -> str:
        return "a response"

    @property
    def stream(self) -> bool:
        return self.asking.stream and not self.stream_refused

    def reader(self, request: ChatRequest) -> AnswerReader:
        return ResponsesReader()

    def token_limit(self, request: ChatRequest) -> int | None:
        return self.asking.token_limit(request, "max_output_tokens")

    def without(self, status: int, message: str, request: ChatRequest) -> Responses | None:
        if status not in REFUSALS:
            return None
        if self.text_format and _format(request) is not None and ("text.format" in message or "schema" in message):
            return msgspec.structs.replace(self, text_format=False)
        if self.stream and STREAM.search(message):
            return msgspec.structs.replace(self, stream_refused=True)
        return None

    def encode(self, request: ChatRequest) -> bytes:
        asking = self.asking
        body: dict[str, Any] = {
            "model": asking.model,
            "input": [item for message in request.messages for item in _items(message)],
            "store": False,
        }
        if self.stream:
            body["stream"] = True
        if request.temperature is not None and asking.temperature:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body["max_output_tokens"] = request.max_tokens
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        wanted = _format(request)
        if wanted is not None and self.text_format:
            body["text"] = {"format": wanted}
        body.update(asking.body)
        return _encode(body)


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id or "", "output": message.content}
        return
    if message.content or not message.tool_calls:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments_of(call)}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    """`strict` is on unless said otherwise, and takes only a part of JSON Schema."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": False,
    }


def _format(request: ChatRequest) -> dict[str, Any] | None:
    if request.json_schema is not None:
        return {"type": "json_schema", "name": "answer", "schema": request.json_schema, "strict": False}
    return {"type": "json_object"} if request.json_mode else None
