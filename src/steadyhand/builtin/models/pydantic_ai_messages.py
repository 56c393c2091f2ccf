"""Converts messages, tools and answers to and from those of Pydantic AI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from steadyhand.records.chat import ChatRequest, FinishReason, Message, ToolCall, Usage
from steadyhand.wire.stream import PartialCall


def to_messages(messages: Sequence[Message]) -> list[ModelMessage]:
    """Consecutive messages to the model become one request; each of the model's own is a response."""
    out: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    names: dict[str, str] = {}
    for message in messages:
        if message.role == "assistant":
            if parts:
                out.append(ModelRequest(parts=parts))
                parts = []
            names.update((call.id, call.name) for call in message.tool_calls)
            out.append(ModelResponse(parts=list(_response_parts(message))))
        else:
            parts.append(_request_part(message, names))
    if parts:
        out.append(ModelRequest(parts=parts))
    return out


def _request_part(message: Message, names: dict[str, str]) -> ModelRequestPart:
    if message.role == "tool":
        call_id = message.tool_call_id or ""
        return ToolReturnPart(
            tool_name=message.name or names.get(call_id, ""), content=message.content, tool_call_id=call_id
        )
    if message.role == "system":
        return SystemPromptPart(content=message.content)
    return UserPromptPart(content=message.content)


def _response_parts(message: Message) -> Iterator[ModelResponsePart]:
    if message.content:
        yield TextPart(content=message.content)
    for call in message.tool_calls:
        arguments = call.arguments if call.raw is None else call.raw
        yield ToolCallPart(tool_name=call.name, args=arguments, tool_call_id=call.id)


def to_settings(request: ChatRequest, *, seed: bool, temperature: bool) -> ModelSettings:
    """Settings that turn off the client's own retries, because we must count every attempt."""
    settings = ModelSettings(max_retries=0)
    if request.max_tokens is not None:
        settings["max_tokens"] = request.max_tokens
    if request.temperature is not None and temperature:
        settings["temperature"] = request.temperature
    if request.seed is not None and seed:
        settings["seed"] = request.seed
    return settings


def to_parameters(request: ChatRequest, model: Model) -> ModelRequestParameters:
    """Tools, and the schema if the vendor enforces schemas; otherwise only the prompt describes it."""
    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=tool.parameters or {"type": "object", "properties": {}},
        )
        for tool in request.tools
    ]
    if request.json_schema is not None and model.profile.get("supports_json_schema_output"):
        return ModelRequestParameters(
            function_tools=tools,
            output_mode="native",
            output_object=OutputObjectDefinition(json_schema=request.json_schema, name="answer"),
        )
    return ModelRequestParameters(function_tools=tools)


def tool_calls_of(response: ModelResponse) -> tuple[ToolCall, ...]:
    calls: list[ToolCall] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            call = PartialCall(part.tool_call_id, part.tool_name)
            arguments = part.args
            if arguments is not None:
                text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
                call.arguments.append(text)
            calls.append(call.finished(len(calls)))
    return tuple(calls)


def usage_of(response: ModelResponse) -> Usage | None:
    """None if nothing was counted: the library reports 0 for what it does not know."""
    usage = response.usage
    if not usage.input_tokens and not usage.output_tokens:
        return None
    return Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)


def finish_of(response: ModelResponse) -> tuple[FinishReason | None, str | None]:
    """How the answer ended, in our terms and in the vendor's.

    The library reports a refusal as filtered and omits a pause, so the vendor's own term takes precedence.
    """
    details = response.provider_details or {}
    raw = details.get("finish_reason")
    word = raw if isinstance(raw, str) else response.finish_reason
    if response.state == "suspended":
        return FinishReason.PAUSE_TURN, word
    if response.state != "complete":
        return FinishReason.ERROR, word or response.state
    if details.get("refusal"):
        return FinishReason.REFUSAL, word
    reason = None if word is None else FinishReason(word)
    if reason is FinishReason.UNKNOWN and response.finish_reason is not None:
        reason = FinishReason(response.finish_reason)
    return reason, word


def text_of(response: ModelResponse) -> str:
    """The text, including a refusal outside the message."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    refusal = (response.provider_details or {}).get("refusal")
    return text if text or not isinstance(refusal, str) else refusal
