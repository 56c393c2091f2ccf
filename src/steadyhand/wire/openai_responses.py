"""OpenAI's Responses API: requests and answers, streamed or complete, written and read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec

from steadyhand.errors import ModelErrorKind
from steadyhand.records.chat import (
    NO_USAGE,
    ChatRequest,
    ChatResponse,
    FinishReason,
    Message,
    Role,
    ToolSpec,
    Usage,
    WireDialect,
)
from steadyhand.wire.dialect import (
    EVENT_STREAM,
    AnswerStream,
    BadRequest,
    Interface,
    VendorWire,
    client_body,
    encode,
    finish_of,
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
from steadyhand.wire.openai_chat import REFUSALS, STREAM
from steadyhand.wire.stream import (
    NOT_DECODED,
    AnswerReader,
    ErrorInAnswer,
    PartialCall,
    UnreadableResponse,
    message_in,
    not_read,
)


class _Part(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_Part] | None = None


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Any = None
    output_tokens: Any = None


class _Details(msgspec.Struct, gc=False):
    reason: str | None = None


class _Response(msgspec.Struct, gc=False):
    status: str | None = None
    output: list[_Item] | None = None
    usage: _Usage | str | float | list[Any] | None = None
    error: Any = None
    incomplete_details: _Details | None = None
    object: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    delta: Any = None
    output_index: int | None = None
    item: _Item | None = None
    response: _Response | None = None
    arguments: str | None = None
    code: str | None = None
    message: str | None = None
    error: Any = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_response = msgspec.json.Decoder(_Response).decode


class ResponsesReader(AnswerReader):
    """Reads a response. A stream ends only with `response.completed`, `.incomplete` or `.failed`."""

    ends: ClassVar[tuple[bytes, ...]] = (b"response.completed", b"response.incomplete", b"response.failed", b'"error"')
    __slots__ = ()

    def whole(self, body: bytes) -> None:
        try:
            response = _decode_response(body)
        except NOT_DECODED as error:
            raise not_read(error, body) from error
        if response.object != "response" and response.output is None and response.error is None:
            raise UnreadableResponse("it has no output")
        self._take_output(response, len(body))
        self._conclude(response)

    def read(self, data: bytes, end: int) -> None:
        try:
            event = _decode_event(data)
        except NOT_DECODED as error:
            raise not_read(error, data) from error
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                self.refused = self.refused or event.type == "response.refusal.delta"
                if isinstance(event.delta, str) and event.delta:
                    self.add_text(event.delta, end)
            case (
                "response.output_item.added"
                | "response.output_item.done"
                | "response.function_call_arguments.delta"
                | "response.function_call_arguments.done"
            ):
                self._read_call(event, end)
            case "response.completed" | "response.incomplete" | "response.failed":
                self._end(event, end)
            case "error":
                raise _reported(event.error or event.message, event.code)
            case None:
                raise (
                    _reported(event.error, event.code)
                    if event.error is not None
                    else UnreadableResponse("an event has no type")
                )
            case _:
                pass

    def _read_call(self, event: _Event, end: int) -> None:
        """A function call's item or arguments. The last event of either has the complete value."""
        item = event.item
        call = self.call_numbered(event.output_index)
        if item is not None:
            if item.type != "function_call":
                return
            call = call or self._start_call(item, event.output_index, end)
        if call is None:
            return
        if isinstance(event.delta, str):
            call.arguments.append(event.delta)
            return
        whole = item.arguments if item is not None else event.arguments
        if whole:
            call.arguments[:] = [whole]

    def _start_call(self, item: _Item, index: int | None, end: int) -> PartialCall:
        call = PartialCall(item.call_id or "", item.name or "")
        self.calls.append((index, call))
        if self.first_token is None:
            self.first_token = end
        return call

    def _end(self, event: _Event, end: int) -> None:
        response = event.response or _Response()
        if response.status is None:
            response.status = (event.type or "").removeprefix("response.")
        if not self.pieces and not self.calls:
            self._take_output(response, end)
        self._conclude(response)
        self.done = end

    def _take_output(self, response: _Response, end: int) -> None:
        """Take text and calls from the finished response if no events brought them."""
        for index, item in enumerate(response.output or ()):
            if item.type == "function_call":
                self._start_call(item, index, end).arguments.append(item.arguments or "")
            for part in item.content or () if item.type == "message" else ():
                text = part.text if part.type == "output_text" else part.refusal
                self.refused = self.refused or part.type == "refusal"
                if text:
                    self.add_text(text, end)

    def _conclude(self, response: _Response) -> None:
        status = response.status
        if status == "failed" or response.error is not None:
            raise _reported(response.error, None)
        if status == "incomplete":
            reason = response.incomplete_details.reason if response.incomplete_details else None
            self.stopped(reason or status)
        elif status in ("completed", None):
            self.stopped("tool_calls" if self.calls else status or "completed")
        else:
            raise UnreadableResponse(f"its status is {status!r}")
        self.seen = True
        usage = response.usage
        if isinstance(usage, _Usage):
            if usage.input_tokens is not None and usage.output_tokens is not None:
                self.usage = Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
        elif usage is not None:
            self.usage = NO_USAGE


def _reported(error: Any, code: str | None) -> ErrorInAnswer:
    """The server's error, with a kind according to its code. Errors caused by the request are not retried."""
    if isinstance(error, dict):
        found = error.get("code") or error.get("type")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        code = found if isinstance(found, str) else code
    message = message_in(error) or "no message"
    kind: ModelErrorKind = "server"
    if code == "rate_limit_exceeded":
        kind = "rate_limit"
    elif code is not None and (code.startswith("invalid") or code == "context_length_exceeded"):
        kind = "refused"
    return ErrorInAnswer(f"{code}: {message}" if code else message, kind=kind, retryable=kind != "refused")


class Responses(VendorWire):
    """A `Wire`. Nothing is stored on the server: `store` is false, and every request has the whole exchange."""

    what: ClassVar[str] = "a response"
    dialect: ClassVar[WireDialect] = "openai_responses"
    text_format: bool = True

    def reader(self, request: ChatRequest) -> AnswerReader:
        return ResponsesReader()

    def token_limit(self, request: ChatRequest) -> int | None:
        return self.settings.token_limit(request, "max_output_tokens")

    def without(self, status: int, message: str, request: ChatRequest) -> Responses | None:
        if status not in REFUSALS:
            return None
        if self.text_format and _format(request) is not None and ("text.format" in message or "schema" in message):
            return msgspec.structs.replace(self, text_format=False)
        if self.stream and STREAM.search(message):
            return msgspec.structs.replace(self, stream_refused=True)
        return None

    def encode(self, request: ChatRequest) -> bytes:
        settings = self.settings
        if (given := client_body(request, self.dialect)) is not None:
            return encode({**given, "model": settings.model, **settings.body})
        body: dict[str, Any] = {
            "model": settings.model,
            "input": [item for message in request.messages for item in _items(message)],
            "store": False,
        }
        if self.stream:
            body["stream"] = True
        if request.temperature is not None and settings.temperature:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body["max_output_tokens"] = request.max_tokens
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        wanted = _format(request)
        if wanted is not None and self.text_format:
            body["text"] = {"format": wanted}
        body.update(settings.body)
        return encode(body)


def _items(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "function_call_output", "call_id": message.tool_call_id or "", "output": message.content}
        return
    if message.content or not message.tool_calls:
        yield {"role": message.role, "content": message.content}
    for call in message.tool_calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments_text}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    """`strict` is on by default, and supports only part of JSON Schema."""
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


_CUT = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}
_ROLES: dict[str, Role] = {"developer": "system", "system": "system", "assistant": "assistant"}


class OpenAIResponses(Interface):
    """Nothing is stored between calls, so a client must send the whole exchange each time."""

    dialect: ClassVar[WireDialect] = "openai_responses"
    stream_type: ClassVar[str] = EVENT_STREAM

    def read(self, body: dict[str, Any]) -> ChatRequest:
        if body.get("previous_response_id"):
            raise BadRequest("`previous_response_id` is not known here: send the whole exchange as `input`")
        messages: list[Message] = []
        if instructions := body.get("instructions"):
            messages.append(Message(role="system", content=text_of(instructions)))
        given = body.get("input")
        if isinstance(given, str):
            messages.append(Message(role="user", content=given))
        else:
            for item in objects(given, "input"):
                messages.extend(_item(item))
        wanted = object_of(object_of(body.get("text")).get("format"))
        tools = objects(body.get("tools"), "tools")
        return ChatRequest(
            messages=named_results(messages),
            tools=tuple(tool_spec(each, "parameters") for each in tools if each.get("type") == "function"),
            other_tools=other_tools(tools, "function"),
            temperature=number(body, "temperature"),
            max_tokens=whole_number(body, "max_output_tokens"),
            json_schema=object_of(wanted.get("schema")) or None,
            json_mode=wanted.get("type") == "json_object",
        )

    def whole(self, response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]:
        reason = _CUT.get(finish_of(response))
        made = _head(body, "completed" if reason is None else "incomplete")
        made["output"] = _output(response, body)
        made["incomplete_details"] = None if reason is None else {"reason": reason}
        if (usage := response.usage) is not None:
            made["usage"] = {
                "input_tokens": usage.input_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.input_tokens + usage.output_tokens,
            }
        return made

    def stream(self, body: Mapping[str, Any], known: ChatResponse | None = None) -> AnswerStream:
        refused = known is not None and known.finish_reason is FinishReason.REFUSAL
        return _ResponseEvents(self, body, refused=refused)


class _ResponseEvents:
    """An `AnswerStream`: the text is one item, and every tool call another."""

    def __init__(self, interface: OpenAIResponses, body: Mapping[str, Any], *, refused: bool) -> None:
        self._interface = interface
        self._body = body
        self._kind = "refusal" if refused else "text"
        self._name = "response.refusal" if refused else "response.output_text"
        self._extra: dict[str, Any] = {} if refused else {"logprobs": []}
        self._sequence: int = 0
        self._text: bool = False
        self._place: dict[str, Any] = {"item_id": _message_id(body), "output_index": 0, "content_index": 0}

    def open(self) -> bytes:
        begun = {"response": _head(self._body, "in_progress")}
        return self._event("response.created", begun) + self._event("response.in_progress", begun)

    def piece(self, text: str) -> bytes:
        begun = b"" if self._text else self._begin_text()
        return begun + self._event(f"{self._name}.delta", {**self._place, **self._extra, "delta": text})

    def close(self, response: ChatResponse) -> bytes:
        made = self._interface.whole(response, self._body)
        items = [
            self._text_done(index, item) if item["type"] == "message" else self._call(index, item)
            for index, item in enumerate(made["output"])
        ]
        return b"".join(items) + self._event(f"response.{made['status']}", {"response": made})

    def fail(self, message: str) -> bytes:
        return self._event("error", {"code": None, "message": message, "param": None})

    def _begin_text(self) -> bytes:
        self._text = True
        item: dict[str, Any] = {
            "id": self._place["item_id"],
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        part = {**_part(self._kind), self._kind: ""}
        added = self._event("response.output_item.added", {"output_index": 0, "item": item})
        return added + self._event("response.content_part.added", {**self._place, "part": part})

    def _text_done(self, index: int, item: dict[str, Any]) -> bytes:
        begun = b"" if self._text else self._begin_text()
        part = {**_part(self._kind), self._kind: item["content"][0].get("text", item["content"][0].get("refusal"))}
        return (
            begun
            + self._event(f"{self._name}.done", {**self._place, **self._extra, self._kind: part[self._kind]})
            + self._event("response.content_part.done", {**self._place, "part": part})
            + self._event("response.output_item.done", {"output_index": index, "item": {**item, "content": [part]}})
        )

    def _call(self, index: int, item: dict[str, Any]) -> bytes:
        place = {"item_id": item["id"], "output_index": index}
        empty: dict[str, Any] = {**item, "status": "in_progress", "arguments": ""}
        done = {**place, "arguments": item["arguments"], "name": item["name"]}
        return (
            self._event("response.output_item.added", {"output_index": index, "item": empty})
            + self._event("response.function_call_arguments.delta", {**place, "delta": item["arguments"]})
            + self._event("response.function_call_arguments.done", done)
            + self._event("response.output_item.done", {"output_index": index, "item": item})
        )

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
        number = self._sequence
        self._sequence += 1
        return sse(encode({"type": kind, "sequence_number": number, **fields}), kind)


def _item(item: dict[str, Any]) -> Iterator[Message]:
    kind = item.get("type", "message")
    if kind == "function_call":
        call = tool_call(item.get("call_id"), item.get("name"), item.get("arguments"))
        yield Message(role="assistant", tool_calls=(call,))
    elif kind == "function_call_output":
        output = item.get("output")
        content = output if isinstance(output, str) else text_of(output)
        yield Message(role="tool", content=content, tool_call_id=str(item.get("call_id") or ""))
    elif kind == "message":
        role = _ROLES.get(str(item.get("role")), "user")
        yield Message(role=role, content=text_of(item.get("content")))


def _head(body: Mapping[str, Any], status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{_digest(body)}",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": str(body.get("model", "")),
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "temperature": body.get("temperature"),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "usage": None,
    }


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(encode(body)).hexdigest()[:32]


def _message_id(body: Mapping[str, Any]) -> str:
    return f"msg_{_digest(body)}"


def _part(kind: str) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": "refusal", "refusal": ""}
    return {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


def _output(response: ChatResponse, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if response.text or not response.tool_calls:
        kind = "refusal" if response.finish_reason is FinishReason.REFUSAL else "text"
        part: dict[str, Any] = {**_part(kind), kind: response.text}
        said = {"type": "message", "status": "completed", "role": "assistant", "content": [part]}
        items.append({"id": _message_id(body), **said})
    items.extend(
        {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments_text,
        }
        for call in response.tool_calls
    )
    return items
