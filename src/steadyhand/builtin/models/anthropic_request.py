"""Our request as Anthropic's messages JSON, as the server at hand is known to understand it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from steadyhand.builtin.models.anthropic_answer import MessagesReader
from steadyhand.builtin.models.http.stream import AnswerReader
from steadyhand.builtin.models.http_settings import Asking
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, Message, ToolCall, ToolSpec

ANSWER_TOOL = "answer"
_encode = msgspec.json.Encoder().encode
_FORMAT = re.compile(r"output_config|output_format|structured output|schema|extra inputs", re.IGNORECASE)
_FORCED = re.compile(r"tool_choice|input_schema", re.IGNORECASE)
_STREAM = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)

Structure = Literal["format", "tool", "none"]


class Messages(Record):
    """A `Wire`. A wished schema goes out as the output format; where that is refused, as a tool that must be called."""

    asking: Asking
    stream_refused: bool = False
    structure: Structure = "format"

    @property
    def what(self) -> str:
        return "a message"

    @property
    def stream(self) -> bool:
        return self.asking.stream and not self.stream_refused

    def reader(self, request: ChatRequest) -> AnswerReader:
        return MessagesReader(answer_tool=ANSWER_TOOL if self._structure_for(request) == "tool" else None)

    def token_limit(self, request: ChatRequest) -> int | None:
        return self.asking.token_limit(request, "max_tokens")

    def without(self, status: int, message: str, request: ChatRequest) -> Messages | None:
        if status != 400:
            return None
        match self._structure_for(request):
            case "format" if _FORMAT.search(message):
                return msgspec.structs.replace(self, structure="none" if request.tools else "tool")
            case "tool" if _FORCED.search(message):
                return msgspec.structs.replace(self, structure="none")
            case _:
                pass
        if self.stream and _STREAM.search(message):
            return msgspec.structs.replace(self, stream_refused=True)
        return None

    def encode(self, request: ChatRequest) -> bytes:
        asking = self.asking
        body: dict[str, Any] = {
            "model": asking.model,
            "max_tokens": asking.max_tokens if request.max_tokens is None else request.max_tokens,
            "messages": list(_turns(request.messages)),
        }
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        if system.strip():
            body["system"] = system
        if self.stream:
            body["stream"] = True
        if request.temperature is not None and asking.temperature:
            body["temperature"] = request.temperature
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        schema = request.json_schema
        match self._structure_for(request):
            case "format":
                body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            case "tool":
                body["tools"] = [
                    {"name": ANSWER_TOOL, "description": "Gives the answer.", "input_schema": schema},
                ]
                body["tool_choice"] = {"type": "tool", "name": ANSWER_TOOL}
            case "none":
                pass
        body.update(asking.body)
        return _encode(body)

    def _structure_for(self, request: ChatRequest) -> Structure:
        """How this request asks for a schema. A tool that must be called would keep the model from calling others."""
        if request.json_schema is None or (self.structure == "tool" and request.tools):
            return "none"
        return self.structure


def _turns(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """User and assistant in turns, as the interface wants them: neighbours of one role are put together."""
    role = ""
    blocks: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        own = "assistant" if message.role == "assistant" else "user"
        if own != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = own
        blocks.extend(_blocks(message))
    if blocks:
        yield {"role": role, "content": blocks}


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    """A message's content. A block without text is an error there, so an empty one is left out."""
    if message.role == "tool":
        yield {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": message.content}
        return
    if message.content.strip():
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}


def _input(call: ToolCall) -> dict[str, Any]:
    """Arguments that were no JSON are handed back as such: the interface takes objects only."""
    return call.arguments if call.raw is None else {"not_json": call.raw}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    schema = tool.parameters or {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}
