"""The lines that a `command` agent reads and writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from steadyhand.builtin.agents.trajectory import latest_user_text
from steadyhand.errors import AgentError
from steadyhand.ports.agent import TrialContext, Turn
from steadyhand.records.base import shorten
from steadyhand.records.event import ActionStatus

_SHOWN = 200


class ThoughtLine(msgspec.Struct, tag="thought", forbid_unknown_fields=True):
    text: str


class ActionLine(msgspec.Struct, tag="action", forbid_unknown_fields=True):
    """An action. With `result`, its observation is recorded too."""

    name: str
    params: dict[str, Any] = {}
    status: ActionStatus = "success"
    result: Any = msgspec.UNSET
    duration_ms: float = 0.0


class ObservationLine(msgspec.Struct, tag="observation", forbid_unknown_fields=True):
    """The result of the last action of this name."""

    name: str
    content: Any = None


class CallLine(msgspec.Struct, tag="call", forbid_unknown_fields=True):
    """Calls a service's method. The answer is a line of type `result` or `fault` with the same `id`."""

    service: str
    method: str
    id: Any = None
    args: list[Any] = []
    params: dict[str, Any] = {}


class ReplyLine(msgspec.Struct, tag="reply", forbid_unknown_fields=True):
    """Ends the turn. If `number` is given, it must be that of the turn."""

    text: str
    number: int | None = None


class FailureLine(msgspec.Struct, tag="error", forbid_unknown_fields=True):
    """The program reports that it failed."""

    message: str


OutputLine = ThoughtLine | ActionLine | ObservationLine | CallLine | ReplyLine | FailureLine
_decoder = msgspec.json.Decoder(OutputLine)
_EXPECTED = "a JSON object with a `type` of thought, action, observation, call, error or reply"


def turn_line(turn: Turn, trial: TrialContext, workspace: Path) -> bytes:
    remaining = None if turn.deadline is None else max(0.0, turn.deadline - trial.clock.now())
    return msgspec.json.encode(
        {
            "type": "turn",
            "number": turn.number,
            "input": latest_user_text(turn),
            "messages": [{"role": message.role, "content": message.content} for message in turn.messages],
            "seed": trial.seed,
            "workspace": str(workspace),
            "remaining_s": remaining,
        }
    )


def read_line_of(raw: bytes) -> OutputLine:
    """Raises `AgentError` for a line that does not follow the protocol."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AgentError(
            f"it wrote {shown(raw)} to stdout ({error}); expected {_EXPECTED}; write everything else to stderr"
        ) from error


def is_report(raw: bytes) -> bool:
    """Whether the line only reports what the program did."""
    try:
        return isinstance(_decoder.decode(raw), ThoughtLine | ActionLine | ObservationLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def shown(raw: bytes) -> str:
    """A line as quoted in messages."""
    return repr(shorten(raw.decode("utf-8", "replace"), _SHOWN))
