"""OpenAI's answers, streamed or whole, read into text, tool calls and arrival times."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from holdfast.builtin.models.sse import DONE, EventStream
from holdfast.records.message import ToolCall
from holdfast.records.model import Usage


class Unreadable(Exception):
    """The answer is not what the interface promises; the text says how."""


class ErrorInAnswer(Exception):
    """The server reported an error inside a successful response; the text is its message."""


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Content(msgspec.Struct, gc=False):
    """A streamed delta or a whole message: both have this shape."""

    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Content | None = None
    message: _Content | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None
    message: str | None = None


class _PartialCall:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id: str = ""
        self.name: str = ""
        self.arguments: list[str] = []

    def finished(self, number: int) -> ToolCall:
        identity = self.id or f"call_{number}"
        raw = "".join(self.arguments)
        if not raw.strip():
            return ToolCall(id=identity, name=self.name)
        try:
            return ToolCall(id=identity, name=self.name, arguments=_decode_arguments(raw))
        except (msgspec.DecodeError, UnicodeEncodeError):
            return ToolCall(id=identity, name=self.name, raw=raw)


_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_arguments = msgspec.json.Decoder(dict[str, Any]).decode


class AnswerReader:
    """Collects one answer, in pieces or whole. `pieces` are (bytes of the body it took, number of characters).

    Raises `Unreadable` for what is not a chat completion and `ErrorInAnswer` for an error reported in its place.
    """

    __slots__ = ("_calls", "_events", "_texts", "done", "finish_reason", "first_token", "pieces", "seen", "usage")

    def __init__(self) -> None:
        self._events = EventStream()
        self._texts: list[str] = []
        self._calls: list[tuple[int | None, _PartialCall]] = []
        self.pieces: list[tuple[int, int]] = []
        self.first_token: int | None = None
        self.finish_reason: str | None = None
        self.usage: Usage | None = None
        self.seen: bool = False
        self.done: int | None = None

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call.finished(number) for number, (_, call) in enumerate(self._calls))

    def feed(self, block: bytes) -> bool:
        """Read a block of an event stream; whether `[DONE]` was in it. What follows that is not read."""
        for data, end in self._events.feed(block):
            if data == DONE:
                self.done = end
                return True
            self._read(data, end)
        return False

    def whole(self, body: bytes) -> None:
        """Read a body that is one JSON document."""
        self._read(body, len(body))

    def _read(self, data: bytes, end: int) -> None:
        try:
            answer = _decode_answer(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreadable(f"{error}: {_start(data)}") from error
        if answer.error is not None or answer.object == "error":
            raise ErrorInAnswer(_error_message(answer))
        usage = answer.usage
        if usage is not None and usage.prompt_tokens is not None and usage.completion_tokens is not None:
            self.usage = Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
        for choice in answer.choices or ():
            if choice.index == 0:
                self._take(choice, end)

    def _take(self, choice: _Choice, end: int) -> None:
        self.seen = True
        if choice.finish_reason is not None:
            self.finish_reason = choice.finish_reason
        content = choice.delta if choice.delta is not None else choice.message
        if content is None:
            return
        text = content.content
        if text is None:
            text = content.refusal
        elif not isinstance(text, str):
            text = _text_parts(text)
        if text:
            self._texts.append(text)
            self.pieces.append((end, len(text)))
            if self.first_token is None:
                self.first_token = end
        if content.tool_calls:
            if self.first_token is None:
                self.first_token = end
            for call in content.tool_calls:
                self._take_call(call, whole=choice.delta is None)

    def _take_call(self, delta: _ToolCall, *, whole: bool) -> None:
        call = None if whole else self._call_for(delta)
        if call is None:
            call = _PartialCall()
            self._calls.append((delta.index, call))
        if delta.id:
            call.id = delta.id
        function = delta.function
        if function is None:
            return
        if function.name:
            call.name = function.name
        if isinstance(function.arguments, str):
            call.arguments.append(function.arguments)
        elif function.arguments is not None:
            call.arguments.append(msgspec.json.encode(function.arguments).decode())

    def _call_for(self, delta: _ToolCall) -> _PartialCall | None:
        """The call a delta continues, if any. Some servers leave out the index, or give every call the same one."""
        for index, known in reversed(self._calls):
            if index == delta.index and not (delta.id and known.id and delta.id != known.id):
                return known
        return None


def error_text(body: bytes) -> str:
    """The message in an error response, whatever shape it has."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return " ".join(body.decode("utf-8", "replace").split())
    return _message_in(value) or " ".join(body.decode("utf-8", "replace").split())


def error_code(body: bytes) -> str | None:
    """`error.code` or `error.type` of OpenAI's error body."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    error = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return None
    found = cast("dict[str, Any]", error).get("code") or cast("dict[str, Any]", error).get("type")
    return found if isinstance(found, str) else None


def _error_message(answer: _Answer) -> str:
    return _message_in(answer.error) or answer.message or "no message"


def _message_in(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name in ("error", "message", "detail", "msg"):
            found = _message_in(fields.get(name))
            if found:
                return found
    if isinstance(value, list) and value:
        return _message_in(cast("list[Any]", value)[0])
    return None


def _text_parts(parts: list[Any]) -> str:
    """The text of content given as a list of parts; thinking and the like is not part of it."""
    texts: list[str] = []
    for part in parts:
        fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        text = fields.get("text")
        if fields.get("type") in ("text", "output_text") and isinstance(text, str):
            texts.append(text)
    return "".join(texts)


def _start(data: bytes) -> str:
    return repr(data[:80].decode("utf-8", "replace"))
