"""OpenAI's Chat Completions API: requests and answers, streamed or complete, written and read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, cast

import msgspec

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
    DONE,
    NOT_DECODED,
    AnswerReader,
    ErrorInAnswer,
    PartialCall,
    UnreadableResponse,
    message_in,
    not_read,
)


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Content(msgspec.Struct, gc=False):
    """A streamed delta or a complete message; both have this shape."""

    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Content | None = None
    message: _Content | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Any = None
    completion_tokens: Any = None


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | str | float | list[Any] | None = None
    error: Any = None
    object: str | None = None
    message: str | None = None


_NO_CHOICE = _Choice()
_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_answers = msgspec.json.Decoder(list[_Answer]).decode


class ChatReader(AnswerReader):
    """Reads a chat completion. A stream may end with a finish reason and without `[DONE]`."""

    ends: ClassVar[tuple[bytes, ...]] = (b"[DONE]", b'"error"')
    __slots__ = ()

    @property
    def ended(self) -> bool:
        return self.done is not None or self.finish_reason is not None

    def feed(self, block: bytes) -> bool:
        events, ends = self.events.feed(block)
        if DONE not in events:
            self._read_all(events, ends)
            return False
        at = events.index(DONE)
        done = ends[at]
        del events[at:], ends[at:]
        self._read_all(events, ends)
        self.done = done
        return True

    def _read_all(self, events: list[bytes], ends: list[int]) -> None:
        """Decode all at once, which costs half as much; only if that fails, one by one to find the bad event."""
        try:
            answers = _decode_answers(b"[" + b",".join(events) + b"]")
        except NOT_DECODED:
            answers = []
        if len(answers) != len(events):
            for data, end in zip(events, ends, strict=True):
                self.read(data, end)
            return
        texts, pieces = self.texts, self.pieces
        for answer, end in zip(answers, ends, strict=True):
            choices = answer.choices
            choice = choices[0] if choices and len(choices) == 1 else _NO_CHOICE
            delta = choice.delta
            if delta is None or choice.index or choice.finish_reason or delta.tool_calls or delta.refusal:
                self._add(answer, end)
                continue
            text = delta.content
            if (
                not text
                or type(text) is not str
                or answer.usage is not None
                or answer.error is not None
                or answer.object == "error"
            ):
                self._add(answer, end)
                continue
            # A piece of text and nothing else, as nearly all are; `_add` would do the same.
            texts.append(text)
            pieces.append((end, len(text)))
            if self.first_token is None:
                self.first_token = end
                self.seen = True

    def whole(self, body: bytes) -> None:
        super().whole(body)
        finish = self.finish(streamed=False)
        if not self.texts and not self.calls and finish in (None, FinishReason.STOP) and not _has_message(body):
            raise UnreadableResponse("it has no message")

    def read(self, data: bytes, end: int) -> None:
        try:
            answer = _decode_answer(data)
        except NOT_DECODED as error:
            raise not_read(error, data) from error
        self._add(answer, end)

    def _add(self, answer: _Answer, end: int) -> None:
        if answer.error is not None or answer.object == "error":
            raise ErrorInAnswer(message_in(answer.error) or answer.message or "no message")
        usage = answer.usage
        if isinstance(usage, _Usage):
            if usage.prompt_tokens is not None and usage.completion_tokens is not None:
                self.usage = Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
        elif usage is not None:
            self.usage = NO_USAGE
        for choice in answer.choices or ():
            if not choice.index:
                self._take(choice, end)

    def _take(self, choice: _Choice, end: int) -> None:
        self.seen = True
        if choice.finish_reason:
            self.stopped(choice.finish_reason)
        content = choice.delta if choice.delta is not None else choice.message
        if content is None:
            return
        text = content.content
        if text is not None and not isinstance(text, str):
            text = _text_parts(text)
        if content.refusal:
            self.refused = True
            text = text or content.refusal
        if text:
            self.add_text(text, end)
        if content.tool_calls:
            if self.first_token is None:
                self.first_token = end
            for call in content.tool_calls:
                self._take_call(call, whole=choice.delta is None)

    def _take_call(self, delta: _ToolCall, *, whole: bool) -> None:
        call = None if whole else self._call_for(delta)
        if call is None:
            call = PartialCall()
            self.calls.append((delta.index, call))
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

    def _call_for(self, delta: _ToolCall) -> PartialCall | None:
        """The call that a delta continues, if any. Some servers omit the index, or give every call the same one."""
        for index, known in reversed(self.calls):
            if index == delta.index and not (delta.id and known.id and delta.id != known.id):
                return known
        return None


def _has_message(body: bytes) -> bool:
    return any(choice.message is not None or choice.delta is not None for choice in _decode_answer(body).choices or ())


def _text_parts(parts: list[Any]) -> str:
    """The text of content given as a list of parts, without thinking and other kinds."""
    texts: list[str] = []
    for part in parts:
        fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
        text = fields.get("text")
        if fields.get("type") in ("text", "output_text") and isinstance(text, str):
            texts.append(text)
    return "".join(texts)


REFUSALS = (400, 404, 405, 415, 422, 501)
STREAM = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)
_SCHEMA = re.compile(r"response_format|json_schema|structured output|guided decoding", re.IGNORECASE)
_FIELD = re.compile(r"response_format|stream_options", re.IGNORECASE)
_MODE = re.compile(r"response_format|json_object|json mode", re.IGNORECASE)


class ChatCompletions(VendorWire):
    """A `Wire`. It starts with everything that the server may support, and drops what the server refuses."""

    what: ClassVar[str] = "a chat completion"
    dialect: ClassVar[WireDialect] = "openai_chat"
    stream_options: bool = True
    json_schema: bool = True
    json_mode: bool = True
    tokens_field: str = "max_tokens"

    def reader(self, request: ChatRequest) -> AnswerReader:
        return ChatReader()

    def token_limit(self, request: ChatRequest) -> int | None:
        return self.settings.token_limit(request, "max_tokens", "max_completion_tokens", "n_predict")

    def without(self, status: int, message: str, request: ChatRequest) -> ChatCompletions | None:
        if status == 500 and _FIELD.search(message):
            status = 400  # llama-cpp-python's server reports an unknown field as a server error
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
        settings = self.settings
        if (given := client_body(request, self.dialect)) is not None:
            body = {**given, "model": settings.model, **settings.body}
            if body.get("stream") and self.stream_options:  # without it nobody says what a stream costs
                options: Any = given.get("stream_options")
                body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
            return encode(body)
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": [_message_sent(each) for each in request.messages],
        }
        if self.stream:
            body["stream"] = True
            if self.stream_options:
                body["stream_options"] = {"include_usage": True}
        if request.temperature is not None and settings.temperature:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body[self.tokens_field] = request.max_tokens
        if request.seed is not None and settings.seed:
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
        body.update(settings.body)
        return encode(body)

    def _asks_for_json(self, request: ChatRequest) -> bool:
        """A refused schema does not fall back to JSON mode: the caller must decide that, because its prompt must
        mention JSON."""
        return request.json_mode and self.json_mode and request.json_schema is None


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }


def _message_sent(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content}
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        out["name"] = message.name
    if message.tool_calls:
        out["content"] = message.content or None
        out["tool_calls"] = [_call(call) for call in message.tool_calls]
    return out


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}


def _unread(body: Mapping[str, Any]) -> Iterator[str]:
    """Calls that the agent may get and that are not read: in the old form, and in answers other than the first."""
    if body.get("functions"):
        yield "functions"
    if (whole_number(body, "n") or 1) > 1:
        yield "answers other than the first (n)"


_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_WORDS = {
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
}


class OpenAIChat(Interface):
    dialect: ClassVar[WireDialect] = "openai_chat"
    stream_type: ClassVar[str] = EVENT_STREAM

    def read(self, body: dict[str, Any]) -> ChatRequest:
        wanted = object_of(body.get("response_format"))
        schema = object_of(object_of(wanted.get("json_schema")).get("schema"))
        tools = objects(body.get("tools"), "tools")
        return ChatRequest(
            messages=named_results([_message(each) for each in objects(body.get("messages"), "messages")]),
            tools=tuple(
                tool_spec(object_of(each.get("function")), "parameters")
                for each in tools
                if each.get("type", "function") == "function"
            ),
            other_tools=(*other_tools(tools, "function"), *_unread(body)),
            temperature=number(body, "temperature"),
            max_tokens=whole_number(body, "max_completion_tokens", "max_tokens"),
            seed=whole_number(body, "seed"),
            json_schema=schema or None,
            json_mode=wanted.get("type") == "json_object",
        )

    def whole(self, response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
        message[_spoken(response)] = response.text or None
        if response.tool_calls:
            message["tool_calls"] = [_call(call) for call in response.tool_calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(response)}
        return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(response)}

    def stream(self, body: Mapping[str, Any], known: ChatResponse | None = None) -> AnswerStream:
        return _Chunks(body, "content" if known is None else _spoken(known))

    def filter(self, body: Mapping[str, Any]) -> Callable[[bytes], bytes] | None:
        """Usage comes in a chunk without choices, which a client that did not ask for it may not expect."""
        return None if _wants_usage(body) else _UsageFilter()


class _Chunks:
    """An `AnswerStream`."""

    def __init__(self, body: Mapping[str, Any], spoken: str) -> None:
        self._head = _head(body, "chat.completion.chunk")
        self._wants_usage = _wants_usage(body)
        self._spoken = spoken

    def open(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> bytes:
        return self._chunk({self._spoken: text})

    def close(self, response: ChatResponse) -> bytes:
        calls = [
            self._chunk({"tool_calls": [{"index": index, **_call(call)}]})
            for index, call in enumerate(response.tool_calls)
        ]
        usage = b""
        if self._wants_usage and response.usage is not None:
            usage = sse(encode({**self._head, "choices": [], "usage": _usage(response)}))
        return b"".join(calls) + self._chunk({}, _reason(response)) + usage + sse(b"[DONE]")

    def fail(self, message: str) -> bytes:
        return sse(encode({"error": {"message": message, "type": "server_error", "code": None, "param": None}}))

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        return sse(encode({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}))


class _UsageFilter:
    """Holds back an event until it is complete, and drops it if it contains only usage."""

    def __init__(self) -> None:
        self._rest: bytes = b""

    def __call__(self, piece: bytes) -> bytes:
        if not piece:  # the end
            piece, self._rest = self._rest, b""
            return b"" if _is_usage(piece) else piece
        *complete, self._rest = _EVENT_END.split(self._rest + piece)
        events = [event + end for event, end in zip(complete[::2], complete[1::2], strict=True)]
        return b"".join([event for event in events if not _is_usage(event)])


_EVENT_END = re.compile(rb"(\r?\n\r?\n)")


def _is_usage(event: bytes) -> bool:
    if b"usage" not in event:
        return False
    squeezed = event.replace(b" ", b"")
    return b'"usage":{' in squeezed and b'"choices":[]' in squeezed


def _wants_usage(body: Mapping[str, Any]) -> bool:
    return bool(object_of(body.get("stream_options")).get("include_usage"))


def _message(given: dict[str, Any]) -> Message:
    calls = [
        (each.get("id"), object_of(each.get("function"))) for each in objects(given.get("tool_calls"), "tool_calls")
    ]
    return Message(
        role=_ROLES.get(str(given.get("role")), "user"),
        content=text_of(given.get("content")),
        tool_calls=tuple(tool_call(identity, call.get("name"), call.get("arguments")) for identity, call in calls),
        tool_call_id=_text(given.get("tool_call_id")),
        name=_text(given.get("name")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _spoken(response: ChatResponse) -> str:
    return "refusal" if response.finish_reason is FinishReason.REFUSAL else "content"


def _reason(response: ChatResponse) -> str:
    return _WORDS.get(finish_of(response), "stop")


def _usage(response: ChatResponse) -> dict[str, int] | None:
    usage = response.usage
    if usage is None:
        return None
    total = usage.input_tokens + usage.output_tokens
    return {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens, "total_tokens": total}


def _head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-steadyhand", "object": kind, "created": 0, "model": str(body.get("model", ""))}
