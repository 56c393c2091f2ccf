"""What a Python agent may answer with: a text, and the calls of tools that it says it made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from steadyhand.errors import AgentError
from steadyhand.ports.agent import Reply
from steadyhand.records.base import Record
from steadyhand.records.chat import Message, ToolCall

_ACCEPTED = "a text, a Reply, an assistant's Message, or a dict with `text` or `content`"
_KNOWN = ("text", "content", "role", "tool_calls", "name", "id", "refusal", "metadata")
_CALL_FORM = "each is {'name': ..., 'arguments': {...}}, or has that under `function` with the arguments as JSON"


class ReportedCall(Record):
    """A tool that the agent says it called."""

    name: str
    params: dict[str, Any] = {}


def read_reply(value: Any) -> tuple[Reply, tuple[ReportedCall, ...]]:
    """Raises `AgentError` for anything that is not a reply, or that is one and more than can be read. None is none: an
    agent that says nothing says ''."""
    if isinstance(value, str):
        return Reply(text=value), ()
    if isinstance(value, Reply):
        return value, ()
    if isinstance(value, Message):
        if value.role != "assistant":
            raise AgentError(f"it returned a message with the role {value.role!r}; an agent's has 'assistant'")
        return Reply(text=value.content), _calls(value.tool_calls)
    if isinstance(value, Mapping):
        return _from_dict(cast("Mapping[object, object]", value))
    if value is None:
        raise AgentError(f"it returned None, most likely for want of a `return`; expected {_ACCEPTED}")
    raise AgentError(f"it returned a {type(value).__name__}; expected {_ACCEPTED}")


def _from_dict(value: Mapping[object, object]) -> tuple[Reply, tuple[ReportedCall, ...]]:
    text = value.get("text", value.get("content"))
    keys = ", ".join(sorted(str(key) for key in value)) or "none"
    if not isinstance(text, str):
        raise AgentError(f"it returned a dict without a text under `text` or `content` (its keys: {keys})")
    if value.get("role") not in (None, "assistant"):
        raise AgentError(f"it returned a message with the role {value['role']!r}; an agent's has 'assistant'")
    # What nobody reads may be what the agent did. Frameworks add keys that are empty when there is nothing to say.
    unknown = sorted(str(key) for key, held in value.items() if key not in _KNOWN and held not in (None, "", [], {}))
    if unknown:
        raise AgentError(
            f"it returned a dict with {', '.join(map(repr, unknown))}, which cannot be read; a reply has `text` or "
            "`content`, and `tool_calls`; report what the agent did with `action`, and put the rest under `metadata`"
        )
    return Reply(text=text), _calls(value.get("tool_calls"))


def _calls(given: object) -> tuple[ReportedCall, ...]:
    if given is None:
        return ()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise AgentError(f"it returned `tool_calls` that are a {type(given).__name__}; expected a list: {_CALL_FORM}")
    calls = cast("Sequence[object]", given)
    return tuple(_call(call, number) for number, call in enumerate(calls, start=1))


def _call(call: object, number: int) -> ReportedCall:
    if isinstance(call, ToolCall):
        call = {"name": call.name, "arguments": call.arguments if call.raw is None else call.raw}
    where = f"entry {number} of its `tool_calls`"
    if not isinstance(call, Mapping):
        raise AgentError(f"{where} is a {type(call).__name__}; {_CALL_FORM}")
    entry = cast("Mapping[str, Any]", call)
    inner: Any = entry.get("function", entry)
    held = cast("Mapping[str, Any]", inner if isinstance(inner, Mapping) else {})
    name: Any = held.get("name")
    arguments: Any = held.get("arguments", held.get("args"))
    if not isinstance(name, str) or not name:
        raise AgentError(f"{where} has no name; {_CALL_FORM}")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            raise AgentError(f"{where} ({name}) has arguments that are not JSON: {error}") from error
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise AgentError(f"{where} ({name}) has a {type(arguments).__name__} as arguments; expected an object")
    return ReportedCall(name=name, params=cast("dict[str, Any]", arguments))
