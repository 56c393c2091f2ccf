"""What frameworks return, by shape: none of them is imported here. A line each in `SHAPES`.

A result is recognised by its attributes, and read into a reply and the steps of the turn. What a result has no place
for is not made up: a reply alone does not say which tools were called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from steadyhand.builtin.agents.message_list import TurnMessages, finish_word, with_fields
from steadyhand.errors import AgentError
from steadyhand.runtime.values import as_text

WAITS = (
    "it did not finish its turn: it is waiting for a person ({}); answer inside the agent, or let it "
    "continue unattended"
)


class ResultShape(NamedTuple):
    """`has` are the attributes that tell a result from others. `read` adds its steps, and returns the reply. With
    `tells`, it has a place for tool calls, so that their absence means that none were made."""

    framework: str
    has: tuple[str, ...]
    read: Callable[[Any, TurnMessages], str]
    tells: bool = True


def _pydantic_ai(value: Any, found: TurnMessages) -> str:
    """Its new messages are those of this run only."""
    if not hasattr(value, "output"):
        if not getattr(value, "is_complete", False):
            raise AgentError("it returned a streamed run that has not finished; read it to its end first")
        texts = [part.content for part in value.new_messages()[-1].parts if part.part_kind == "text"]
        _pydantic_parts(value, found)
        return "".join(texts)
    _pydantic_parts(value, found)
    if value.output is None:
        raise AgentError("it returned a run result without an output")
    return output_text(value.output)


def _pydantic_parts(value: Any, found: TurnMessages) -> None:
    output_tool = getattr(value, "_output_tool_name", None)
    agent = getattr(getattr(value, "_state", None), "agent_name", None)
    for message in cast("Iterable[Any]", value.new_messages()):
        if getattr(message, "kind", None) == "response":
            found.ended(getattr(message, "finish_reason", None))
        for part in cast("Iterable[Any]", message.parts):
            if output_tool is None or getattr(part, "tool_name", None) != output_tool:
                _part(part, found, agent)


_SAID = ("system-prompt", "user-prompt", "instruction", "text", "compaction")


def _part(part: Any, found: TurnMessages, agent: str | None) -> None:
    kind = str(getattr(part, "part_kind", type(part).__name__))
    if kind in _SAID:
        return
    if kind == "thinking":
        found.thought(str(part.content or ""), agent=agent)
    elif kind.endswith("tool-call"):
        found.call(part.tool_name, part.args, id=part.tool_call_id, agent=agent)
    elif kind.endswith("tool-return"):
        ended = str(getattr(part, "outcome", "success"))
        found.result(part.tool_call_id, part.content, failed=ended != "success", name=part.tool_name)
    elif kind == "retry-prompt":
        if part.tool_name is None:
            found.notes.append("the framework asked the model to try again")
        else:
            found.result(part.tool_call_id, part.content, failed=True, name=part.tool_name)
    elif kind == "file":
        found.notes.append("the run result has a file, which is not an action")
    else:
        raise AgentError(f"its run result has a part of the unknown kind {kind!r}")


def _openai_agents(value: Any, found: TurnMessages) -> str:
    """Its items are those of this run only."""
    if getattr(value, "is_complete", True) is False:
        raise AgentError("it returned a streamed run that has not finished; read all of its events first")
    if getattr(value, "interruptions", None):
        raise AgentError(WAITS.format("a tool call needs approval"))
    if value.final_output is None:
        raise AgentError("it returned a run result without a final output")
    for number, item in enumerate(value.new_items, start=1):
        raw = with_fields(getattr(item, "raw_item", None))
        kind = str(getattr(item, "type", type(item).__name__))
        agent = getattr(getattr(item, "agent", None), "name", None)
        if raw is None:
            raise AgentError(f"item {number} of its run result ({kind}) cannot be read")
        if kind == "message_output_item":
            found.ended(finish_word(raw))
            continue  # said to the user, or to the next agent; the final output is the reply
        if "output" in raw and hasattr(item, "output"):
            raw = {**raw, "output": item.output}
        found.item(raw, f"item {number} of its run result", agent=agent)
    return output_text(value.final_output)


def _crew(value: Any, found: TurnMessages) -> str:
    for task in value.tasks_output:
        for number, message in enumerate(getattr(task, "messages", ()), start=1):
            fields = with_fields(message) or {}
            if fields.get("role") in ("assistant", "tool"):
                found.message({**fields, "name": None}, f"message {number} of its task {task.agent!r}")
    return output_text(value.raw)


def _agno(value: Any, found: TurnMessages) -> str:
    if getattr(value, "is_paused", False):
        raise AgentError(WAITS.format("the run is paused"))
    for tool in value.tools or ():
        found.call(tool.tool_name, tool.tool_args, id=tool.tool_call_id, agent=value.agent_name)
        found.result(tool.tool_call_id, tool.result, failed=tool.tool_call_error, name=tool.tool_name)
    if value.content is None:
        raise AgentError("it returned a run without content")
    return output_text(value.content)


def _autogen(value: Any, found: TurnMessages) -> str:
    text: str | None = None
    for number, message in enumerate(value.messages, start=1):
        kind, agent = str(getattr(message, "type", type(message).__name__)), message.source
        if kind == "ToolCallRequestEvent":
            for call in message.content:
                found.call(call.name, call.arguments, id=call.id, agent=agent)
        elif kind == "ToolCallExecutionEvent":
            for result in message.content:
                found.result(result.call_id, result.content, failed=result.is_error, name=result.name)
        elif kind == "ThoughtEvent":
            found.thought(str(message.content), agent=agent)
        elif callable(say := getattr(message, "to_model_text", None)):
            text = None if agent == "user" else str(say())
        elif not kind.endswith("Event"):
            raise AgentError(f"message {number} of its task result is a {kind}, which cannot be read")
    if text is None:
        raise AgentError("it returned a task result that does not end with an answer")
    return text


def _strands(value: Any, found: TurnMessages) -> str:
    """Only the last message: it does not have the calls."""
    if value.stop_reason == "interrupt":
        raise AgentError(WAITS.format("the agent was interrupted"))
    found.ended(value.stop_reason)
    found.message(value.message, "the message of its result")
    return found.text or ""


def _llama_index(value: Any, found: TurnMessages) -> str:
    for call in value.tool_calls:
        found.call(call.tool_name, call.tool_kwargs, id=call.tool_id, agent=value.current_agent_name)
        if (output := getattr(call, "tool_output", None)) is not None:
            found.result(call.tool_id, output.content, failed=output.is_error, name=call.tool_name)
    return value.response.content or ""


def _semantic_kernel(value: Any, found: TurnMessages) -> str:
    """The answer alone: the calls are in its thread."""
    return str(value.message)


def _dspy(value: Any, found: TurnMessages) -> str:
    fields: dict[str, Any] = value.toDict()
    steps: Mapping[str, Any] = fields.pop("trajectory", None) or {}
    for number in range(len(steps)):
        if (name := steps.get(f"tool_name_{number}")) is None:
            break
        found.thought(str(steps.get(f"thought_{number}") or ""))
        if name != "finish":
            found.call(name, steps.get(f"tool_args_{number}"), id=f"step {number}")
            found.result(f"step {number}", steps.get(f"observation_{number}"))
    found.thought(str(fields.pop("reasoning", None) or ""))
    texts = list(fields.values())
    return output_text(texts[0] if len(texts) == 1 else fields)


def _smolagents(value: Any, found: TurnMessages) -> str:
    for step in cast("Iterable[Mapping[str, Any]]", value.steps):
        found.in_code = found.in_code or bool(step.get("code_action"))
        for call in cast("Iterable[Mapping[str, Any]]", step.get("tool_calls") or ()):
            function = call["function"]
            if function["name"] == "final_answer":
                continue
            arguments: Any = function["arguments"]
            given = cast("Any", arguments if isinstance(arguments, Mapping) else {"input": arguments})
            found.call(function["name"], given, id=call.get("id"))
            failed = True if step.get("error") else None
            found.result(call.get("id"), step.get("error") or step.get("observations"), failed=failed)
    if value.state != "success":
        found.notes.append(f"the run ended with {value.state}")
    return output_text(value.output)


def _agent_framework(value: Any, found: TurnMessages) -> str:
    for message in value.messages:
        for part in message.contents:
            if part.type == "function_call":
                found.call(part.name, part.arguments, id=part.call_id, agent=message.author_name)
            elif part.type == "function_result":
                failed = True if part.exception else None
                found.result(part.call_id, part.exception or part.result, failed=failed)
            elif part.type == "text_reasoning":
                found.thought(part.text or "", agent=message.author_name)
            elif part.type not in ("text", "usage"):
                raise AgentError(f"its response has a part of the unknown type {part.type!r}")
    return str(value.text)


SHAPES: Sequence[ResultShape] = (
    ResultShape("Pydantic AI", ("new_messages",), _pydantic_ai),
    ResultShape("OpenAI Agents", ("new_items", "final_output"), _openai_agents),
    ResultShape("CrewAI", ("raw", "tasks_output"), _crew),
    ResultShape("Agno", ("run_id", "tools", "content", "agent_name"), _agno),
    ResultShape("LlamaIndex", ("response", "current_agent_name", "tool_calls"), _llama_index),
    ResultShape("Strands", ("stop_reason", "message", "metrics"), _strands, tells=False),
    ResultShape("Semantic Kernel", ("message", "thread", "items"), _semantic_kernel, tells=False),
    ResultShape("Agent Framework", ("messages", "text", "user_input_requests"), _agent_framework),
    ResultShape("AutoGen", ("messages", "stop_reason"), _autogen),
    ResultShape("smolagents", ("output", "state", "steps"), _smolagents),
    ResultShape("DSPy", ("toDict", "get_lm_usage"), _dspy),
)


def shape_of(value: Any) -> ResultShape | None:
    return next((shape for shape in SHAPES if all(hasattr(value, name) for name in shape.has)), None)


def output_text(value: Any) -> str:
    """A structured output is the JSON of it."""
    if isinstance(value, str):
        return value
    if callable(dump := getattr(value, "model_dump", None)):
        return json.dumps(dump(mode="json"), ensure_ascii=False)
    return as_text(value)
