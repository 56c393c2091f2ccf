"""What is under test."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from steadyhand.ports.clock import Clock
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.records.base import Record
from steadyhand.records.chat import ChatRequest, ChatResponse, Message
from steadyhand.records.event import EVERYTHING_SEEN, AnyEvent, Shows, Sight, Visible
from steadyhand.records.scenario import Scenario

if TYPE_CHECKING:
    from steadyhand.ports.database import Database
    from steadyhand.ports.judge import Judge
    from steadyhand.ports.services import Services


__all__ = ["EVERYTHING_SEEN", "Agent", "Reply", "Shows", "Sight", "TrialContext", "Turn", "Visible", "shows_of"]


class Turn(Record):
    """What the agent is asked now: the whole exchange so far, ending with the user's message.

    `cut_after_ms` is for `ChatRequest.cut_after_ms` of an agent whose turn is one model call; others leave it.
    """

    messages: tuple[Message, ...]
    number: int = 1
    deadline: float | None = None
    cut_after_ms: float | None = None


class Reply(Record):
    """What the agent says at the end of its turn.

    `duration_ms` is the agent's own time for the turn, set when part of `respond` was ours: reading up what it did.
    """

    text: str
    duration_ms: float | None = None


class TrialContext(Protocol):
    """What a trial offers to the parts that take part in it."""

    @property
    def scenario(self) -> Scenario: ...

    @property
    def trial_id(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def random(self) -> random.Random:
        """The trial's seeded generator."""
        ...

    @property
    def clock(self) -> Clock: ...

    @property
    def environment(self) -> EnvironmentProvider: ...

    @property
    def judge(self) -> Judge | None:
        """Who judges; None when nobody was named and the agent has no model of its own."""
        ...

    @property
    def services(self) -> Services | None:
        """The services and actions of this trial; None where nobody built any."""
        ...

    @property
    def database(self) -> Database | None:
        """The trial's database; None when the scenario sets none up."""
        ...

    @property
    def live(self) -> bool:
        """Whether mocks and seeding are to be ignored."""
        ...

    @property
    def shows(self) -> Shows:
        """What can be seen of what is done in the present step: by its agent or, in a `code` step, by its program."""
        ...

    @property
    def variables(self) -> Mapping[str, Any]:
        """What mocks match `context` against: scenario, step, turn, ids, and the scenario's own `context`."""
        ...

    def elapsed_ms(self) -> float:
        """Milliseconds since the trial began; what `at_ms` of an event is set to."""
        ...

    def emit(self, event: AnyEvent) -> None: ...

    async def call(self, model: ChatModel, request: ChatRequest) -> ChatResponse:
        """Ask a model: queued, retried, timed and recorded. Raises `ModelError` when all attempts failed."""
        ...


class Agent(Protocol):
    """Opened for a trial, answers turns, closed. One instance serves one trial.

    `respond` raises `AgentError` or `ModelError` when it could not answer; what it did on the way it reports through
    `TrialContext.emit`.
    """

    @property
    def name(self) -> str:
        """What reports call it, such as `model:openai/gpt`."""
        ...

    @property
    def shows(self) -> Shows:
        """What it lets us see of what it does. An agent that declares nothing shows nothing but its reply: a check on
        what it did is inconclusive until its author says that silence means it was not done."""
        return Shows()

    @property
    def uses_plugins(self) -> bool:
        """Whether it gets its tools from the scenario's plugins. One that brings its own misses nothing when a plugin
        is missing here."""
        return True

    async def open(self, trial: TrialContext) -> None: ...

    async def respond(self, turn: Turn) -> Reply: ...

    async def close(self) -> None:
        """Safe to call twice, and after a failed `open`."""
        ...


def shows_of(agent: Agent) -> Shows:
    """What the agent declares; a third party's may declare nothing."""
    shows: Shows = getattr(agent, "shows", Shows())
    return shows
