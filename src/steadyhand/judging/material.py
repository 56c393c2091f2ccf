"""The material that a judge is shown about a step (messages, actions and result), and how it is marked as data.

Every message and file is a separate piece, so that one cannot be mistaken for another; short lists are JSON lines for
the same reason. Nothing is shortened: a judge is shown all of it or is not asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
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


_CODE_LENGTH = 20

_OUR_MARKS = re.compile(r"[<\u2039\u3008\u300a\ufe64\uff1c]{3,}(?=\W{0,8}(?:data|end|cut)\b)", re.IGNORECASE)
# Tokens that servers turn into chat turns when they appear in a message.
_CHAT_TOKENS = re.compile(
    r"<(?=[|\uff5c]\s*[\w\u2581 -]{1,40}\s*[|\uff5c]>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|sep|cls|mask|start_of_turn|end_of_turn|system|user|assistant|human|think|tool_call|tool_response)>)"
    r"|<(?=</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])",
    re.IGNORECASE,
)
# Invisible, although Unicode classes them as letters or marks.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_KEPT = frozenset("\n\t")
_EMOJI_STYLE, _JOINER = "\ufe0f", "\u200d"
_UNUSUAL = re.compile(r"[^\n\t -~\u00a1-\u00ac\u00ae-\u024f\u0370-\u03ff\u0400-\u052f\u3040-\u30ff\u4e00-\u9fff]")


def code_for(texts: Iterable[str]) -> str:
    """A code that depends on every character of the texts.

    Text cannot contain the code computed from it. The same texts get the same code, so a recorded exchange can be
    replayed.
    """
    digest = hashlib.sha256(b"steadyhand judge")
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()[:_CODE_LENGTH]


def data_blocks(materials: Iterable[Material], code: str) -> str:
    """The materials, each defused between its marks. The title is on the first mark, and is data too."""
    return "\n\n".join(_block(material, code) for material in materials)


def _block(material: Material, code: str) -> str:
    title = _without(code, defuse(" ".join(material.title.split())))
    body = _without(code, defuse(material.text))
    return f"<<<data {code} {json.dumps(title, ensure_ascii=False)}>>>\n{body}\n<<<end {code}>>>"


def _without(code: str, text: str) -> str:
    return re.sub(re.escape(code), lambda match: escaped(match[0][0]) + match[0][1:], text, flags=re.IGNORECASE)


def defuse(text: str) -> str:
    """The text with hidden characters shown and markers broken."""
    text = text.replace("\r\n", "\n")
    text = _UNUSUAL.sub(_escaped, text)
    text = _OUR_MARKS.sub(lambda match: "".join(map(escaped, match[0])), text)
    return _CHAT_TOKENS.sub(lambda match: escaped(match[0]), text)


def escaped(character: str) -> str:
    return f"\\u{{{ord(character):x}}}"


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if not _hidden(character) or _part_of_emoji(match):
        return character
    return escaped(character)


@lru_cache(maxsize=4096)
def _hidden(character: str) -> bool:
    """Whether a reader would not see it, or it reorders the text around it."""
    if character in _KEPT:
        return False
    if character in _BLANK or "\ufe00" <= character <= "\ufe0f" or "\U000e0000" <= character <= "\U000e0fff":
        return True
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _part_of_emoji(match: re.Match[str]) -> bool:
    """A single style mark or joiner after a symbol is part of an emoji; several may carry a hidden message."""
    character, text, at = match[0], match.string, match.start()
    before = text[at - 1] if at else ""
    if character == _EMOJI_STYLE:
        return before != "" and unicodedata.category(before) == "So"
    if character == _JOINER and at + 1 < len(text):
        symbol = before == _EMOJI_STYLE or (before != "" and unicodedata.category(before) in ("So", "Sk"))
        return symbol and unicodedata.category(text[at + 1]) == "So"
    return False
