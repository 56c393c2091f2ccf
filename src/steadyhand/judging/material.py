"""What a judge is shown of a step: what was said, what was done and what came of it.

Every message and every file is a piece of its own, so that what one of them says cannot pass for another; lists
of small things are JSON, a line each, for the same reason. Nothing is shortened here: a judge is shown all of it or is
not asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from steadyhand.records.chat import Message
from steadyhand.records.evaluation import Material
from steadyhand.records.event import ServiceCalled, TrajectoryStep
from steadyhand.records.result import CapturedFile, ConversationTurn, ExecutionResult

_SPEAKERS = {"system": "the system prompt", "user": "the user", "assistant": "the agent", "tool": "a tool"}


Part = Literal["messages", "actions", "files"]
PARTS: tuple[Part, ...] = ("messages", "actions", "files")


def materials_of(
    result: ExecutionResult, before: Mapping[str, str], parts: Sequence[Part] = PARTS
) -> tuple[Material, ...]:
    """The pieces, the final reply last. `before` are the files that the scenario put into the workspace.

    `parts` is what to show beside how the step ended and the final reply.
    """
    said = _transcript(result)
    final: Message | None = None
    if said and said[-1].role == "assistant":
        *said, final = said
    pieces = [
        Material(title=f"message {number}, from {_SPEAKERS[message.role]}", text=message.content)
        for number, message in enumerate(said, start=1)
        if "messages" in parts
    ]
    pieces += _actions(result.trajectory) if "actions" in parts else []
    pieces += _service_calls(result.service_calls) if "actions" in parts else []
    pieces += _files(result.files, before) if "files" in parts else []
    if final is None:
        return (*pieces, *_program(result))
    if result.exit_code or result.stderr or result.timed_out:
        pieces.append(Material(title="how the step ended", text=_ending(result)))
    return (*pieces, Material(title="the agent's final reply", text=final.content or "(the reply is empty)"))


def turn_materials(turns: Sequence[ConversationTurn]) -> tuple[Material, ...]:
    """A conversation, a piece for each message: the title alone says who is speaking."""
    return tuple(
        Material(title=f"turn {turn.turn_number}, message from {_SPEAKERS[role]}", text=text or "(it is empty)")
        for turn in turns
        for role, text in (("user", turn.user_input), ("assistant", turn.agent_response))
    )


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
    pieces = [Material(title="how the step ended", text=_ending(result), whole=not result.truncated)]
    if result.stdout:
        pieces.append(Material(title="standard output", text=result.stdout, whole=not result.truncated))
    return pieces


def _ending(result: ExecutionResult) -> str:
    facts: dict[str, Any] = {"exit_code": result.exit_code}
    if result.timed_out:
        facts["timed_out"] = True
    if result.stderr:
        facts["stderr"] = result.stderr
    return _line(facts)


def _actions(trajectory: tuple[TrajectoryStep, ...]) -> list[Material]:
    lines = [_line(_entry(step)) for step in trajectory if step.type != "thought"]
    return _listed("actions taken, and their results", lines, whole=not any(step.cut for step in trajectory))


def _service_calls(calls: tuple[ServiceCalled, ...]) -> list[Material]:
    """An agent may call a service without an action of that name, and an action several services."""
    lines = [
        _line(
            {
                "call": f"{call.service}.{call.method}",
                "args": call.args,
                "input": call.input,
                **({"error": call.error} if call.error is not None else {}),
            }
        )
        for call in calls
    ]
    return _listed("calls of services", lines)


def _listed(title: str, lines: list[str], *, whole: bool = True) -> list[Material]:
    if not lines:
        return []
    return [Material(title=title, text="\n".join(lines), whole=whole)]


def _entry(step: TrajectoryStep) -> dict[str, Any]:
    if step.type == "observation":
        return {"result_of": step.name, "content": step.content}
    return {"action": step.name, "params": step.params, "status": step.status}


def _files(files: Mapping[str, CapturedFile], before: Mapping[str, str]) -> list[Material]:
    """Files that differ from what the scenario put there: a list of all, and the content of each."""
    changed = {
        path: "created" if path not in before else "modified"
        for path, file in sorted(files.items())
        if path not in before or file.content != before[path].encode()
    }
    lines = [_line({"file": path, "change": change, "bytes": files[path].size}) for path, change in changed.items()]
    lines += [_line({"file": path, "change": "deleted"}) for path in sorted(before) if files and path not in files]
    if not lines:
        return []
    return [Material(title="files changed", text="\n".join(lines)), *(_file(path, files[path]) for path in changed)]


def _file(path: str, file: CapturedFile) -> Material:
    """The content; bytes that are no UTF-8 as escapes, so that text in another encoding is not overlooked."""
    title = f"content of the file {path}"
    if file.content is None:
        return Material(title=title, text=f"({file.size} bytes, too large to be kept)", whole=False)
    return Material(title=title, text=file.content.decode("utf-8", "backslashreplace") or "(the file is empty)")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
