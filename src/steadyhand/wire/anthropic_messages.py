"""Anthropic's Messages API: requests and answers, streamed or complete, written and read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from steadyhand.errors import ModelErrorKind
from steadyhand.records.chat import (
    NO_USAGE,
    ChatRequest,
    ChatResponse,
    FinishReason,
    Message,
    Role,
    ToolCall,
    ToolSpec,
    Usage,
    WireDialect,
)
from steadyhand.wire.dialect import (
    EVENT_STREAM,
    AnswerStream,
    Interface,
    VendorWire,
    client_body,
    encode,
    finish_of,
    joined,
    named_results,
    number,
    object_of,
    objects,
    other_tools,
    sse,
    text_of,
    tool_call,
    tool_spec,
    whole_number,
)
from steadyhand.wire.stream import (
    NOT_DECODED,
    AnswerReader,
    ErrorInAnswer,
    PartialCall,
    UnreadableResponse,
    not_read,
)

_ERRORS: dict[str, ModelErrorKind] = {
    "rate_limit_error": "rate_limit",
    "invalid_request_error": "refused",
    "not_found_error": "refused",
    "request_too_large": "refused",
    "billing_error": "refused",
    "authentication_error": "auth",
    "permission_error": "auth",
}


class _Block(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Any = None
    cache_creation_input_tokens: Any = None
    cache_read_input_tokens: Any = None
    output_tokens: Any = None


class _Message(msgspec.Struct, gc=False):
    type: str | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | str | float | list[Any] | None = None
    error: Any = None


class _Delta(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Error(msgspec.Struct, gc=False):
    type: str | None = None
    message: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    index: int | None = None
    message: _Message | None = None
    content_block: _Block | None = None
    delta: _Delta | None = None
    usage: _Usage | str | float | list[Any] | None = None
    error: _Error | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_message = msgspec.json.Decoder(_Message).decode


class MessagesReader(AnswerReader):
    """Reads a message. A stream ends only with `message_stop`; unknown events and blocks are skipped.

    `answer_tool` names the tool used in place of an output format: its input is the text of the answer.
    """

    ends: ClassVar[tuple[bytes, ...]] = (b"message_stop", b'"error"')
    __slots__ = ("_answer_tool", "_as_text", "_input")  # _input: tokens read, fresh, written to and read from a cache

    def __init__(self, *, answer_tool: str | None = None) -> None:
        super().__init__()
        self._answer_tool = answer_tool
        self._as_text: set[int | None] = set()
        self._input: list[Any] = [None, None, None]

    def whole(self, body: bytes) -> None:
        try:
            message = _decode_message(body)
            reported = msgspec.convert(message.error, _Error | None) if message.type == "error" else None
        except NOT_DECODED as error:
            raise not_read(error, body) from error
        if message.type == "error":
            raise _reported(reported)
        if message.content is None:
            raise UnreadableResponse("it has no content")
        for index, block in enumerate(message.content):
            self._start(block, index, len(body))
        self._count(message.usage, final=True)
        self._stopped(message.stop_reason)
        self.seen = True

    def read(self, data: bytes, end: int) -> None:
        try:
            event = _decode_event(data)
        except NOT_DECODED as error:
            raise not_read(error, data) from error
        match event.type:
            case "content_block_delta":
                if event.delta is not None:
                    self._continue(event.delta, event.index, end)
            case "content_block_start":
                if event.content_block is not None:
                    self._start(event.content_block, event.index, end)
            case "message_start":
                self.seen = True
                if event.message is not None:
                    self._count(event.message.usage, final=False)
            case "message_delta":
                self._count(event.usage, final=True)
                self._stopped(event.delta.stop_reason if event.delta is not None else None)
            case "message_stop":
                self.done = end
            case "error":
                raise _reported(event.error)
            case None:
                raise _reported(event.error) if event.error is not None else UnreadableResponse("an event has no type")
            case _:
                pass

    def _start(self, block: _Block, index: int | None, end: int) -> None:
        """A block begins. In a complete answer it holds all its content, in a stream none."""
        if block.type == "text":
            if block.text:
                self.add_text(block.text, end)
        elif block.type == "tool_use":
            if self._answer_tool is not None and block.name == self._answer_tool:
                self._as_text.add(index)
                if block.input:
                    self.add_text(encode(block.input).decode(), end)
                return
            call = PartialCall(block.id or "", block.name or "")
            if block.input:
                call.arguments.append(encode(block.input).decode())
            self.calls.append((index, call))
            if self.first_token is None:
                self.first_token = end

    def _continue(self, delta: _Delta, index: int | None, end: int) -> None:
        if delta.type == "text_delta":
            if delta.text:
                self.add_text(delta.text, end)
        elif delta.type == "input_json_delta" and delta.partial_json:
            if index in self._as_text:
                self.add_text(delta.partial_json, end)
                return
            call = self.call_numbered(index)
            if call is not None:
                call.arguments.append(delta.partial_json)

    def _count(self, usage: _Usage | str | float | list[Any] | None, *, final: bool) -> None:
        """Input tokens, cached or not, are reported at the start; the total of output tokens at the end."""
        if not isinstance(usage, _Usage):
            self.usage = self.usage if usage is None else NO_USAGE
            return
        given = (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
        self._input = [known if new is None else new for known, new in zip(self._input, given, strict=True)]
        if final and self._input[0] is not None and usage.output_tokens is not None:
            parts = [0 if part is None else part for part in self._input]
            counts = all(type(part) is int and part >= 0 for part in parts)
            read = sum(parts) if counts else NO_USAGE.input_tokens
            self.usage = Usage(input_tokens=read, output_tokens=usage.output_tokens)

    def _stopped(self, reason: str | None) -> None:
        if reason is None:
            return
        if reason == "tool_use" and self._as_text and not self.calls:
            reason = "end_turn"
        self.stopped(reason)


def _reported(error: _Error | None) -> ErrorInAnswer:
    if error is None:
        return ErrorInAnswer("no message")
    kind = _ERRORS.get(error.type or "", "server")
    message = error.message or "no message"
    text = f"{error.type}: {message}" if error.type else message
    return ErrorInAnswer(text, kind=kind, retryable=kind in ("server", "rate_limit"))


ANSWER_TOOL = "answer"
_FORMAT = re.compile(r"output_config|output_format|structured output|schema|extra inputs", re.IGNORECASE)
_FORCED = re.compile(r"tool_choice|input_schema", re.IGNORECASE)
_STREAM = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)

Structure = Literal["format", "tool", "none"]


class Messages(VendorWire):
    """A `Wire`. A schema is sent as the output format; if the server refuses that, as a tool that must be called."""

    what: ClassVar[str] = "a message"
    dialect: ClassVar[WireDialect] = "anthropic_messages"
    structure: Structure = "format"

    def reader(self, request: ChatRequest) -> AnswerReader:
        return MessagesReader(answer_tool=ANSWER_TOOL if self._structure_for(request) == "tool" else None)

    def token_limit(self, request: ChatRequest) -> int | None:
        return self.settings.token_limit(request, "max_tokens")

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
        settings = self.settings
        if (given := client_body(request, self.dialect)) is not None:
            return encode({**given, "model": settings.model, **settings.body})
        body: dict[str, Any] = {
            "model": settings.model,
            "max_tokens": settings.max_tokens if request.max_tokens is None else request.max_tokens,
            "messages": list(_turns(request.messages)),
        }
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        if system.strip():
            body["system"] = system
        if self.stream:
            body["stream"] = True
        if request.temperature is not None and settings.temperature:
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
        body.update(settings.body)
        return encode(body)

    def _structure_for(self, request: ChatRequest) -> Structure:
        """How this request asks for a schema. A tool that must be called would keep the model from calling others."""
        if request.json_schema is None or (self.structure == "tool" and request.tools):
            return "none"
        return self.structure


def _turns(messages: Sequence[Message]) -> Iterator[dict[str, Any]]:
    """The messages with user and assistant alternating, as the API requires: neighbours of one role are joined."""
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
    """A message's content. The API refuses empty text blocks, so they are left out."""
    if message.role == "tool":
        yield {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": message.content}
        return
    if message.content.strip():
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}


def _input(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, which the API requires; arguments that were not JSON are wrapped in one."""
    return call.arguments if call.raw is None else {"not_json": call.raw}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    schema = tool.parameters or {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


_WORDS = {
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.REFUSAL: "refusal",
    FinishReason.CONTENT_FILTER: "refusal",
}


_AT_THE_PROVIDER = ("web_search", "web_fetch", "code_execution", "tool_search")
"""Tools that the provider runs itself."""


class AnthropicMessages(Interface):
    dialect: ClassVar[WireDialect] = "anthropic_messages"
    stream_type: ClassVar[str] = EVENT_STREAM

    def read(self, body: dict[str, Any]) -> ChatRequest:
        messages: list[Message] = []
        if system := text_of(body.get("system")):
            messages.append(Message(role="system", content=system))
        for each in objects(body.get("messages"), "messages"):
            messages.extend(_messages(each))
        wanted = object_of(object_of(body.get("output_config")).get("format"))
        tools = objects(body.get("tools"), "tools")
        remote = [each for each in tools if str(each.get("type", "")).startswith(_AT_THE_PROVIDER)]
        return ChatRequest(
            messages=named_results(messages),
            tools=tuple(tool_spec(each, "input_schema") for each in tools if each not in remote),
            other_tools=(*other_tools(remote), *(("mcp_servers",) if body.get("mcp_servers") else ())),
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


class _Blocks:
    """An `AnswerStream`: the text is one block, and every tool call another."""

    def __init__(self, head: dict[str, Any]) -> None:
        self._head = head
        self._text: bool = False

    def open(self) -> bytes:
        return _sse({"type": "message_start", "message": self._head})

    def piece(self, text: str) -> bytes:
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
        if self._text:
            return _sse(delta)
        self._text = True
        begun = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        return _sse(begun) + _sse(delta)

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
        return b"".join(map(_sse, events))

    def fail(self, message: str) -> bytes:
        return _sse({"type": "error", "error": {"type": "api_error", "message": message}})


def _sse(value: dict[str, Any]) -> bytes:
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
            result, failed = text_of(block.get("content")), block.get("is_error")
            number = str(block.get("tool_use_id") or "")
            yield Message(
                role="tool", content=result, tool_call_id=number, failed=failed if isinstance(failed, bool) else None
            )
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
