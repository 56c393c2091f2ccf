"""Interprets an agent's spans: model calls, actions with arguments and results, thoughts.

Supports the GenAI semantic conventions (the names of 1.36 and the current ones) and OpenInference, as well as
framework-specific names for the same things. Pure functions.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from steadyhand.gateway.otlp import TraceSpan
from steadyhand.records.base import Record
from steadyhand.records.chat import Attempt, CallTiming, Finish, FinishReason, Spoiled, SpoiledBy, ToolCall, Usage
from steadyhand.records.event import UNREADABLE, ActionTaken, AnyEvent, ModelCalled, Observed, Thought

SpanKind = Literal["tool", "model", "agent", "other"]
_OPERATIONS: dict[str, SpanKind] = {
    "execute_tool": "tool",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "invoke_agent": "agent",
    "create_agent": "agent",
    "embeddings": "other",
}
_OPEN_INFERENCE: dict[str, SpanKind] = {"TOOL": "tool", "LLM": "model", "AGENT": "agent"}
_TOOL_NAMES = ("gen_ai.tool.name", "ai.toolCall.name", "tool.name", "traceloop.entity.name")
_ARGUMENTS = (
    "gen_ai.tool.call.arguments", "ai.toolCall.args", "ai.toolCall.input", "tool_arguments", "input.value",
    "traceloop.entity.input",
)  # fmt: skip
_RESULTS = (
    "gen_ai.tool.call.result", "ai.toolCall.result", "ai.toolCall.output", "tool_response", "output.value",
    "traceloop.entity.output",
)  # fmt: skip
_CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id", "tool.id")
_AGENTS = ("gen_ai.agent.name", "agent.name", "agent_name")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_WRAPPED = (
    ("inputs", frozenset(("input_str", "tags", "metadata", "color", "name", "run_id", "kwargs"))),
    ("kwargs", frozenset(("args", "sanitize_inputs_outputs"))),
)
"""Where frameworks put the arguments that they call a tool with, and what else is there."""
_THOUGHTS = ("reasoning", "thinking")
_LONGEST_PYTHON = 20_000
"""Python's parser takes seconds for megabytes."""


def kind_of(span: TraceSpan) -> SpanKind:
    held = span.attributes
    operation = held.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return _OPERATIONS.get(operation, "other")
    if isinstance(known := held.get("openinference.span.kind"), str):
        return _OPEN_INFERENCE.get(known.upper(), "other")
    if held.get("traceloop.span.kind") in ("tool", "agent"):
        return cast("SpanKind", held["traceloop.span.kind"])
    if "gen_ai.tool.name" in held or "ai.toolCall.name" in held:
        return "tool"
    return "model" if "gen_ai.request.model" in held or "llm.model_name" in held else "other"


class SpanEvents(Record):
    """The events from spans, in the order in which they began. `tools` is whether the agent's tools are instrumented.
    `unordered` names spans that enclose one another in a circle."""

    events: tuple[AnyEvent, ...] = ()
    tools: bool = False
    unordered: tuple[str, ...] = ()


def read_spans(
    spans: Sequence[TraceSpan],
    known: Mapping[str, TraceSpan],
    *,
    at_ms: Callable[[int], float],
    models: bool = True,
    only_parameter: Callable[[str], str | None] = lambda _: None,
) -> SpanEvents:
    """`known` are all spans of the trace so far, by id; `at_ms` converts a span's time to the trial's;
    `only_parameter` names that of a tool which has no other.

    With `models` false, model calls are left out, because they are recorded elsewhere.
    """
    events: list[AnyEvent] = []
    tools = False
    tree = _Tree(known)
    for span in sorted(spans, key=lambda each: (each.start_ns, each.end_ns)):
        match kind_of(span):
            case "tool":
                tools = True
                if span.span_id not in tree.repeated:
                    events += _action(span, tree.agents.get(span.span_id), at_ms, only_parameter)
            case "model":
                events += _model_call(span, tree.agents.get(span.span_id), at_ms, models=models)
            case _:
                pass
    return SpanEvents(
        events=tuple(events),
        tools=tools,
        unordered=tuple(dict.fromkeys(span.name for span in spans if span.span_id in tree.circular)),
    )


class _Tree:
    """What spans inherit from those around them, found in one walk: there may be 100,000, each inside the last."""

    def __init__(self, known: Mapping[str, TraceSpan]) -> None:
        self.agents: dict[str, str] = {}
        """The agent that did it, by span id: from its own attribute, or from that of the nearest enclosing span."""
        self.repeated: set[str] = set()
        """Spans inside one that describes the same call, such as an MCP client inside the framework's own span."""
        inside: dict[str, list[TraceSpan]] = {}
        waiting: list[TraceSpan | str] = []
        for span in known.values():
            if span.parent_id in known:
                inside.setdefault(span.parent_id, []).append(span)
            else:
                waiting.append(span)
        reached: set[str] = set()
        calls: dict[str, list[TraceSpan]] = {}
        while waiting:
            span = waiting.pop()
            if isinstance(span, str):  # everything inside this call has been walked
                calls[span].pop()
                continue
            reached.add(span.span_id)
            agent = _text(span, _AGENTS) or self.agents.get(span.parent_id)
            if agent is not None:
                self.agents[span.span_id] = agent
            if kind_of(span) == "tool":
                name = _tool_name(span)
                around = calls.setdefault(name, [])
                if around and _same_call(span, around[-1]):
                    self.repeated.add(span.span_id)
                around.append(span)
                waiting.append(name)
            waiting += inside.get(span.span_id, ())
        self.circular: set[str] = set(known) - reached
        """Spans inside one another in a circle: nothing encloses them, and their order is unknown."""


def _same_call(inner: TraceSpan, outer: TraceSpan) -> bool:
    if _tool_name(inner) != _tool_name(outer):
        return False
    ids = _text(inner, _CALL_IDS), _text(outer, _CALL_IDS)
    if all(ids):
        return ids[0] == ids[1]
    ours, theirs = _arguments(inner), _arguments(outer)
    return ours is None or theirs is None or ours == theirs


def _action(
    span: TraceSpan, agent: str | None, at_ms: Callable[[int], float], only_parameter: Callable[[str], str | None]
) -> list[AnyEvent]:
    name = _tool_name(span)
    params = _arguments(span, only_parameter(name))
    began, ended = at_ms(span.start_ns), at_ms(span.end_ns)
    action = ActionTaken(
        at_ms=began,
        id=f"span-{span.span_id}",
        name=name,
        params={UNREADABLE: ""} if params is None else params,
        status="error" if span.failed or "error.type" in span.attributes else "success",
        duration_ms=round(max(0.0, ended - began), 3),
        agent=agent,
        call_id=_text(span, _CALL_IDS),
        traced=True,
    )
    result = _first(span, _RESULTS)
    if result is None and not (span.failed and span.message):
        return [action]
    content = span.message if result is None else _decoded(result)
    return [action, Observed(at_ms=ended, action_id=action.id, name=name, content=content, agent=agent)]


def _tool_name(span: TraceSpan) -> str:
    return _text(span, _TOOL_NAMES) or span.name.removeprefix("execute_tool ")


def _arguments(span: TraceSpan, only_parameter: str | None = None) -> dict[str, Any] | None:
    """None if the span does not say, or says it in a form that cannot be read. A plain value belongs to the tool's only
    parameter."""
    given = _first(span, _ARGUMENTS)
    if given is None:
        return None
    value = _decoded(given)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        if len(value) > _LONGEST_PYTHON:
            return None
        try:
            value = ast.literal_eval(value.strip())  # some instrumentation writes a dict as Python shows it
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    if not isinstance(value, Mapping):
        return {only_parameter or "input": value}
    held = dict(cast("Mapping[str, Any]", value))
    for wrapped, marks in _WRAPPED:
        inner = held.get(wrapped)
        if isinstance(inner, Mapping) and not held.get("args") and held.keys() - {wrapped} <= marks:
            return dict(cast("Mapping[str, Any]", inner))
    return held


def _model_call(span: TraceSpan, agent: str | None, at_ms: Callable[[int], float], *, models: bool) -> list[AnyEvent]:
    began, ended = at_ms(span.start_ns), at_ms(span.end_ns)
    said, thoughts, calls = _output(span)
    events: list[AnyEvent] = [Thought(at_ms=ended, text=text, agent=agent) for text in thoughts]
    if not models:
        return events
    error = (span.message or str(span.attributes.get("error.type") or "failed")) if span.failed else None
    took = round(max(0.0, ended - began), 3)
    spoiled = (Spoiled(kind=SpoiledBy.INCLUDES, detail="timed by the trace of the agent"),)
    attempt = Attempt(started_ms=0.0, sent_ms=0.0, last_byte_ms=took, error=error)
    given, got = _first(span, _INPUT_TOKENS), _first(span, _OUTPUT_TOKENS)
    usage = Usage(input_tokens=cast("int", given), output_tokens=cast("int", got))
    called = ModelCalled(
        at_ms=began,
        model=_text(span, _MODELS) or span.name,
        purpose="agent",
        timing=CallTiming(attempts=(attempt,), spoiled=spoiled),
        text=said,
        tool_calls=calls,
        usage=usage if usage.countable else None,
        error=error,
        finish=_finish(span),
        relayed=True,
        agent=agent,
    )
    return [called, *events]


def _finish(span: TraceSpan) -> Finish | None:
    """The way in which the answer ended; of several choices, one that was withheld or broken off, else the last."""
    given = span.attributes.get("gen_ai.response.finish_reasons")
    listed = cast("list[Any]", given) if isinstance(given, list) else [given]
    outputs = [*_objects(_decoded(span.attributes.get("gen_ai.output.messages")))]
    outputs += _unflattened(span.attributes, "gen_ai.completion.")
    words = [each for each in (*listed, *(message.get("finish_reason") for message in outputs)) if each]
    ends = [Finish(reason=FinishReason(str(word)), raw=str(word)) for word in words]
    return next((end for end in ends if end.is_error), ends[-1] if ends else None)


def _output(span: TraceSpan) -> tuple[str | None, list[str], tuple[ToolCall, ...]]:
    """The model's text, thoughts and tool calls."""
    messages = span.attributes.get("gen_ai.output.messages")
    if messages is not None:
        return _parts(part for message in _objects(_decoded(messages)) for part in _objects(message.get("parts")))
    flat = _unflattened(span.attributes, "llm.output_messages.")
    return _parts(part for message in flat for part in _open_inference_parts(message))


def _parts(parts: Iterable[Mapping[str, Any]]) -> tuple[str | None, list[str], tuple[ToolCall, ...]]:
    said: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for part in parts:
        kind, text = part.get("type"), part.get("content")
        if kind == "text" and isinstance(text, str):
            said.append(text)
        elif kind in _THOUGHTS and isinstance(text, str) and text.strip():
            thoughts.append(text)
        elif kind == "tool_call":
            arguments = _decoded(part.get("arguments"))
            held = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
            raw = None if isinstance(arguments, dict) or arguments is None else str(arguments)
            calls.append(ToolCall(id=str(part.get("id") or ""), name=str(part.get("name")), arguments=held, raw=raw))
    return "".join(said) if said else None, thoughts, tuple(calls)


def _open_inference_parts(message: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    if isinstance(text := message.get("message.content"), str):
        yield {"type": "text", "content": text}
    for held in _unflattened(message, "message.contents."):
        kind = held.get("message_content.type")
        yield {"type": kind, "content": held.get("message_content.text")}
    for held in _unflattened(message, "message.tool_calls."):
        yield {
            "type": "tool_call",
            "id": held.get("tool_call.id"),
            "name": held.get("tool_call.function.name"),
            "arguments": held.get("tool_call.function.arguments"),
        }


def _unflattened(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """`PREFIX0.name`, `PREFIX1.name`: the entries of a list, in order."""
    pattern = re.compile(re.escape(prefix) + r"([0-9]{1,9})\.(.+)")
    found: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if match := pattern.fullmatch(key):
            found.setdefault(int(match[1]), {})[match[2]] = value
    return [found[number] for number in sorted(found)]


def _objects(value: Any) -> list[Mapping[str, Any]]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", each) for each in listed if isinstance(each, Mapping)]


def _decoded(value: Any) -> Any:
    """The parsed value of a string that contains a JSON object or list; else the value itself."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _first(span: TraceSpan, names: Iterable[str]) -> Any:
    return next((held for name in names if (held := span.attributes.get(name)) is not None), None)


def _text(span: TraceSpan, names: Iterable[str]) -> str | None:
    found = _first(span, names)
    return found if isinstance(found, str) and found else None
