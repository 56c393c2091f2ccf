"""Reads the return value of a `python:` agent into its reply and the steps it took.

Frameworks are recognised by the shape of their results, a line each in `SHAPES`, so that none of them is imported here.
What a result has no place for is not made up: a reply alone does not say which tools were called. Anything that cannot
be read is an error that names it, because it may be something the agent did.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from steadyhand.builtin.agents.message_list import (
    AgentStep,
    TurnMessages,
    finish_word,
    tool_calls,
    turn_messages,
    with_fields,
)
from steadyhand.errors import AgentError
from steadyhand.ports.agent import Reply, Turn
from steadyhand.records.base import Record
from steadyhand.records.chat import FinishReason, Message
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


_ACCEPTED = (
    "a text, a Reply, an assistant's Message, a dict with `text` or `content`, a list of messages, or the result of "
    f"LangGraph, Haystack, Google ADK, {', '.join(shape.framework for shape in SHAPES)}"
)
_KNOWN = ("text", "content", "role", "tool_calls", "name", "id", "refusal", "metadata")


class Returned(Record):
    """`steps` are in order. `notes` describe everything that is not a step, `warnings` what is odd about the reply.
    `tells` is whether the value has a place for tool calls, so that their absence means that none were made; a plain
    reply does not."""

    reply: Reply
    steps: tuple[AgentStep, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    tells: bool = False


def read_returned(value: Any, turn: Turn) -> Returned:
    """The reply, and the steps in a returned value.

    Raises `AgentError` if it is not a reply, or has keys that we do not know. None is not a reply; silence is ''.
    """
    match value:
        case str():
            return Returned(reply=Reply(text=value))
        case Reply():
            # Its time is not the agent's to say: it decides whether the agent was in time.
            timed = ("the `duration_ms` of its Reply is not used: its turn is timed here",)
            return Returned(reply=Reply(text=value.text), warnings=() if value.duration_ms is None else timed)
        case Message():
            if value.role != "assistant":
                raise AgentError(f"it returned a message with the role {value.role!r}; expected 'assistant'")
            steps = tool_calls(value.tool_calls)
            return Returned(reply=Reply(text=value.content), steps=steps, tells=bool(steps))
        case None:
            raise AgentError(f"it returned None; did you forget `return`? Expected {_ACCEPTED}")
        case Mapping():
            return _from_mapping(cast("Mapping[object, object]", value), turn)
        case list() | tuple():
            return _from_messages(cast("Sequence[object]", value), turn)
        case _:
            return _from_framework(value, turn)


def _from_framework(value: Any, turn: Turn) -> Returned:
    if (shape := shape_of(value)) is not None:
        found = TurnMessages()
        text = shape.read(value, found)
        return msgspec.structs.replace(_read(text, found), tells=shape.tells and not found.in_code)
    if hasattr(value, "value") and hasattr(value, "interrupts"):  # LangGraph's GraphOutput
        if value.interrupts:
            raise AgentError(WAITS.format("the graph was interrupted"))
        return read_returned(value.value, turn)
    fields = with_fields(value)
    if fields is not None and fields.get("type") in ("ai", "AIMessageChunk"):
        found = _from_messages([fields], turn)
        return msgspec.structs.replace(found, tells=bool(found.steps))
    if fields is not None and ("messages" in fields or fields.get("role") == "assistant"):
        return _from_mapping(cast("Mapping[object, object]", fields), turn)
    raise AgentError(f"it returned a {type(value).__name__}; expected {_ACCEPTED}")


def _from_mapping(value: Mapping[object, object], turn: Turn) -> Returned:
    messages = value.get("messages")
    if "text" not in value and "content" not in value and isinstance(messages, list | tuple):
        return _from_state(value, cast("Sequence[object]", messages), turn)
    text = value.get("text", value.get("content"))
    keys = ", ".join(sorted(str(key) for key in value)) or "none"
    if not isinstance(text, str):
        raise AgentError(f"it returned a dict without a text under `text` or `content` (its keys: {keys})")
    if value.get("role") not in (None, "assistant"):
        raise AgentError(f"it returned a message with the role {value['role']!r}; expected 'assistant'")
    # An unknown key may report what the agent did. Empty ones are fine: frameworks add them as a matter of course.
    unknown = sorted(str(key) for key, held in value.items() if key not in _KNOWN and held not in (None, "", [], {}))
    if unknown:
        raise AgentError(
            f"it returned a dict with unknown keys: {', '.join(map(repr, unknown))}; a reply has `text` or `content`, "
            "and `tool_calls`. Report what the agent did with `action`, and put the rest under `metadata`"
        )
    given = value.get("tool_calls")
    return Returned(reply=Reply(text=text), steps=tool_calls(given), tells=given is not None)


def _from_state(value: Mapping[object, object], messages: Sequence[object], turn: Turn) -> Returned:
    """LangGraph's message state. Other keys are ignored, with a note."""
    if value.get("__interrupt__"):
        raise AgentError(WAITS.format("the graph was interrupted"))
    found = _from_messages(messages, turn)
    rest = sorted(str(key) for key, held in value.items() if key != "messages" and held not in (None, "", [], {}))
    if not rest:
        return found
    note = f"the state that the agent returned also has {', '.join(rest)}; only its messages were read"
    return msgspec.structs.replace(found, notes=(*found.notes, note))


def _from_messages(messages: Sequence[object], turn: Turn) -> Returned:
    found = turn_messages(messages, turn)
    if found.text is None or found.last != "assistant":
        last = "nothing" if found.last is None else f"a message of {found.last!r}"
        raise AgentError(f"it returned a list of messages that ends with {last}; expected the assistant's reply")
    return _read(found.text, found)


def _read(text: str, found: TurnMessages) -> Returned:
    """Raises `AgentError` if the provider withheld an answer or broke it off, whatever the agent made of that."""
    for finish in found.ends:
        if finish is not None and finish.is_error:
            raise AgentError(f"{finish}, according to the messages it returned")
    last = found.ends[-1] if found.ends else None
    marked = last is not None and not last.plain and last.reason is not FinishReason.TOOL_CALLS
    return Returned(
        reply=Reply(text=text),
        steps=tuple(found.steps),
        notes=tuple(found.notes),
        warnings=(f"{last}; graded as received",) if marked else (),
        tells=True,
    )
