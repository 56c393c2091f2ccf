"""Anthropic's messages, streamed or whole, read into text, tool calls and arrival times."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from steadyhand.builtin.models.http.stream import AnswerReader, ErrorInAnswer, PartialCall, Unreadable, not_read
from steadyhand.errors import ModelErrorKind
from steadyhand.records.chat import Usage

_encode = msgspec.json.Encoder().encode
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
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class _Message(msgspec.Struct, gc=False):
    type: str | None = None
    content: list[_Block] | None = None
    stop_reason: str | None = None
    usage: _Usage | None = None
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
    usage: _Usage | None = None
    error: _Error | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_message = msgspec.json.Decoder(_Message).decode


class MessagesReader(AnswerReader):
    """Reads a message. A stream is over only with `message_stop`; events and blocks that are not known are skipped.

    `answer_tool` names the tool that stands in for an output format: its input is the text of the answer.
    """

    ends: ClassVar[tuple[bytes, ...]] = (b"message_stop", b'"error"')
    __slots__ = ("_answer_tool", "_as_text", "_input")  # _input: tokens read, fresh, written to and read from a cache

    def __init__(self, *, answer_tool: str | None = None) -> None:
        super().__init__()
        self._answer_tool = answer_tool
        self._as_text: set[int | None] = set()
        self._input: list[int | None] = [None, None, None]

    def whole(self, body: bytes) -> None:
        try:
            message = _decode_message(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise not_read(error, body) from error
        if message.type == "error":
            raise _reported(msgspec.convert(message.error, _Error | None))
        if message.content is None:
            raise Unreadable("it has no content")
        for index, block in enumerate(message.content):
            self._start(block, index, len(body))
        self._count(message.usage, final=True)
        self._stopped(message.stop_reason)
        self.seen = True

    def read(self, data: bytes, end: int) -> None:
        try:
            event = _decode_event(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
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
                raise _reported(event.error) if event.error is not None else Unreadable("an event has no type")
            case _:
                pass

    def _start(self, block: _Block, index: int | None, end: int) -> None:
        """A block begins; what it already holds is all of it in a whole answer, and nothing in a stream."""
        if block.type == "text":
            if block.text:
                self.add_text(block.text, end)
        elif block.type == "tool_use":
            if self._answer_tool is not None and block.name == self._answer_tool:
                self._as_text.add(index)
                if block.input:
                    self.add_text(_encode(block.input).decode(), end)
                return
            call = PartialCall(block.id or "", block.name or "")
            if block.input:
                call.arguments.append(_encode(block.input).decode())
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

    def _count(self, usage: _Usage | None, *, final: bool) -> None:
        """Tokens read, cached or not, are told at the start; tokens written, in all, with the end."""
        if usage is None:
            return
        told = (usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
        self._input = [known if new is None else new for known, new in zip(self._input, told, strict=True)]
        if final and self._input[0] is not None and usage.output_tokens is not None:
            read = sum(part or 0 for part in self._input)
            self.usage = Usage(input_tokens=read, output_tokens=usage.output_tokens)

    def _stopped(self, reason: str | None) -> None:
        if reason is None:
            return
        if reason == "tool_use" and self._as_text and not self.calls:
            reason = "end_turn"
        self.finish_reason = reason


def _reported(error: _Error | None) -> ErrorInAnswer:
    if error is None:
        return ErrorInAnswer("no message")
    kind = _ERRORS.get(error.type or "", "server")
    message = error.message or "no message"
    text = f"{error.type}: {message}" if error.type else message
    return ErrorInAnswer(text, kind=kind, retryable=kind in ("server", "rate_limit"))
