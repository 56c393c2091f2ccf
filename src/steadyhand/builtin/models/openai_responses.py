"""OpenAI's Responses API: the request, and how an answer is read, streamed or complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from steadyhand.builtin.models.http.model import client_body
from steadyhand.builtin.models.http.settings import Asking
from steadyhand.builtin.models.http.stream import (
    NOT_DECODED,
    AnswerReader,
    ErrorInAnswer,
    PartialCall,
    UnreadableResponse,
    message_in,
    not_read,
)
from steadyhand.builtin.models.openai_chat import REFUSALS, STREAM
from steadyhand.errors import ModelErrorKind
from steadyhand.records.base import Record
from steadyhand.records.chat import NO_USAGE, ChatRequest, Message, ToolSpec, Usage, WireDialect


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


_encode = msgspec.json.Encoder().encode


class Responses(Record):
    """A `Wire`. Nothing is stored on the server: `store` is false, and every request has the whole exchange."""

    asking: Asking
    stream_refused: bool = False
    text_format: bool = True

    @property
    def what(self) -> str:
        return "a response"

    @property
    def dialect(self) -> WireDialect:
        return "openai_responses"

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
        if (given := client_body(request, self.dialect)) is not None:
            return _encode({**given, "model": asking.model, **asking.body})
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
