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
from steadyhand.records.tool_result import content_has_failed, has_failed

_CALL_FORM = "each is {'name': ..., 'arguments': {...}}, or has that under `function` with the arguments as JSON"
_ROLES = {
    "human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "model": "assistant", "function": "tool",
    "developer": "system",
}  # fmt: skip
_TEXTS = ("text", "output_text", "input_text")
_THOUGHTS = ("thinking", "reasoning", "redacted_thinking")
_MEDIA = ("image", "image_url", "audio", "input_audio", "file", "document", "video", "cachePoint", "citationsContent")
_NO_STEP = ("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "item_reference", "compaction")


class AgentStep(Record):
    """A step that the agent took: a thought, a tool call, or what came back from the call with the same `id`.
    `failed` is what a result says about how the call ended, and `status` how it ended if that is known without one."""

    kind: Literal["thought", "call", "result"]
    id: str = ""
    name: str = ""
    params: dict[str, Any] = {}
    content: Any = None
    failed: bool | None = None
    agent: str | None = None
    status: ActionStatus | None = None


def with_fields(value: Any) -> Mapping[str, Any] | None:
    """A dict, or an object's fields as a dict; None for anything else."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    dump = getattr(value, "model_dump", getattr(value, "to_dict", None))
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
        self.in_code: bool = False
        """Whether code that a model wrote was run, which may have called tools."""

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

    def result(
        self,
        id: str | None,  # noqa: A002 - its name everywhere
        content: Any,
        *,
        failed: bool | None = None,
        name: str | None = None,
    ) -> None:
        """`failed` is None if nothing but the content may say how the call ended.

        Raises `AgentError` for the result of an unknown call: its arguments would be missing.
        """
        failed = content_has_failed(content) if failed is None else failed
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
        if (event := _event_content(message)) is not None:
            message = event
        role = role_of(message)
        self.last = role or _text_of(message.get("type"))
        if role is None:
            self.item(message, where)
        elif role == "assistant":
            self._assistant(message, where)
        elif role == "tool" and message.get("tool_call_id") is not None:
            content = message.get("content")
            self.result(
                _text_of(message.get("tool_call_id")), content, failed=has_failed(message), name=message.get("name")
            )
        elif role in ("tool", "user"):
            for part in _parts(message.get("content")):
                if part.get("type") == "tool_result":
                    self._part_result(part)
        elif role != "system":
            raise AgentError(f"{where} has the unknown role {role!r}")

    def _part_result(self, part: Mapping[str, Any]) -> None:
        self.result(part.get("tool_use_id"), part.get("content"), failed=has_failed(part), name=part.get("name"))

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
            elif kind in ("tool_use", "tool_call", "function_call", "server_tool_use"):
                if (number := part.get("id") or part.get("call_id")) not in known:
                    arguments = part.get("input", part.get("args", part.get("arguments")))
                    self.call(_text_of(part.get("name")), arguments, id=number, agent=agent)
            elif kind == "refusal":
                said.append(_text_of(part.get("refusal")))
            elif kind == "tool_result":
                self._part_result(part)
            elif kind in _MEDIA:
                self.notes.append(f"{where} has a part of the type {kind!r}, which is not an action")
            else:
                raise AgentError(f"{where} has a part of the unknown type {kind!r} (its keys: {_keys(part)})")
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
            # The status of an item is that of writing it: "completed" says nothing about the call.
            self.result(number, item.get("output"), failed=has_failed(item) or None)
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
            what = "has no role" if kind is None else f"has the unknown type {kind!r}"
            raise AgentError(f"{where} {what} (its keys: {_keys(item)})")

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
        if role_of(message) == "user" and _text_in(message).strip() == said[-1]
    ]
    return places[min(said.count(said[-1]), len(places)) - 1] if places else 0


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


def _text_in(message: Mapping[str, Any]) -> str:
    return "".join(_text_of(part.get("text")) for part in _parts(message.get("content")) if part.get("type") in _TEXTS)


def _parts(content: Any) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    parts: list[Mapping[str, Any]] = []
    for part in cast("Sequence[Any]", content) if isinstance(content, list | tuple) else ():
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        else:
            parts.append(_typed(with_fields(part) or {"type": type(part).__name__}))
    return parts


def _typed(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part with its type, which Bedrock, Gemini and Haystack tell by the only key that is set."""
    if "type" in part:
        return part
    held: Mapping[str, Any]
    for key, value in part.items():
        held = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
        match key:
            case "toolUse" | "tool_call" | "function_call" if held:
                given = held.get("input", held.get("arguments", held.get("args")))
                name = held.get("name", held.get("tool_name"))
                return {"type": "tool_use", "id": held.get("toolUseId", held.get("id")), "name": name, "input": given}
            case "toolResult" | "tool_call_result" | "function_response" if held:
                origin: Mapping[str, Any] = held.get("origin") or held
                number = origin.get("toolUseId", origin.get("id"))
                content = held.get("content", held.get("result", held.get("response")))
                ended = {name: held[name] for name in ("status", "error") if name in held}
                name = origin.get("name", origin.get("tool_name"))
                return {"type": "tool_result", "tool_use_id": number, "name": name, "content": content, **ended}
            case "reasoning" | "reasoningContent" if held:
                return {"type": "reasoning", "text": held.get("reasoning_text") or held.get("reasoningText")}
            case "text" if isinstance(value, str):
                return {"type": "reasoning" if part.get("thought") else "text", "text": value}
            case _:
                pass
    set_keys = [str(key) for key, value in part.items() if value is not None]
    return {**part, "type": set_keys[0] if set_keys else "text"}


def _event_content(message: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The message in an event of Google's ADK; None for anything else."""
    if "invocation_id" not in message or "author" not in message:
        return None
    content: Mapping[str, Any] = message.get("content") or {}
    if message.get("partial") or not content.get("parts"):
        return {"role": "system", "content": ""}
    return {"role": content.get("role") or "model", "content": content["parts"], "name": message["author"]}


def _keys(part: Mapping[str, Any]) -> str:
    return ", ".join(sorted(map(str, part))) or "none"


def _reasoning(part: Mapping[str, Any]) -> str:
    summary: Any = part.get("summary") or part.get("content") or ()
    texts = [_text_of(part.get("thinking") or part.get("reasoning") or part.get("text"))]
    texts += [_text_of(each.get("text")) for each in _parts(summary)]
    return "\n".join(text for text in texts if text)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
