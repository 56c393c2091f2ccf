"""What an environment and a step of a scenario bring back."""

from __future__ import annotations

import math
from typing import Literal

from steadyhand.records.base import Record
from steadyhand.records.chat import Finish
from steadyhand.records.conversation import ConversationResult
from steadyhand.records.event import ModelCalled, ServiceCalled
from steadyhand.records.message import Message
from steadyhand.records.timing import Spoiled
from steadyhand.records.trajectory import TrajectoryStep


class FileSystemOperation(Record):
    """A file to write before the run. `path` is relative to the workspace."""

    path: str
    content: bytes
    type: Literal["write"] = "write"


class CapturedFile(Record):
    """A file of the workspace. `content` is None when it was too large to keep."""

    size: int
    content: bytes | None = None

    def text(self) -> str | None:
        """The content as UTF-8, or None when it was not kept or is not text."""
        if self.content is None:
            return None
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None


class Latency(Record):
    """How long the answer took, and what may have changed that.

    `cut` says that the answer was not complete when `ms` had passed and the call was cut off.
    """

    ms: float | None
    spoiled: tuple[Spoiled, ...] = ()
    source: Literal["model_call", "agent_turn"] = "model_call"
    cut: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """Where the latency would have been undisturbed. Of an answer that was cut only the lower one says anything."""
        if self.ms is None:
            return 0.0, math.inf
        low = min((each.low_ms or 0.0 for each in self.spoiled), default=self.ms)
        high = max((math.inf if each.high_ms is None else each.high_ms for each in self.spoiled), default=self.ms)
        return min(low, self.ms), max(high, self.ms)


class ExecutionResult(Record):
    """The outcome of a command in an environment, or of a whole step of a scenario.

    For a step that asks an agent, `stdout` and `reply` are its final reply and `exit_code` is 0; for code they are
    the program's. `duration_ms` is the agent's (or program's) own time, never set-up, queueing or evaluation. `finish`
    is how the model's answer ended, of several the one that ended worst; None where that is not known.
    """

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""
    files: dict[str, CapturedFile] = {}
    started_at_ms: float = 0.0
    ended_at_ms: float = 0.0
    duration_ms: float = 0.0
    timed_out: bool = False
    truncated: bool = False
    reply: str = ""
    messages: tuple[Message, ...] = ()
    trajectory: tuple[TrajectoryStep, ...] = ()
    calls: tuple[ModelCalled, ...] = ()
    service_calls: tuple[ServiceCalled, ...] = ()
    latency: Latency | None = None
    finish: Finish | None = None
    conversation: ConversationResult | None = None
