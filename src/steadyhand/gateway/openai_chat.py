"""The server side of OpenAI's Chat Completions API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from steadyhand.gateway.dialect import (
    AnswerStream,
    encode,
    finish_of,
    named_results,
    number,
    object_of,
    objects,
    sse,
    text_of,
    tool_call,
    tool_spec,
    whole_number,
)
from steadyhand.records.chat import (
    ChatRequest,
    ChatResponse,
    FinishReason,
    Message,
    Role,
    ToolCall,
    WireDialect,
)

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


class OpenAIChat:
    """An `Interface`."""

    dialect: ClassVar[WireDialect] = "openai_chat"

    def read(self, body: dict[str, Any]) -> ChatRequest:
        wanted = object_of(body.get("response_format"))
        schema = object_of(object_of(wanted.get("json_schema")).get("schema"))
        return ChatRequest(
            messages=named_results([_message(each) for each in objects(body.get("messages"), "messages")]),
            tools=tuple(
                tool_spec(object_of(each.get("function")), "parameters") for each in objects(body.get("tools"), "tools")
            ),
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


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}


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
