"""What an agent did, step by step."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.records.base import Record

ActionStatus = Literal["success", "error"]


class TrajectoryStep(Record):
    """A thought, an action or an observation.

    `at_ms` counts from the start of the trial. An action has `name`, `params` and `status`; an observation has the
    `name` of the action it answers and its `content`, of which only the beginning was kept when it was `cut`; a thought
    has `content`.
    """

    type: Literal["thought", "action", "observation"]
    at_ms: float
    name: str | None = None
    params: dict[str, Any] = {}
    status: ActionStatus | None = None
    content: Any = None
    duration_ms: float | None = None
    cut: bool = False
