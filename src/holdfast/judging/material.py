"""What a judge is shown of a step: what was said, what was done and what came of it.

Every message and every file is a piece of its own, so that what one of them says cannot pass for another; lists
of small things are JSON, a line each, for the same reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.records.event import ServiceCalled
from holdfast.records.execution import CapturedFile, ExecutionResult
from holdfast.records.material import Material
from holdfast.records.message import Message
from holdfast.records.trajectory import TrajectoryStep

_ENTRY_LIMIT = 2_000
_ENTRIES = 200
_FILES = 20
_SPEAKERS = {"system": "the system prompt", "user": "the user", "assistant": "the agent", "tool": "a tool"}


def materials_of(result: ExecutionResult, before: Mapping[str, str]) -> tuple[Material, ...]:
    """The pieces, the final reply last. `before` are the files that the scenario put into the workspace."""
    said = _transcript(result)
    final: Message | None = None
    if said and said[-1].role == "assistant":
        *said, final = said
    pieces = [
        Material(title=f"message {number}, from {_SPEAKERS[message.role]}", text=message.content)
        for number, message in enumerate(said, start=1)
    ]
    pieces += _actions(result.trajectory)
    pieces += _service_calls(result.service_calls)
    pieces += _files(result.files, before)
    if final is None:
        return (*pieces, *_program(result))
    if result.exit_code or result.stderr or result.timed_out:
        pieces.append(Material(title="how the step ended", text=_ending(result)))
    return (*pieces, Material(title="the agent's final reply", text=final.content or "(the reply is empty)"))


def _transcript(result: ExecutionResult) -> list[Message]:
    if result.messages:
        return list(result.messages)
    if result.conversation is not None:
        return [
            message
            for turn in result.conversation.turns
            for message in (
                Message(role="user", content=turn.user_input),
                Message(role="assistant", content=turn.agent_response),
            )
        ]
    return []


def _program(result: ExecutionResult) -> list[Material]:
    """A step without a reply: code that ran, or an agent that was cut short."""
    pieces = [Material(title="how the step ended", text=_ending(result))]
    if result.stdout:
        pieces.append(Material(title="standard output", text=result.stdout))
    return pieces


def _ending(result: ExecutionResult) -> str:
    facts: dict[str, Any] = {"exit_code": result.exit_code}
    if result.timed_out:
        facts["timed_out"] = True
    if result.stderr:
        facts["stderr"] = _shortened(result.stderr)
    return _line(facts)


def _actions(trajectory: tuple[TrajectoryStep, ...]) -> list[Material]:
    lines = [_line(_entry(step)) for step in trajectory if step.type != "thought"]
    return _listed("actions taken, and their results", lines)


def _service_calls(calls: tuple[ServiceCalled, ...]) -> list[Material]:
    """An agent may call a service without an action of that name, and an action several services."""
    lines = [
        _line(
            {
                "call": f"{call.service}.{call.method}",
                "args": _shortened(call.args),
                "input": _shortened(call.input),
                **({"error": _shortened(call.error)} if call.error is not None else {}),
            }
        )
        for call in calls
    ]
    return _listed("calls of services", lines)


def _listed(title: str, lines: list[str]) -> list[Material]:
    if not lines:
        return []
    if len(lines) > _ENTRIES:
        half = _ENTRIES // 2
        lines = [*lines[:half], f"({len(lines) - _ENTRIES} entries left out)", *lines[-half:]]
    return [Material(title=title, text="\n".join(lines))]


def _entry(step: TrajectoryStep) -> dict[str, Any]:
    if step.type == "observation":
        return {"result_of": step.name, "content": _shortened(step.content)}
    return {"action": step.name, "params": _shortened(step.params), "status": step.status}


def _files(files: Mapping[str, CapturedFile], before: Mapping[str, str]) -> list[Material]:
    """Files that differ from what the scenario put there: a list of all, and the content of the first ones."""
    changed = {
        path: "created" if path not in before else "modified"
        for path, file in sorted(files.items())
        if path not in before or file.content != before[path].encode()
    }
    lines = [_line({"file": path, "change": change, "bytes": files[path].size}) for path, change in changed.items()]
    lines += [_line({"file": path, "change": "deleted"}) for path in sorted(before) if files and path not in files]
    if not lines:
        return []
    if len(lines) > _ENTRIES:
        lines = [*lines[:_ENTRIES], f"({len(lines) - _ENTRIES} files left out)"]
    pieces = [Material(title="files changed", text="\n".join(lines))]
    for path in list(changed)[:_FILES]:
        text = files[path].text()
        if text is not None:
            pieces.append(Material(title=f"content of the file {path}", text=text))
    return pieces


def _shortened(value: Any) -> Any:
    """The value itself when it is small, else the beginning and the end of its text."""
    text = value if isinstance(value, str) else _line(value)
    if len(text) <= _ENTRY_LIMIT:
        return value
    half = _ENTRY_LIMIT // 2
    return f"{text[:half]} (... {len(text) - _ENTRY_LIMIT} characters left out ...) {text[-half:]}"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
