"""OpenAI's responses, as a server speaks them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from steadyhand.gateway.dialect import (
    BadRequest,
    arguments_of,
    encode,
    finish_of,
    named_results,
    number,
    objects,
    pieces,
    sse,
    text_of,
    tool_call,
    whole_number,
)
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message, Role, ToolSpec, WireDialect

_CUT = {FinishReason.LENGTH: "max_output_tokens", FinishReason.CONTENT_FILTER: "content_filter"}
_ROLES: dict[str, Role] = {"developer": "system", "system": "system", "assistant": "assistant"}


class OpenAIResponses:
    """An `Interface`. Nothing is kept here between calls, so a client has to send the whole exchange each time."""

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
        wanted = _object(_object(body.get("text")).get("format"))
        return ChatRequest(
            messages=named_results(messages),
            tools=tuple(_tool(each) for each in objects(body.get("tools"), "tools") if each.get("type") == "function"),
            temperature=number(body, "temperature"),
            max_tokens=whole_number(body, "max_output_tokens"),
            json_schema=_object(wanted.get("schema")) or None,
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

    def events(self, response: ChatResponse, body: Mapping[str, Any]) -> Iterator[bytes]:
        for sequence, (kind, fields) in enumerate(self._events(response, body)):
            yield sse(encode({"type": kind, "sequence_number": sequence, **fields}), kind)

    def _events(self, response: ChatResponse, body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        begun = _head(body, "in_progress")
        yield "response.created", {"response": begun}
        yield "response.in_progress", {"response": begun}
        for index, item in enumerate(_output(response)):
            held: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
            empty: dict[str, Any] = {**item, "status": "in_progress", **held}
            yield "response.output_item.added", {"output_index": index, "item": empty}
            place = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                yield from _message_events(item["content"][0], {**place, "content_index": 0}, pieces(response))
            else:
                yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
                done = {**place, "arguments": item["arguments"], "name": item["name"]}
                yield "response.function_call_arguments.done", done
            yield "response.output_item.done", {"output_index": index, "item": item}
        made = self.whole(response, body)
        yield f"response.{made['status']}", {"response": made}

    def as_asked(self, answer: bytes, body: Mapping[str, Any]) -> bytes:
        return answer


def _message_events(
    part: dict[str, Any], place: dict[str, Any], texts: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = "refusal" if part["type"] == "refusal" else "text"
    event = "response.refusal" if kind == "refusal" else "response.output_text"
    extra: dict[str, Any] = {} if kind == "refusal" else {"logprobs": []}
    yield "response.content_part.added", {**place, "part": {**part, kind: ""}}
    for text in texts:
        yield f"{event}.delta", {**place, **extra, "delta": text}
    yield f"{event}.done", {**place, **extra, kind: part[kind]}
    yield "response.content_part.done", {**place, "part": part}


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


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


def _tool(given: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=str(given.get("name", "")),
        description=str(given.get("description") or ""),
        parameters=_object(given.get("parameters")),
    )


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


def _output(response: ChatResponse) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if response.text or not response.tool_calls:
        part: dict[str, Any] = {"type": "output_text", "text": response.text, "annotations": [], "logprobs": []}
        if response.finish_reason is FinishReason.REFUSAL:
            part = {"type": "refusal", "refusal": response.text}
        said = {"type": "message", "status": "completed", "role": "assistant", "content": [part]}
        items.append({"id": "msg_steadyhand", **said})
    items.extend(
        {
            "id": f"fc_{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments_of(call),
        }
        for index, call in enumerate(response.tool_calls)
    )
    return items
