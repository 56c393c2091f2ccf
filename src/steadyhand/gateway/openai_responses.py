"""The server side of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from steadyhand.gateway.dialect import (
    AnswerStream,
    BadRequest,
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
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, Role, WireDialect

_CUT = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}
_MESSAGE = "msg_steadyhand"
_TEXT: dict[str, Any] = {"item_id": _MESSAGE, "output_index": 0, "content_index": 0}
_ROLES: dict[str, Role] = {"developer": "system", "system": "system", "assistant": "assistant"}


class OpenAIResponses:
    """An `Interface`. Nothing is stored between calls, so a client must send the whole exchange each time."""

    dialect: ClassVar[WireDialect] = "openai_responses"

    def read(self, body: dict[str, Any]) -> ChatRequest:
        if body.get("previous_response_id"):
            raise BadRequest("`previous_response_id` is not supported here: send the whole exchange as `input`")
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
        return ChatRequest(
            messages=named_results(messages),
            tools=tuple(
                tool_spec(each, "parameters")
                for each in objects(body.get("tools"), "tools")
                if each.get("type") == "function"
            ),
            temperature=number(body, "temperature"),
            max_tokens=whole_number(body, "max_output_tokens"),
            json_schema=object_of(wanted.get("schema")) or None,
            json_mode=wanted.get("type") == "json_object",
        )

    def whole(self, response: ChatResponse, body: Mapping[str, Any]) -> dict[str, Any]:
        reason = _CUT.get(finish_of(response))
        made = _head(body, "completed" if reason is None else "incomplete")
        made["output"] = _output(response)
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

    def filter(self, body: Mapping[str, Any]) -> Callable[[bytes], bytes] | None:
        return None


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

    def open(self) -> bytes:
        begun = {"response": _head(self._body, "in_progress")}
        return self._event("response.created", begun) + self._event("response.in_progress", begun)

    def piece(self, text: str) -> bytes:
        begun = b"" if self._text else self._begin_text()
        return begun + self._event(f"{self._name}.delta", {**_TEXT, **self._extra, "delta": text})

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
            "id": _MESSAGE,
            "type": "message",
            "status": "in_progress",
            "role": "assistant",
            "content": [],
        }
        part = {**_part(self._kind), self._kind: ""}
        added = self._event("response.output_item.added", {"output_index": 0, "item": item})
        return added + self._event("response.content_part.added", {**_TEXT, "part": part})

    def _text_done(self, index: int, item: dict[str, Any]) -> bytes:
        begun = b"" if self._text else self._begin_text()
        part = {**_part(self._kind), self._kind: item["content"][0].get("text", item["content"][0].get("refusal"))}
        return (
            begun
            + self._event(f"{self._name}.done", {**_TEXT, **self._extra, self._kind: part[self._kind]})
            + self._event("response.content_part.done", {**_TEXT, "part": part})
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
        "id": "resp_steadyhand",
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


def _part(kind: str) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": "refusal", "refusal": ""}
    return {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


def _output(response: ChatResponse) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if response.text or not response.tool_calls:
        kind = "refusal" if response.finish_reason is FinishReason.REFUSAL else "text"
        part: dict[str, Any] = {**_part(kind), kind: response.text}
        said = {"type": "message", "status": "completed", "role": "assistant", "content": [part]}
        items.append({"id": _MESSAGE, **said})
    items.extend(
        {
            "id": f"fc_{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments_text,
        }
        for index, call in enumerate(response.tool_calls)
    )
    return items
