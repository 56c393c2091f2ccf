"""What every vendor's answer is read into: text, tool calls, tokens, and how much of the body each piece took."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, cast

import msgspec

from steadyhand.builtin.models.sse import DONE, EventStream
from steadyhand.errors import ModelErrorKind
from steadyhand.records.chat import FinishReason, ToolCall, Usage


class Unreadable(Exception):
    """The answer is not what the interface promises; the text says how."""


class ErrorInAnswer(Exception):
    """The server reported an error inside a successful response; the text is its message."""

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
            return ToolCall(id=identity, name=self.name, arguments=_decode_arguments(raw))
        except (msgspec.DecodeError, UnicodeEncodeError):
            return ToolCall(id=identity, name=self.name, raw=raw)


_decode_arguments = msgspec.json.Decoder(dict[str, Any]).decode


class AnswerReader(ABC):
    """Collects one answer, in pieces or whole; each wire's reader says what an event means, in `read`.

    `pieces` are (bytes of the body it took, number of characters); `first_token` and `done` are bytes of the body too,
    `done` None until the answer says that it is over. `finish_reason` is the server's own word, and `refused` whether
    the text is marked as a refusal. Raises `Unreadable` and `ErrorInAnswer`.
    """

    ends: ClassVar[tuple[bytes, ...]] = ()
    """Bytes that are in the event an answer ends with, or in one that says it failed."""

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
        return tuple(call.finished(number) for number, (_, call) in enumerate(self.calls))

    def finish(self, *, streamed: bool) -> FinishReason | None:
        """How the answer ended. A stream has to say so: without that nobody can tell whether it is all there."""
        if self.finish_reason is None:
            return FinishReason.UNKNOWN if streamed else None
        reason = FinishReason(self.finish_reason)
        return FinishReason.REFUSAL if self.refused and reason is FinishReason.STOP else reason

    @property
    def ended(self) -> bool:
        """Whether a stream that ends here has brought the whole answer."""
        return self.done is not None

    def feed(self, block: bytes) -> bool:
        """Read a block of an event stream; whether the answer's end was in it. What follows that is not read.

        Only chat completions end with `[DONE]`; elsewhere it is a gateway's, and says nothing.
        """
        for data, end in self.events.feed(block):
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
        """Take in one event that was complete after `end` bytes of the body."""

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


def not_read(error: Exception, data: bytes) -> Unreadable:
    """For a document that could not be decoded: what was wrong, and how it starts."""
    return Unreadable(f"{error}: {data[:80].decode('utf-8', 'replace')!r}")


def error_text(body: bytes) -> str:
    """The message in an error response, whatever shape it has."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return " ".join(body.decode("utf-8", "replace").split())
    return message_in(value) or " ".join(body.decode("utf-8", "replace").split())


def error_code(body: bytes) -> str | None:
    """`error.code` or `error.type` of an error body."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    error = cast("dict[str, Any]", value).get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return None
    found = cast("dict[str, Any]", error).get("code") or cast("dict[str, Any]", error).get("type")
    return found if isinstance(found, str) else None


def message_in(value: Any) -> str | None:
    """The first text that looks like a message in an error object."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        for name in ("error", "message", "detail", "msg"):
            found = message_in(fields.get(name))
            if found:
                return found
    if isinstance(value, list) and value:
        return message_in(cast("list[Any]", value)[0])
    return None
