"""What an agent did, as events of the trial."""

from __future__ import annotations

from typing import Any

import msgspec

from steadyhand.plugins.plugin import AgentSettings
from steadyhand.ports.agent import Shows, TrialContext, Turn
from steadyhand.records.base import plain_object
from steadyhand.records.event import ActionStatus, ActionTaken, Noted, Observed, Thought
from steadyhand.runtime.values import kept_part

REPORTS_ITSELF = Shows(
    actions="self_reported",
    services="seen",
    files="seen",
    database="seen",
    advice="report it through the trial",
)
"""For a user's agent on this machine: it reports its actions itself, and we see the trial's services, workspace and
database."""


def shows_of_program(settings: AgentSettings) -> Shows:
    """What is seen of such an agent as it is run here: its model calls too, where they go through the gateway."""
    relays = settings.gateway is not None and settings.model is not None
    return msgspec.structs.replace(REPORTS_ITSELF, model_calls="seen") if relays else REPORTS_ITSELF


class TrajectoryReporter:
    """Numbers the actions of one trial and emits them with their observations."""

    def __init__(self, trial: TrialContext) -> None:
        self._trial: TrialContext = trial
        self._actions: int = 0
        self._last: dict[str, str] = {}

    def thought(self, text: str) -> None:
        self._trial.emit(Thought(at_ms=self._trial.elapsed_ms(), text=text))

    def action(
        self,
        name: str,
        params: dict[str, Any],
        *,
        status: ActionStatus = "success",
        duration_ms: float = 0.0,
        at_ms: float | None = None,
    ) -> None:
        """Report an action, which has just ended unless `at_ms` says when it began."""
        self._actions += 1
        action_id = self._last[name] = f"action-{self._actions}"
        self._trial.emit(
            ActionTaken(
                at_ms=round(max(0.0, self._trial.elapsed_ms() - duration_ms) if at_ms is None else at_ms, 3),
                id=action_id,
                name=name,
                params=plain_object(params),
                status=status,
                duration_ms=round(duration_ms, 3),
            )
        )

    def observation(self, name: str, content: Any, *, at_ms: float | None = None) -> None:
        """Report the result of the last action of this name."""
        at_ms = self._trial.elapsed_ms() if at_ms is None else round(at_ms, 3)
        kept, cut = kept_part(content)
        self._trial.emit(Observed(at_ms=at_ms, action_id=self._last.get(name, ""), name=name, content=kept, cut=cut))

    def note(self, message: str, *, level: str = "info") -> None:
        self._trial.emit(Noted(at_ms=self._trial.elapsed_ms(), message=message, level=level))


def latest_user_text(turn: Turn) -> str:
    """The user's last message; empty if there is none."""
    return next((message.content for message in reversed(turn.messages) if message.role == "user"), "")
