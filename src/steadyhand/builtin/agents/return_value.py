"""Reads the return value of a `python:` agent into its reply and the steps it took.

Frameworks are recognised by the shape of their results, so that none of them is imported here. Anything that cannot be
read is an error that names it, because it may be something the agent did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from steadyhand.builtin.agents.framework_results import SHAPES, WAITS, shape_of
from steadyhand.builtin.agents.message_list import (
    AgentStep,
    TurnMessages,
    tool_calls,
    turn_messages,
    with_fields,
)
from steadyhand.errors import AgentError
from steadyhand.ports.agent import Reply, Turn
from steadyhand.records.base import Record
from steadyhand.records.chat import FinishReason, Message

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
