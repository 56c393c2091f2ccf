"""The material that a judge is shown about a step (messages, actions and result).

Every message and file is a separate piece, so that one cannot be mistaken for another; short lists are JSON lines for
the same reason. Nothing is shortened: a judge is shown all of it or is not asked.
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
    """The pieces, the final reply last. `before` holds the files that the scenario put into the workspace.

    `parts` is what to show besides the final reply and how the step ended.
    """
    said = list(result.transcript)
    final: Message | None = None
    if said and said[-1].role == "assistant":
        *said, final = said
    pieces = [
        Material(title=f"message {number}, from {_SPEAKERS[message.role]}", text=message.content)
        for number, message in enumerate(said, start=1)
        if "messages" in parts
    ]
    if "actions" in parts:
        lines = [_line(_entry(step)) for step in result.trajectory if step.type != "thought"]
        whole = not any(step.cut for step in result.trajectory)
        pieces += _listed("actions taken, and their results", lines, whole=whole)
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
        Material(
            title=f"turn {turn.turn_number}, message from {_SPEAKERS[said.role]}", text=said.content or "(it is empty)"
        )
        for turn in turns
        for said in turn.messages
    )


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


def _service_calls(calls: tuple[ServiceCalled, ...]) -> list[Material]:
    """Apart from actions, as an agent may call a service without one, and an action may call several."""
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
    """Files that differ from what the scenario put there: a list, and the content of each."""
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
    """The content, with bytes that are not UTF-8 escaped, so that text in another encoding is not overlooked."""
    title = f"content of the file {path}"
    if file.content is None:
        return Material(title=title, text=f"({file.size} bytes, too large to be kept)", whole=False)
    return Material(title=title, text=file.content.decode("utf-8", "backslashreplace") or "(the file is empty)")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
