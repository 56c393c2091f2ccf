"""Reads lists of messages, in the formats of chat APIs and frameworks, into the steps of one turn.

Supported formats: messages by role (OpenAI's chat completions, Anthropic's), LangChain's by `type`, and the items of
OpenAI's Responses. Objects are read by their fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from steadyhand.errors import AgentError
from steadyhand.ports.agent import Turn
from steadyhand.records.base import Record
from steadyhand.records.chat import FINISH_FIELDS, Finish, FinishReason, ToolCall
from steadyhand.records.event import UNREADABLE, ActionStatus

_CALL_FORM = "each is {'name': ..., 'arguments': {...}}, or has that under `function` with the arguments as JSON"
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "function": "tool", "developer": "system"}
_TEXTS = ("text", "output_text", "input_text")
_THOUGHTS = ("thinking", "reasoning", "redacted_thinking")
_NO_STEP = ("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference", "compaction")
_FAILED = (
    "error", "errored", "failed", "failure", "incomplete", "cancelled", "canceled", "denied", "rejected", "refused",
    "timeout", "timed_out",
)  # fmt: skip


class AgentStep(Record):
    """A step that the agent took: a thought, a tool call, or what came back from the call with the same `id`.
    `status` is how a call ended, if that is known without a result."""

    kind: Literal["thought", "call", "result"]
    id: str = ""
    name: str = ""
    params: dict[str, Any] = {}
    content: Any = None
    failed: bool = False
    agent: str | None = None
    status: ActionStatus | None = None


def with_fields(value: Any) -> Mapping[str, Any] | None:
    """A dict, or an object's fields as a dict; None for anything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return cast("Mapping[str, Any]", dump())
    return None


def tool_calls(given: object) -> tuple[AgentStep, ...]:
    """The `tool_calls` of a reply. Raises `AgentError` if they cannot be read."""
    if given is None:
        return ()
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise AgentError(f"it returned a {type(given).__name__} as `tool_calls`; expected a list: {_CALL_FORM}")
    calls = cast("Sequence[object]", given)
    return tuple(_call(call, f"entry {number} of its `tool_calls`") for number, call in enumerate(calls, start=1))


def _call(call: object, where: str) -> AgentStep:
    if isinstance(call, ToolCall):
        arguments = call.arguments if call.raw is None else call.raw
        call = {"id": call.id, "name": call.name, "arguments": arguments}
    entry = with_fields(call)
    if entry is None:
        raise AgentError(f"{where} is a {type(call).__name__}; {_CALL_FORM}")
    inner: Any = entry.get("function", entry.get("custom", entry))
    held = cast("Mapping[str, Any]", inner if isinstance(inner, Mapping) else {})
    name: Any = held.get("name")
    if not isinstance(name, str) or not name:
        raise AgentError(f"{where} has no name; {_CALL_FORM}")
    arguments: Any = held.get("arguments", held.get("args"))
    if "custom" in entry:
        arguments = {"input": held.get("input")}
    try:
        params = _params(arguments)
    except ValueError as error:
        raise AgentError(f"{where} ({name}) has {error}") from error
    return AgentStep(kind="call", id=_text_of(entry.get("id")), name=name, params=params)


def _params(arguments: Any) -> dict[str, Any]:
    """Raises `ValueError` that ends the sentence "it has ..."."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError as error:
            raise ValueError(f"arguments that are not JSON: {error}") from error
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ValueError(f"a {type(arguments).__name__} as arguments; expected an object")  # noqa: TRY004 - one kind for both
    return dict(cast("Mapping[str, Any]", arguments))


class TurnMessages:
    """The steps of a turn, the text of its last assistant message, how the model's answers ended, and notes on
    everything else."""

    def __init__(self) -> None:
        self.steps: list[AgentStep] = []
        self.notes: list[str] = []
        self.ends: list[Finish | None] = []
        self.text: str | None = None
        self.last: str | None = None
        self._calls: dict[str, AgentStep] = {}

    def thought(self, text: str, *, agent: str | None = None) -> None:
        if text.strip():
            self.steps.append(AgentStep(kind="thought", content=text, agent=agent))

    def ended(self, word: str | None) -> None:
        """How an answer of the model ended, in the provider's term; None if it does not say."""
        self.ends.append(None if word is None else Finish(reason=FinishReason(word), raw=word))

    def call(
        self,
        name: str,
        arguments: Any,
        *,
        id: str | None,  # noqa: A002 - its name everywhere
        agent: str | None = None,
        status: ActionStatus | None = None,
    ) -> None:
        """A call whose arguments cannot be read was refused by the framework: an action that was only tried."""
        try:
            params = _params(arguments)
        except ValueError:
            params, status = {UNREADABLE: str(arguments)}, "invalid"
        self._add(AgentStep(kind="call", id=id or "", name=name, params=params, status=status, agent=agent))

    def result(self, id: str | None, content: Any, *, failed: bool = False, name: str | None = None) -> None:  # noqa: A002 - its name everywhere
        """Raises `AgentError` for the result of an unknown call: its arguments would be missing."""
        call = self._calls.get(id or "") or next((each for each in reversed(self.steps) if each.name == name), None)
        if call is None:
            raise AgentError(f"it returned the result of a tool call ({name or id}) without the call itself")
        if not any(step is call for step in self.steps):
            self.steps.append(call)  # asked for in an earlier turn, and made in this one
        self.steps.append(
            AgentStep(kind="result", id=call.id, name=call.name, content=content, failed=failed, agent=call.agent)
        )

    def message(self, message: Mapping[str, Any], where: str) -> None:
        """Raises `AgentError` for what cannot be read."""
        role = role_of(message)
        self.last = role or _text_of(message.get("type"))
        if role is None:
            self.item(message, where)
        elif role == "assistant":
            self._assistant(message, where)
        elif role == "tool":
            content = message.get("content")
            self.result(
                _text_of(message.get("tool_call_id")), content, failed=has_failed(message), name=message.get("name")
            )
        elif role == "user":
            for part in _parts(message.get("content")):
                if part.get("type") == "tool_result":
                    self.result(part.get("tool_use_id"), part.get("content"), failed=has_failed(part))
        elif role != "system":
            raise AgentError(f"{where} has the unknown role {role!r}")

    def _assistant(self, message: Mapping[str, Any], where: str) -> None:
        self.ended(finish_word(message))
        agent = message.get("name") if isinstance(message.get("name"), str) else None
        more: Any = message.get("additional_kwargs") or {}
        self.thought(_text_of(message.get("reasoning_content") or more.get("reasoning_content")), agent=agent)
        said: list[str] = []
        known = {_text_of(call.id) for call in tool_calls(message.get("tool_calls"))}
        for part in _parts(message.get("content")):
            kind = part.get("type")
            if kind in _TEXTS:
                said.append(_text_of(part.get("text")))
            elif kind in _THOUGHTS:
                self.thought(_reasoning(part), agent=agent)
            elif kind in ("tool_use", "tool_call", "function_call"):
                if (number := part.get("id") or part.get("call_id")) not in known:
                    arguments = part.get("input", part.get("args", part.get("arguments")))
                    self.call(_text_of(part.get("name")), arguments, id=number, agent=agent)
            elif kind == "refusal":
                said.append(_text_of(part.get("refusal")))
            else:
                self.notes.append(f"{where} has a part of the unknown type {kind!r}, which was ignored")
        for call in tool_calls(message.get("tool_calls")):
            self._add(AgentStep(kind="call", id=call.id, name=call.name, params=call.params, agent=agent))
        if message.get("function_call"):
            self._add(_call(message["function_call"], f"the function_call of {where}"))
        for call in message.get("invalid_tool_calls") or ():
            self.call(_text_of(call.get("name")), call.get("args"), id=call.get("id"), agent=agent)
        self.text = "".join(said) or _text_of(message.get("refusal"))

    def item(self, item: Mapping[str, Any], where: str, *, agent: str | None = None) -> None:
        """An item of OpenAI's Responses. Raises `AgentError` for an unknown type."""
        kind = item.get("type")
        number = _text_of(item.get("call_id") or item.get("id"))
        if kind in ("function_call", "custom_tool_call", "mcp_call"):
            arguments: Any = item.get("arguments")
            arguments = {"input": item.get("input")} if kind == "custom_tool_call" else arguments
            self.call(_text_of(item.get("name")), arguments, id=number, agent=agent)
            if kind == "mcp_call" and (item.get("output") is not None or item.get("error") is not None):
                failed = item.get("error") is not None
                self.result(number, item.get("error") if failed else item.get("output"), failed=failed)
        elif isinstance(kind, str) and kind.endswith("_output"):
            self.result(number, item.get("output"), failed=has_failed(item))
        elif isinstance(kind, str) and kind.endswith("_call"):
            rest = {name: held for name, held in item.items() if name not in ("type", "id", "call_id", "status")}
            status: ActionStatus | None = "error" if has_failed(item) else None
            if item.get("status") == "completed":
                status = "success"
            self.call(kind.removesuffix("_call"), rest, id=number, agent=agent, status=status)
        elif kind in _THOUGHTS:
            self.thought(_reasoning(item), agent=agent)
        elif kind in _NO_STEP:
            self.notes.append(f"{where} is a {kind}, which is not an action")
        else:
            keys = ", ".join(sorted(map(str, item))) or "none"
            what = "has no role" if kind is None else f"has the unknown type {kind!r}"
            raise AgentError(f"{where} {what} (its keys: {keys})")

    def earlier(self, other: TurnMessages) -> None:
        """Calls of earlier turns, whose results may come in this one."""
        self._calls.update(other._calls)

    def _add(self, call: AgentStep) -> None:
        self.steps.append(call)
        if call.id:
            self._calls[call.id] = call


def turn_messages(messages: Sequence[object], turn: Turn) -> TurnMessages:
    """The steps of this turn, from the messages after the user message that the turn answers.

    If the list does not contain that message, all of it counts: the agent may return only new messages, or rephrase the
    question. If it returns old messages too, their actions count again; that is better than missing something. Raises
    `AgentError` for anything that cannot be read, including earlier messages.
    """
    read: list[Mapping[str, Any]] = []
    for number, message in enumerate(messages, start=1):
        fields = with_fields(message)
        if fields is None:
            raise AgentError(f"entry {number} of the list it returned is a {type(message).__name__}, not a message")
        read.append(fields)
    start = _begin(read, turn)
    before, found = TurnMessages(), TurnMessages()
    for number, message in enumerate(read, start=1):
        if number == start + 1:
            found.earlier(before)
        (before if number <= start else found).message(message, f"message {number} of the list it returned")
    return found


def _begin(messages: Sequence[Mapping[str, Any]], turn: Turn) -> int:
    """The number of messages before the answer to this turn.

    The user may have sent the same text before, and an agent may repeat it, so its Nth occurrence in the exchange is
    matched with the Nth one in the list.
    """
    said = [message.content.strip() for message in turn.messages if message.role == "user"]
    if not said:
        return 0
    places = [
        number
        for number, message in enumerate(messages, start=1)
        if role_of(message) == "user" and _said(message).strip() == said[-1]
    ]
    return places[min(said.count(said[-1]), len(places)) - 1] if places else 0


def has_failed(result: Mapping[str, Any]) -> bool:
    """Whether a tool's result says that the call failed, in any of the usual ways."""
    if result.get("error") or any(result.get(name) is True for name in ("is_error", "isError")):
        return True
    status = result.get("status")
    return any(result.get(name) is False for name in ("success", "ok")) or (
        isinstance(status, str) and status.strip().casefold() in _FAILED
    )


def finish_word(message: Mapping[str, Any]) -> str | None:
    """The provider's word for how the answer ended: in the message itself, or in LangChain's metadata of it."""
    more: Any = message.get("response_metadata")
    for fields in (message, cast("Mapping[str, Any]", more if isinstance(more, Mapping) else {})):
        details: Any = fields.get("incomplete_details")
        if isinstance(details, Mapping) and isinstance(reason := cast("Mapping[str, Any]", details).get("reason"), str):
            return reason
        found = next((word for name in FINISH_FIELDS if isinstance(word := fields.get(name), str) and word), None)
        if found is not None:
            return found
        if fields.get("status") == "incomplete":
            return "incomplete"
    return None


def role_of(message: Mapping[str, Any]) -> str | None:
    role = message.get("role")
    if isinstance(role, str):
        return _ROLES.get(role, role)
    kind = message.get("type")
    if kind in _ROLES or kind in ("tool", "system"):
        return _ROLES.get(str(kind), str(kind))
    return None


def _said(message: Mapping[str, Any]) -> str:
    return "".join(_text_of(part.get("text")) for part in _parts(message.get("content")) if part.get("type") in _TEXTS)


def _parts(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts: list[Mapping[str, Any]] = []
    for part in cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ():
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        else:
            parts.append(with_fields(part) or {"type": type(part).__name__})
    return parts


def _reasoning(part: Mapping[str, Any]) -> str:
    summary: Any = part.get("summary") or part.get("content") or ()
    told = [_text_of(part.get("thinking") or part.get("reasoning") or part.get("text"))]
    told += [_text_of(each.get("text")) for each in _parts(summary)]
    return "\n".join(text for text in told if text)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
