"""Combines the events of an A2A agent's answer: state, text with the times of its chunks, and returned files."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from a2a.types import Artifact, Message, Part, StreamResponse, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToJson

FINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
        TaskState.TASK_STATE_INPUT_REQUIRED,
        TaskState.TASK_STATE_AUTH_REQUIRED,
    }
)
"""States in which the agent's turn is over."""


def state_name(state: int) -> str:
    """As the protocol writes it, such as `input-required`."""
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")  # type: ignore[arg-type]


class TurnSoFar:
    """The combined events of one turn. Text is timed by its arrival."""

    def __init__(self) -> None:
        self.state: int | None = None
        self.task_id: str = ""
        self.context_id: str = ""
        self.progress: list[str] = []
        """The agent's progress messages; not part of its reply."""
        self.pieces: list[tuple[float, int]] = []
        """Arrival times and amounts of text of the answer."""
        self._said: str = ""
        self._artifacts: dict[str, list[Part]] = {}
        self._before: frozenset[str] = frozenset()

    @property
    def over(self) -> bool:
        return self.state in FINAL

    @property
    def text(self) -> str:
        """What the agent says, then the text of its artifacts."""
        handed = [text_of(parts, between="") for parts in self._artifacts.values()]
        return "\n".join(text for text in (self._said, *handed) if text)

    @property
    def files(self) -> dict[str, bytes]:
        """Parts with the name of a file, by that name."""
        parts = [part for each in self._artifacts.values() for part in each]
        return {part.filename: _content(part) for part in parts if part.filename and not part.HasField("url")}

    def add(self, event: StreamResponse) -> None:
        now = perf_counter()
        before = len(self.text)
        match event.WhichOneof("payload"):
            case "message":
                self.take_message(event.message)
            case "task":
                self.take_task(event.task)
            case "status_update":
                update = event.status_update
                self._belongs(update.task_id, update.context_id)
                self._take_status(update.status)
            case "artifact_update":
                changed = event.artifact_update
                self._belongs(changed.task_id, changed.context_id)
                self._take_artifact(changed.artifact, append=changed.append)
            case _:
                pass
        if (grown := len(self.text) - before) > 0:
            self.pieces.append((now, grown))

    def take_message(self, message: Message) -> None:
        """A message without a task is a complete answer."""
        self.state = TaskState.TASK_STATE_COMPLETED
        self.context_id = message.context_id or self.context_id
        self._said = text_of(message.parts)

    def take_task(self, task: Task) -> None:
        """The current task: what it has from earlier turns does not belong to this one."""
        self._belongs(task.id, task.context_id)
        for artifact in task.artifacts:
            self._take_artifact(artifact, append=False)
        self._take_status(task.status)

    def _belongs(self, task_id: str, context_id: str) -> None:
        """Raises `ValueError` if an event is of another task than those before it."""
        if self.task_id and task_id != self.task_id:
            raise ValueError(f"it began with the task {self.task_id!r} and went on with {task_id!r}")
        self.task_id, self.context_id = task_id, context_id

    def leave_out(self, artifacts: Iterable[str]) -> None:
        """Artifacts of earlier turns of the same task."""
        self._before = frozenset(artifacts)

    @property
    def artifact_ids(self) -> frozenset[str]:
        return frozenset(self._artifacts) | self._before

    def _take_status(self, status: TaskStatus) -> None:
        self.state = status.state
        said = text_of(status.message.parts) if status.HasField("message") else ""
        if self.over:
            self._said = said
        elif said and (not self.progress or self.progress[-1] != said):
            self.progress.append(said)

    def _take_artifact(self, artifact: Artifact, *, append: bool) -> None:
        if artifact.artifact_id in self._before and not append:
            return
        parts = self._artifacts.setdefault(artifact.artifact_id, [])
        if not append:
            parts.clear()
        parts.extend(artifact.parts)


def text_of(parts: Iterable[Part], *, between: str = "\n") -> str:
    """Text unchanged, data as JSON, a link as its address; files are returned by name. The parts of an artifact may be
    chunks of one text, so nothing is inserted between them."""
    found: list[str] = []
    for part in parts:
        if part.filename and not part.HasField("url"):
            continue
        match part.WhichOneof("content"):
            case "text":
                found.append(part.text)
            case "data":
                found.append(MessageToJson(part.data, indent=None))
            case "url":
                found.append(part.url)
            case _:
                pass
    return between.join(found)


def _content(part: Part) -> bytes:
    match part.WhichOneof("content"):
        case "text":
            return part.text.encode()
        case "data":
            return MessageToJson(part.data, indent=None).encode()
        case _:
            return bytes(part.raw)
