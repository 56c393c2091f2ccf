"""What a vendor's API is to a client and to a server, and what the APIs have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast

import msgspec

from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, ToolCall, ToolSpec, WireDialect
from steadyhand.wire.stream import AnswerReader

encode = msgspec.json.Encoder().encode
EVENT_STREAM = "text/event-stream; charset=utf-8"


class RequestSettings(Record):
    """How requests are written. `body` comes from the user and overrides everything else."""

    model: str
    stream: bool = True
    seed: bool = False
    temperature: bool = True
    body: dict[str, Any] = {}
    api: str = "chat"
    max_tokens: int | None = None

    def token_limit(self, request: ChatRequest, *fields: str) -> int | None:
        """The token limit that is sent: the request's, the settings', or one of `fields` in the user's `body`."""
        if self.body:
            own = next((value for name in fields if isinstance(value := self.body.get(name), int)), None)
            if own is not None:
                return own
        return self.max_tokens if request.max_tokens is None else request.max_tokens


class Wire(Protocol):
    """A vendor's API, reduced to what this server is known to support."""

    what: ClassVar[str]
    """What an answer is called in messages, such as "a chat completion"."""

    dialect: ClassVar[WireDialect]

    @property
    def stream(self) -> bool: ...

    def encode(self, request: ChatRequest) -> bytes:
        """The body to post."""
        ...

    def reader(self, request: ChatRequest) -> AnswerReader: ...

    def token_limit(self, request: ChatRequest) -> int | None:
        """The token limit of the request, or None if it sets none."""
        ...

    def without(self, status: int, message: str, request: ChatRequest) -> Wire | None:
        """The wire to try after this refusal, or None if the refusal is about something else."""
        ...


class VendorWire(Record):
    """What the wires of the vendors have in common: how they ask, and whether the server streams."""

    settings: RequestSettings
    stream_refused: bool = False

    @property
    def stream(self) -> bool:
        return self.settings.stream and not self.stream_refused


def client_body(request: ChatRequest, dialect: WireDialect) -> dict[str, Any] | None:
    """The request of an agent's client, if this wire can send it unchanged."""
    client = request.client
    return client.fields if client is not None and client.dialect == dialect else None


class BadRequest(Exception):
    """The agent's request is not a valid model request; the message says why."""


class AnswerStream(Protocol):
    """Writes one answer as server-sent events while it arrives."""

    def open(self) -> bytes: ...

    def piece(self, text: str) -> bytes: ...

    def close(self, response: ChatResponse) -> bytes:
        """The rest of the answer: tool calls, finish reason, and token counts."""
        ...

    def fail(self, message: str) -> bytes:
        """The answer breaks off here."""
        ...


class Interface(Protocol):
    """One vendor's API: reads a client's request, and writes a model's answer."""

    dialect: ClassVar[WireDialect]
    stream_type: ClassVar[str]
    """The content type of a streamed answer."""

    def read(self, body: dict[str, Any]) -> ChatRequest:
        """Raises `BadRequest`."""
        ...

    def whole(self, response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]: ...

    def stream(self, body: Mapping[str, Any], known: ChatResponse | None = None) -> AnswerStream:
        """`known` is the answer, if it is already complete."""
        ...

    def filter(self, body: Mapping[str, Any]) -> Callable[[bytes], bytes] | None:
        """A filter that removes from a provider's stream, chunk by chunk, what the client did not request."""
        return None


def events(interface: Interface, response: ChatResponse, body: Mapping[str, Any]) -> bytes:
    """A complete answer as server-sent events."""
    stream = interface.stream(body, response)
    return stream.open() + b"".join(map(stream.piece, pieces(response))) + stream.close(response)


def objects(value: Any, where: str) -> list[dict[str, Any]]:
    """Raises `BadRequest` for anything that is not a list of objects."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in cast("list[Any]", value)):
        raise BadRequest(f"`{where}` should be a list of objects")
    return cast("list[dict[str, Any]]", value)


def object_of(value: Any) -> dict[str, Any]:
    """The object, or an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def tool_spec(given: dict[str, Any], parameters: str) -> ToolSpec:
    """A tool that a client offers; `parameters` is where its schema is."""
    return ToolSpec(
        name=str(given.get("name", "")),
        description=str(given.get("description") or ""),
        parameters=object_of(given.get(parameters)),
    )


def other_tools(tools: Sequence[Mapping[str, Any]], *read: str) -> tuple[str, ...]:
    """The kinds of the tools that are not of the kinds that are `read`."""
    kinds = (str(each.get("type") or "unknown") for each in tools)
    return tuple(dict.fromkeys(kind for kind in kinds if kind not in read))


def text_of(content: Any) -> str:
    """The text of content that is a string, or a list of parts. Parts such as images have none."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return text_of([content])
    texts: list[str] = []
    for part in cast("list[Any]", content) if isinstance(content, list) else []:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            held = cast("dict[str, Any]", part)
            found = held.get("text", held.get("refusal"))
            texts.append(found if isinstance(found, str) else text_of(held.get("content")))
    return "".join(texts)


def tool_call(identity: Any, name: Any, arguments: Any) -> ToolCall:
    """A call that a client repeats, its arguments as an object or as JSON."""
    raw = arguments if isinstance(arguments, str) else None
    if raw is not None:
        arguments = None
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            arguments = msgspec.json.decode(raw) if raw.strip() else {}
    if isinstance(arguments, dict):
        return ToolCall(id=str(identity or ""), name=str(name or ""), arguments=cast("dict[str, Any]", arguments))
    return ToolCall(id=str(identity or ""), name=str(name or ""), raw=raw if raw is not None else repr(arguments))


def named_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages, with the tool's name on every result whose call is among them."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return tuple(
        msgspec.structs.replace(message, name=names[message.tool_call_id])
        if message.role == "tool" and message.name is None and message.tool_call_id in names
        else message
        for message in messages
    )


def number(body: Mapping[str, Any], *names: str) -> float | None:
    for name in names:
        value = body.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    return None


def whole_number(body: Mapping[str, Any], *names: str) -> int | None:
    found = number(body, *names)
    return None if found is None else int(found)


def pieces(response: ChatResponse) -> list[str]:
    """The text, split into its original chunks."""
    found: list[str] = []
    at = 0
    for _, characters in response.chunks:
        found.append(response.text[at : at + characters])
        at += characters
    if at < len(response.text):
        found.append(response.text[at:])
    return [piece for piece in found if piece]


def finish_of(response: ChatResponse) -> FinishReason:
    if response.finish_reason in (None, FinishReason.STOP) and response.tool_calls:
        return FinishReason.TOOL_CALLS
    return response.finish_reason or FinishReason.STOP


def sse(data: bytes, name: str | None = None) -> bytes:
    head = b"" if name is None else b"event: " + name.encode() + b"\n"
    return head + b"data: " + data + b"\n\n"


def joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)
