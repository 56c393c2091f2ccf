"""OpenAI's Chat Completions API: the request, and how an answer is read, streamed or complete."""

from __future__ import annotations

import re
from typing import Any, ClassVar, cast

import msgspec

from steadyhand.builtin.models.http.model import client_body
from steadyhand.builtin.models.http.settings import Asking
from steadyhand.builtin.models.http.stream import (
    DONE,
    NOT_DECODED,
    AnswerReader,
    ErrorInAnswer,
    PartialCall,
    UnreadableResponse,
    message_in,
    not_read,
)
from steadyhand.records.base import Record
from steadyhand.records.chat import NO_USAGE, ChatRequest, FinishReason, Message, ToolCall, ToolSpec, Usage, WireDialect


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


_encode = msgspec.json.Encoder().encode
REFUSALS = (400, 404, 405, 415, 422, 501)
STREAM = re.compile(r"\bstream(ing|ed)?\b", re.IGNORECASE)
_SCHEMA = re.compile(r"response_format|json_schema|structured output|guided decoding", re.IGNORECASE)
_FIELD = re.compile(r"response_format|stream_options", re.IGNORECASE)
_MODE = re.compile(r"response_format|json_object|json mode", re.IGNORECASE)


class ChatCompletions(Record):
    """A `Wire`. It starts with everything that the server may support, and drops what the server refuses."""

    asking: Asking
    stream_refused: bool = False
    stream_options: bool = True
    json_schema: bool = True
    json_mode: bool = True
    tokens_field: str = "max_tokens"

    @property
    def what(self) -> str:
        return "a chat completion"

    @property
    def dialect(self) -> WireDialect:
        return "openai_chat"

    @property
    def stream(self) -> bool:
        return self.asking.stream and not self.stream_refused

    def reader(self, request: ChatRequest) -> AnswerReader:
        return ChatReader()

    def token_limit(self, request: ChatRequest) -> int | None:
        return self.asking.token_limit(request, "max_tokens", "max_completion_tokens", "n_predict")

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
        asking = self.asking
        if (given := client_body(request, self.dialect)) is not None:
            body = {**given, "model": asking.model, **asking.body}
            if body.get("stream") and self.stream_options:  # without it nobody says what a stream costs
                options: Any = given.get("stream_options")
                body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
            return _encode(body)
        body: dict[str, Any] = {"model": asking.model, "messages": [_message(message) for message in request.messages]}
        if self.stream:
            body["stream"] = True
            if self.stream_options:
                body["stream_options"] = {"include_usage": True}
        if request.temperature is not None and asking.temperature:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body[self.tokens_field] = request.max_tokens
        if request.seed is not None and asking.seed:
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
        body.update(asking.body)
        return _encode(body)

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


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content}
    out: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        out["name"] = message.name
    if message.tool_calls:
        out["content"] = message.content or None
        out["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
    return out


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}
