"""What is said: messages, tool calls and tool offers, in our own words.

Providers convert at their edge; nothing else knows a vendor's format.
"""

from __future__ import annotations

from typing import Any, Literal

from steadyhand.records.base import Record

Role = Literal["system", "user", "assistant", "tool"]


class ToolCall(Record):
    """A model's wish to call a tool. `arguments` is what it sent, parsed; `raw` is kept when it was not JSON."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None


class ToolSpec(Record):
    """A tool offered to a model: `parameters` is a JSON Schema of an object."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class Message(Record):
    """One message. `tool_call_id` and `name` are set on a tool's answer."""

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
