"""Server-sent events, and the base class of every vendor's reader: text, tool calls, tokens, and their positions in the
body."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, ClassVar, cast

import msgspec

from steadyhand.errors import ModelErrorKind
from steadyhand.records.base import shorten, too_deep
from steadyhand.records.chat import FinishReason, ToolCall, Usage

_BOM = b"\xef\xbb\xbf"
DONE = b"[DONE]"
_DATA = b"data: "
_MESSAGE_DEPTH = 8


ServerEvents = tuple[list[bytes], list[int]]
"""The data of each event, and how many bytes of the stream it took to complete it."""


class EventStream:
    """Splits a stream of bytes into events. Lines end in LF or CRLF; `event:`, `id:` and comments are skipped.

    An event ends at its blank line, except `[DONE]`, which ends with its own line: nothing may follow it, so the answer
    is complete when it arrives. An incomplete event at the end of the stream is dropped.
    """

    __slots__ = ("_data", "_end", "_rest")

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._end: int = 0

    def feed(self, block: bytes) -> ServerEvents:
        events: ServerEvents = ([], [])
        rest = self._rest
        if not rest and not self._data:
            events, block = self._take_plain(block)
            if not block:
                return events
        rest.append(block)
        if b"\n" not in block:
            return events
        self._take_lines(block, *events)
        return events

    def _take_lines(self, block: bytes, events: list[bytes], ends: list[int]) -> None:
        rest = self._rest
        lines = (b"".join(rest) if len(rest) > 1 else block).split(b"\n")
        tail = lines.pop()
        self._rest = [tail] if tail else []
        data = self._data
        end = self._end
        for line in lines:
            end += len(line) + 1
            if line[-1:] == b"\r":
                line = line[:-1]  # noqa: PLW2901 - a local copy
            if not line:
                if data:
                    events.append(data[0] if len(data) == 1 else b"\n".join(data))
                    ends.append(end)
                    data.clear()
                continue
            if line[:1] != b"d":
                line = line.removeprefix(_BOM)  # noqa: PLW2901
            if line[:5] == b"data:":
                value = line[6:] if line[5:6] == b" " else line[5:]
                if value == DONE and not data:
                    events.append(value)
                    ends.append(end)
                else:
                    data.append(value)
        self._end = end

    def _take_plain(self, block: bytes) -> tuple[ServerEvents, bytes]:
        """The events of a block in which each is a single data line, as nearly all are, and the rest of the block.

        The rest is the whole block if it has any other form.
        """
        if block[:6] != _DATA:
            return ([], []), block
        events = block[6:].split(b"\n\ndata: ")
        last, rest = events[-1], b""
        if last[-2:] == b"\n\n":
            events[-1] = last[:-2]
        else:
            rest = _DATA + events.pop()
        if b"\n" in b"".join(events) or b"\r" in block:
            return ([], []), block
        ends: list[int] = []
        end = self._end
        for data in events:
            end += len(data) + 8
            ends.append(end - 1 if data == DONE else end)
        self._end = end
        return (events, ends), rest


_finish_reason = lru_cache(maxsize=64)(FinishReason)

NOT_DECODED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises for a document that is not JSON, has a different shape, or is nested too deeply."""


class UnreadableResponse(Exception):
    """The answer does not follow the API; the message says how."""


class ErrorInAnswer(Exception):
    """The server reported an error inside a successful response; the message is the server's."""

    def __init__(self, message: str, *, kind: ModelErrorKind = "server", retryable: bool = True) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.retryable: bool = retryable


class PartialCall:
    """A tool call whose arguments arrive in pieces."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self, identity: str = "", name: str = "") -> None:
        self.id: str = identity
        self.name: str = name
        self.arguments: list[str] = []

    def finished(self, number: int) -> ToolCall:
        identity = self.id or f"call_{number}"
        raw = "".join(self.arguments)
        if not raw.strip():
            return ToolCall(id=identity, name=self.name)
        try:
            arguments = _decode_arguments(raw)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return ToolCall(id=identity, name=self.name, raw=raw)
        if too_deep(arguments):
            return ToolCall(id=identity, name=self.name, raw=raw)
        return ToolCall(id=identity, name=self.name, arguments=arguments)


_decode_arguments = msgspec.json.Decoder(dict[str, Any]).decode


class AnswerReader(ABC):
    """Collects one answer, streamed or complete. Each wire's reader defines in `read` what an event means.

    `pieces` are (position in the body, number of characters); `first_token` and `done` are positions in the body too,
    and `done` is None until the answer ends. `finish_reason` is the server's own term; `refused` says whether the text
    is marked as a refusal. Raises `UnreadableResponse` and `ErrorInAnswer`.
    """

    ends: ClassVar[tuple[bytes, ...]] = ()
    """Bytes that occur in the last event of an answer, or in one that reports an error."""

    __slots__ = (
        "calls",
        "done",
        "events",
        "finish_reason",
        "first_token",
        "pieces",
        "refused",
        "seen",
        "texts",
        "usage",
    )

    def __init__(self) -> None:
        self.events = EventStream()
        self.texts: list[str] = []
        self.calls: list[tuple[int | None, PartialCall]] = []
        self.pieces: list[tuple[int, int]] = []
        self.first_token: int | None = None
        self.finish_reason: str | None = None
        self.refused: bool = False
        self.usage: Usage | None = None
        self.seen: bool = False
        self.done: int | None = None

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        if not self.calls:
            return ()
        return tuple(call.finished(number) for number, (_, call) in enumerate(self.calls))

    def stopped(self, word: str) -> None:
        """The server says how the answer ended. If it says so twice, the worse counts: a filter may act late."""
        if self.finish_reason is None or _finish_reason(word).rank <= _finish_reason(self.finish_reason).rank:
            self.finish_reason = word

    def finish(self, *, streamed: bool) -> FinishReason | None:
        """How the answer ended. A stream must say so, or it may be incomplete."""
        if self.finish_reason is None:
            return FinishReason.UNKNOWN if streamed else None
        reason = _finish_reason(self.finish_reason)
        return FinishReason.REFUSAL if self.refused and reason is FinishReason.STOP else reason

    @property
    def ended(self) -> bool:
        """Whether the answer is complete if the stream ends here."""
        return self.done is not None

    def feed(self, block: bytes) -> bool:
        """Read a block of an event stream. Returns whether the answer ended in it; nothing after that is read.

        Only chat completions end with `[DONE]`. Elsewhere a gateway may add it, but it means nothing.
        """
        for data, end in zip(*self.events.feed(block), strict=True):
            if data != DONE:
                self.read(data, end)
            if self.done is not None:
                return True
        return False

    def whole(self, body: bytes) -> None:
        """Read a body that is one JSON document."""
        self.read(body, len(body))

    @abstractmethod
    def read(self, data: bytes, end: int) -> None:
        """Read one event, which was complete after `end` bytes of the body."""

    def add_text(self, text: str, end: int) -> None:
        self.texts.append(text)
        self.pieces.append((end, len(text)))
        if self.first_token is None:
            self.first_token = end

    def call_numbered(self, index: int | None) -> PartialCall | None:
        for known, call in self.calls:
            if known == index:
                return call
        return None


def not_read(error: Exception, data: bytes) -> UnreadableResponse:
    """The error for a document that could not be decoded: what was wrong, and how it starts."""
    return UnreadableResponse(f"{error}: {shorten(data.decode('utf-8', 'replace'), 80)!r}")


def error_text(body: bytes) -> str:
    """The message in an error response of any shape."""
    try:
        value = msgspec.json.decode(body)
    except NOT_DECODED:
        return " ".join(body.decode("utf-8", "replace").split())
    if too_deep(value):
        return " ".join(body.decode("utf-8", "replace").split())
    return message_in(value) or " ".join(body.decode("utf-8", "replace").split())


def error_code(body: bytes) -> str | None:
    """`error.code` or `error.type` of an error body."""
    try:
        value = msgspec.json.decode(body)
    except NOT_DECODED:
        return None
    if too_deep(value):
        return None
    error = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return None
    found = cast("dict[str, Any]", error).get("code") or cast("dict[str, Any]", error).get("type")
    return found if isinstance(found, str) else None


def message_in(value: Any) -> str | None:
    """The first text in an error object that looks like a message, unless it is nested too deeply."""
    return _message_in(value, _MESSAGE_DEPTH)


def _message_in(value: Any, depth: int) -> str | None:
    if depth < 0:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name in ("error", "message", "detail", "msg"):
            found = _message_in(fields.get(name), depth - 1)
            if found:
                return found
    if isinstance(value, list) and value:
        return _message_in(cast("list[Any]", value)[0], depth - 1)
    return None
