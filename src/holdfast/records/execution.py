"""What an environment and a step of a scenario bring back."""

from __future__ import annotations

from typing import Literal

from holdfast.records.base import Record
from holdfast.records.conversation import ConversationResult
from holdfast.records.event import ModelCalled, ServiceCalled
from holdfast.records.message import Message
from holdfast.records.trajectory import TrajectoryStep


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
    """How long the answer took, and whether that may be graded (`spoiled` empty) or why not.

    `cut` says that the answer was not complete when `ms` had passed and the call was cut off.
    """

    ms: float | None
    spoiled: tuple[str, ...] = ()
    source: Literal["model_call", "agent_turn"] = "model_call"
    cut: bool = False


class ExecutionResult(Record):
    """The outcome of a command in an environment, or of a whole step of a scenario.

    For a step that asks an agent, `stdout` and `reply` are its final reply and `exit_code` is 0; for code they are
    the program's. `duration_ms` is the agent's (or program's) own time, never set-up, queueing or evaluation.
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
    conversation: ConversationResult | None = None
