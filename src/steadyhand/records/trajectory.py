"""What an agent did, step by step, and how much of it can be seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from steadyhand.records.base import Record

ActionStatus = Literal["success", "error"]
Sight = Literal["seen", "self_reported", "not_seen"]
Visible = Literal["actions", "services", "files", "database", "model_calls"]
VISIBLE: tuple[Visible, ...] = get_args(Visible)


class Shows(Record):
    """What an agent lets us see of what it does, beside its reply.

    *seen*: it goes through us, and we record it. *self_reported*: the agent tells us, and its word counts. *not_seen*:
    we would not know, so that silence proves nothing. `services`, `files` and `database` are the trial's own (mocks,
    workspace, seeded database); where the agent cannot reach them, they are not seen.

    With `acts` false the agent has no means to do anything but reply: nothing is hidden, and a check on what it did
    could come out in one way only. `advice` says how to make visible what is not.
    """

    actions: Sight = "not_seen"
    services: Sight = "not_seen"
    files: Sight = "not_seen"
    database: Sight = "not_seen"
    model_calls: Sight = "not_seen"
    acts: bool = True
    advice: str = "if the agent does show it, declare that in `shows` of its class"

    def of(self, what: Visible) -> Sight:
        sight: Sight = getattr(self, what)
        return sight

    def only(self, sight: Sight, among: Iterable[Visible] = VISIBLE) -> tuple[Visible, ...]:
        """Which of these are `sight`, always in the same order."""
        wanted = frozenset(among)
        return tuple(what for what in VISIBLE if what in wanted and self.of(what) == sight)


EVERYTHING_SEEN = Shows(actions="seen", services="seen", files="seen", database="seen", model_calls="seen")


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
