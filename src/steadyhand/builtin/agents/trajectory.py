"""What an agent did, as events of the trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from steadyhand.builtin.agents.message_list import AgentStep
from steadyhand.ports.agent import Shows, TrialContext, Turn
from steadyhand.records.base import plain_object
from steadyhand.records.event import ActionStatus, ActionTaken, Noted, Observed, Thought
from steadyhand.runtime.values import kept_part

if TYPE_CHECKING:
    from steadyhand.plugins.plugin import AgentSettings

REPORTS_ITSELF = Shows(
    actions="self_reported",
    services="seen",
    files="seen",
    database="seen",
    on_report=True,
    advice="nothing was reported so far. Report each action; reply with `tool_calls`, `[]` if there were none; let its "
    'model calls go through the gateway (--model); or declare with the option shows = "actions" that it reports all',
)
"""For a user's agent on this machine: it reports its actions itself, and we see the trial's services, workspace and
database."""


def shows_of_program(settings: AgentSettings, shows: Shows = REPORTS_ITSELF) -> Shows:
    """What can be seen of such an agent in this run, including its model calls if they go through the gateway."""
    relays = settings.gateway is not None and settings.model is not None
    shows = msgspec.structs.replace(shows, model_calls="seen") if relays else shows
    if settings.options.get("shows") == "actions":
        shows = msgspec.structs.replace(shows, actions="self_reported", on_report=False, served_only=False)
    traced = settings.gateway is not None and settings.options.get("traces") == "tools"
    return msgspec.structs.replace(shows, traced=True) if traced else shows


class TrajectoryReporter:
    """Numbers the actions of one trial and emits them with their observations."""

    def __init__(self, trial: TrialContext) -> None:
        self._trial: TrialContext = trial
        self._actions: int = 0
        self._last: dict[str, str] = {}

    def taken(self, steps: Sequence[AgentStep]) -> None:
        """Steps that were reported together, after all of them had ended."""
        results = [step for step in steps if step.kind == "result"]
        actions: dict[str, str] = {}
        for step in steps:
            if step.kind == "thought":
                self.thought(str(step.content), agent=step.agent)
            elif step.kind == "call":
                status = _status(step, results)
                actions[step.id] = self.action(
                    step.name, step.params, status=status, agent=step.agent, call_id=step.id or None
                )
            else:
                self.observation(step.name, step.content, action_id=actions.get(step.id), agent=step.agent)

    def thought(self, text: str, *, agent: str | None = None) -> None:
        self._trial.emit(Thought(at_ms=self._trial.elapsed_ms(), text=text, agent=agent))

    def action(
        self,
        name: str,
        params: dict[str, Any],
        *,
        status: ActionStatus = "success",
        duration_ms: float = 0.0,
        at_ms: float | None = None,
        agent: str | None = None,
        call_id: str | None = None,
    ) -> str:
        """An action that has just ended, unless `at_ms` says when it began. Returns its id."""
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
                agent=agent,
                call_id=call_id,
            )
        )
        return action_id

    def observation(
        self,
        name: str,
        content: Any,
        *,
        at_ms: float | None = None,
        action_id: str | None = None,
        agent: str | None = None,
    ) -> None:
        """The result of an action: the last one with this name, unless `action_id` is given."""
        at_ms = self._trial.elapsed_ms() if at_ms is None else round(at_ms, 3)
        kept, cut = kept_part(content)
        action_id = self._last.get(name, "") if action_id is None else action_id
        self._trial.emit(Observed(at_ms=at_ms, action_id=action_id, name=name, content=kept, cut=cut, agent=agent))

    def note(self, message: str, *, level: str = "info") -> None:
        self._trial.emit(Noted(at_ms=self._trial.elapsed_ms(), message=message, level=level))


def _status(call: AgentStep, results: Sequence[AgentStep]) -> ActionStatus:
    """How it ended, if it or its result says so: a result alone may be the message of an exception."""
    if call.status is not None:
        return call.status
    outcomes = [each.failed for each in results if (each.id == call.id if call.id else each.name == call.name)]
    if call.failed or True in outcomes:
        return "error"
    return "success" if False in outcomes else "unknown"


def latest_user_text(turn: Turn) -> str:
    """The user's last message; empty if there is none."""
    return next((message.content for message in reversed(turn.messages) if message.role == "user"), "")
