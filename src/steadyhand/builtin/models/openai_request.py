"""Our request as a chat completion's JSON, as the server at hand is known to understand it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from steadyhand.builtin.models.http.stream import AnswerReader
from steadyhand.builtin.models.http_settings import Asking
from steadyhand.builtin.models.openai_chat import ChatReader
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, Message, ToolCall, ToolSpec

_encode = msgspec.json.Encoder().encode
REFUSALS = (400, 404, 405, 415, 422, 501)
STREAM = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)
_SCHEMA = re.compile(r"response_format|json_schema|structured output|guided decoding", re.IGNORECASE)
_FIELD = re.compile(r"response_format|stream_options", re.IGNORECASE)
_MODE = re.compile(r"response_format|json_object|json mode", re.IGNORECASE)


class ChatCompletions(Record):
    """A `Wire`. Starts with everything the server may understand; refusals take away."""

    asking: Asking
    stream_refused: bool = False
    stream_options: bool = True
    json_schema: bool = True
    json_mode: bool = True
    tokens_field: str = "max_tokens"

    @property
    def what(self) -> str:
        return "a chat completion"

    @property
    def stream(self) -> bool:
        return self.asking.stream and not self.stream_refused

    def reader(self, request: ChatRequest) -> AnswerReader:
        return ChatReader()

    def token_limit(self, request: ChatRequest) -> int | None:
        return self.asking.token_limit(request, "max_tokens", "max_completion_tokens", "n_predict")

    def without(self, status: int, message: str, request: ChatRequest) -> ChatCompletions | None:
        if status == 500 and _FIELD.search(message):
            status = 400  # llama-cpp-python's server calls a field that it does not know its own failure
        if status not in REFUSALS:
            return None
        if self.stream and self.stream_options and "stream_options" in message:
            return msgspec.structs.replace(self, stream_options=False)
        if request.max_tokens is not None and self.tokens_field == "max_tokens" and "max_completion_tokens" in message:
            return msgspec.structs.replace(self, tokens_field="max_completion_tokens")
        if request.json_schema is not None and self.json_schema and _SCHEMA.search(message):
            return msgspec.structs.replace(self, json_schema=False)
        if self._asks_for_json(request) and _MODE.search(message):
            return msgspec.structs.replace(self, json_mode=False)
        if self.stream and STREAM.search(message):
            return msgspec.structs.replace(self, stream_refused=True)
        return None

    def encode(self, request: ChatRequest) -> bytes:
        asking = self.asking
        body: dict[str, Any] = {"model": asking.model, "messages": [_message(message) for message in request.messages]}
        if self.stream:
            body["stream"] = True
            if self.stream_options:
                body["stream_options"] = {"include_usage": True}
        if request.temperature is not None and asking.temperature:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body[self.tokens_field] = request.max_tokens
        if request.seed is not None and asking.seed:
            body["seed"] = request.seed
        if request.tools:
            body["tools"] = [{"type": "function", "function": _tool(tool)} for tool in request.tools]
        if request.json_schema is not None and self.json_schema:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": request.json_schema},
            }
        elif self._asks_for_json(request):
            body["response_format"] = {"type": "json_object"}
        body.update(asking.body)
        return _encode(body)

    def _asks_for_json(self, request: ChatRequest) -> bool:
        """A refused schema is not replaced by this mode: that is for whoever asks, who must then mention JSON."""
        return request.json_mode and self.json_mode and request.json_schema is None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }


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
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments_of(call)}}


def arguments_of(call: ToolCall) -> str:
    """A call's arguments as the text that the model wrote, or the same in other words."""
    return call.raw if call.raw is not None else _encode(call.arguments).decode()
