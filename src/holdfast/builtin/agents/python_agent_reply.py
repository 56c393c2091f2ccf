"""What a Python agent may answer with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from holdfast.errors import AgentError
from holdfast.ports.agent import Reply
from holdfast.records.message import Message

_ACCEPTED = "a text, a Reply, an assistant's Message, or a dict with `text` or `content`"


def read_reply(value: Any) -> Reply:
    """Raises `AgentError` for anything that is not a reply; None is none: an agent that says nothing says ''."""
    if isinstance(value, str):
        return Reply(text=value)
    if isinstance(value, Reply):
        return value
    if isinstance(value, Message):
        if value.role != "assistant":
            raise AgentError(f"it returned a message with the role {value.role!r}; an agent's has 'assistant'")
        return Reply(text=value.content)
    if isinstance(value, Mapping):
        known = cast("Mapping[object, object]", value)
        text = known.get("text", known.get("content"))
        if isinstance(text, str):
            return Reply(text=text)
        keys = ", ".join(sorted(str(key) for key in known)) or "none"
        raise AgentError(f"it returned a dict without a text under `text` or `content` (its keys: {keys})")
    if value is None:
        raise AgentError(f"it returned None, most likely for want of a `return`; expected {_ACCEPTED}")
    raise AgentError(f"it returned a {type(value).__name__}; expected {_ACCEPTED}")
