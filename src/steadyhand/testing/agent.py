"""An agent that replies from a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from steadyhand.errors import AgentError
from steadyhand.ports.agent import EVERYTHING_SEEN, Reply, Shows, TrialContext, Turn

AgentScript = Sequence[str] | Callable[[Turn, TrialContext], Any]


class ScriptedAgent:
    """A `ports.agent.Agent`. The script has one reply per turn, or is a function of the turn and the trial, which may
    be async. `turns` has the turns it was asked. Everything it does is visible unless `shows` says otherwise."""

    def __init__(self, script: AgentScript, *, name: str = "scripted", shows: Shows = EVERYTHING_SEEN) -> None:
        self.shows: Shows = shows
        self._script = script
        self._name = name
        self._trial: TrialContext | None = None
        self.turns: list[Turn] = []
        self.opened: int = 0
        self.closed: int = 0

    @property
    def name(self) -> str:
        return self._name

    async def open(self, trial: TrialContext) -> None:
        self.opened += 1
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        """Raises `AgentError` when the script is used up, and whatever the function raises."""
        assert self._trial is not None, "respond before open"
        self.turns.append(turn)
        if not callable(self._script):
            if len(self.turns) > len(self._script):
                raise AgentError(f"the script has {len(self._script)} replies, and this is turn {len(self.turns)}")
            return Reply(text=self._script[len(self.turns) - 1])
        answer = self._script(turn, self._trial)
        if hasattr(answer, "__await__"):
            answer = await answer
        return Reply(text=answer) if isinstance(answer, str) else answer

    async def close(self) -> None:
        self.closed += 1
        self._trial = None
