"""Reads the return value of a `python:` agent into its reply and the steps it took.

Frameworks are recognised by the shape of their results, so that none of them is imported here. Anything that cannot be
read is an error that names it, because it may be something the agent did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

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

_ACCEPTED = (
    "a text, a Reply, an assistant's Message, a dict with `text` or `content`, a list of messages, or the result of "
    "Pydantic AI, LangGraph or OpenAI Agents"
)
_KNOWN = ("text", "content", "role", "tool_calls", "name", "id", "refusal", "metadata")
_WAITS = (
    "it did not finish its turn: it is waiting for a person ({}); answer inside the agent, or let it "
    "continue unattended"
)


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
    if callable(getattr(value, "new_messages", None)) and hasattr(value, "output"):
        return _from_pydantic_ai(value)
    if hasattr(value, "new_items") and hasattr(value, "final_output"):
        return _from_openai_agents(value)
    if hasattr(value, "value") and hasattr(value, "interrupts"):  # LangGraph's GraphOutput
        if value.interrupts:
            raise AgentError(_WAITS.format("the graph was interrupted"))
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
        raise AgentError(_WAITS.format("the graph was interrupted"))
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


def _from_openai_agents(value: Any) -> Returned:
    """A run result of the OpenAI Agents SDK: its items are those of this run only."""
    if getattr(value, "is_complete", True) is False:
        raise AgentError("it returned a streamed run that has not finished; read all of its events first")
    if getattr(value, "interruptions", None):
        raise AgentError(_WAITS.format("a tool call needs approval"))
    if value.final_output is None:
        raise AgentError("it returned a run result without a final output")
    found = TurnMessages()
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
    return _read(_output(value.final_output), found)


def _from_pydantic_ai(value: Any) -> Returned:
    """A run result of Pydantic AI: its new messages are those of this run only."""
    output_tool = getattr(value, "_output_tool_name", None)
    agent = getattr(getattr(value, "_state", None), "agent_name", None)
    found = TurnMessages()
    for message in cast("Iterable[Any]", value.new_messages()):
        if getattr(message, "kind", None) == "response":
            found.ended(getattr(message, "finish_reason", None))
        for part in cast("Iterable[Any]", message.parts):
            if output_tool is None or getattr(part, "tool_name", None) != output_tool:
                _part(part, found, agent)
    if value.output is None:
        raise AgentError("it returned a run result without an output")
    return _read(_output(value.output), found)


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
    else:
        found.notes.append(f"the run result has a part of the kind {kind}, which is not an action")


def _output(value: Any) -> str:
    """A structured output is the JSON of it."""
    if isinstance(value, str):
        return value
    if callable(dump := getattr(value, "model_dump", None)):
        return json.dumps(dump(mode="json"), ensure_ascii=False)
    return as_text(value)
