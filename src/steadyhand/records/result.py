"""The results of environments, conversations and steps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal

from steadyhand.records.base import Natural, Record, doc
from steadyhand.records.chat import Finish, Message, Spoiled
from steadyhand.records.deed import Deed, deeds_of
from steadyhand.records.deed_name import ToolOffer
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.event import ModelCalled, ServiceCalled, TrajectoryStep


class ConversationTurn(Record):
    """One exchange: what the user said, what the agent answered and did. `turn_number` counts from 1.

    It begins when the agent gets the user's message and ends with its answer; times count from the start of the trial.
    """

    turn_number: int
    user_input: str
    agent_response: str
    room_id: str = ""
    trajectory: tuple[TrajectoryStep, ...] = ()
    started_at_ms: float = 0.0
    ended_at_ms: float = 0.0
    duration_ms: float = 0.0
    turn_evaluations: tuple[EvaluationResult, ...] = ()

    @property
    def messages(self) -> tuple[Message, Message]:
        """What the user said, and what the agent answered."""
        return Message(role="user", content=self.user_input), Message(role="assistant", content=self.agent_response)


_SPEAKERS = {"user": "User", "assistant": "Agent"}


def transcript_text(turns: Iterable[ConversationTurn]) -> str:
    """The conversation as text, with one line each for user and agent."""
    return "\n".join(f"{_SPEAKERS[said.role]}: {said.content}" for turn in turns for said in turn.messages)


class SimulatorQuality(Record):
    """How well the simulated user stayed in character.

    `asked_again` counts replies that were rejected once, `reasons` why; `still_flawed` counts those whose second
    attempt was no better and was used anyway.
    """

    turns_simulated: Annotated[Natural, doc("Number of simulated turns.")] = 0
    asked_again: Annotated[Natural, doc("Number of replies that were rejected once.")] = 0
    still_flawed: Annotated[Natural, doc("Number of replies used although the second try was no better.")] = 0
    reasons: Annotated[dict[str, Natural], doc("Number of rejected replies, by reason.")] = {}


class TokenUsage(Record):
    """Tokens by purpose, as counted by the servers. `complete` is false if a call came without a count."""

    total: Annotated[Natural, doc("All tokens.")] = 0
    user_simulation: Annotated[Natural, doc("Tokens of the simulated user.")] = 0
    agent_responses: Annotated[Natural, doc("Tokens of the agent.")] = 0
    evaluations: Annotated[Natural, doc("Tokens of judges.")] = 0
    complete: Annotated[bool, doc("False if a server did not count the tokens of a call.")] = True


class ConversationMetrics(Record):
    """Counted, never estimated. Turn durations are the agent's own time; `llm_calls_per_turn` counts all purposes."""

    total_duration_ms: Annotated[float, doc("How long the conversation took.")]
    turn_count: Annotated[Natural, doc("Number of turns.")]
    avg_turn_duration_ms: Annotated[float, doc("Average time of the agent per turn.")]
    llm_calls_per_turn: Annotated[float, doc("Average number of model calls per turn, for every purpose.")]
    token_usage: Annotated[TokenUsage, doc("Tokens by purpose.")] = TokenUsage()
    simulator_quality: Annotated[SimulatorQuality | None, doc("Null without a simulated user.")] = None


class ConversationEnding(Record, array_like=True):
    """How the conversation of a step ended. `transcript_exported` is whether reports may include it."""

    step: Annotated[Natural, doc("Step of the scenario, counted from 0.")]
    turns: Annotated[Natural, doc("Number of turns.")]
    terminated_early: Annotated[bool, doc("Whether it ended before its turns or its script were used up.")]
    termination_reason: Annotated[str | None, doc("The condition that ended it.")]
    termination_evidence: Annotated[str | None, doc("What met the condition.")] = None
    transcript_exported: Annotated[bool, doc("Whether the scenario lets reports include the transcript.")] = True


class ConversationResult(Record):
    """The whole conversation. `termination_reason` names the condition that ended it."""

    turns: tuple[ConversationTurn, ...]
    total_duration_ms: float
    terminated_early: bool
    termination_reason: str | None
    termination_evidence: str | None = None
    final_evaluations: tuple[EvaluationResult, ...] = ()
    conversation_transcript: str = ""
    success: bool = True
    simulator_quality: SimulatorQuality | None = None


class FileSystemOperation(Record):
    """A file to write before the run. `path` is relative to the workspace."""

    path: str
    content: bytes
    type: Literal["write"] = "write"


class CapturedFile(Record):
    """A file of the workspace. `content` is None if it was too large to keep."""

    size: int
    content: bytes | None = None

    def text(self) -> str | None:
        """The content as UTF-8, or None if it was not kept or is not text."""
        if self.content is None:
            return None
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            return None


class Latency(Record):
    """How long the answer took, and what may have distorted that.

    `cut` means that the call was cut off after `ms`, with the answer incomplete.
    """

    ms: float | None
    spoiled: tuple[Spoiled, ...] = ()
    source: Literal["model_call", "agent_turn"] = "model_call"
    cut: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the undistorted latency. For an answer that was cut off, only the lower one means anything."""
        if self.ms is None:
            return 0.0, math.inf
        low = min((each.low_ms or 0.0 for each in self.spoiled), default=self.ms)
        high = max((math.inf if each.high_ms is None else each.high_ms for each in self.spoiled), default=self.ms)
        return min(low, self.ms), max(high, self.ms)


class CommandResult(Record):
    """The result of a command in an environment. `duration_ms` is the command's own time.

    `truncated` means that some output was left out. No field has a default that would look like success.
    """

    exit_code: int
    stdout: str
    stderr: str
    duration_ms: float
    timed_out: bool = False
    truncated: bool = False


class ExecutionResult(Record):
    """The outcome of a step of a scenario, or of a turn: what checks look at.

    For a step that asks an agent, `stdout` and `reply` are its final reply and `exit_code` is 0; for code they are the
    program's. `duration_ms` is the agent's (or program's) own time, without set-up, queueing or evaluation. If this
    process was not running for part of it, `duration_bounds` are the least and the most that it can have been, and
    `away` is when that was. `finish` is how the model's answer ended, the worst end of several; None if unknown.
    `offer` is what the agent could do, as far as that is known.
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
    offer: ToolOffer | None = None
    duration_bounds: tuple[float, float] | None = None
    away: tuple[tuple[float, float], ...] = ()

    @property
    def deeds(self) -> list[Deed]:
        """What the agent did or tried to do, each deed once, in the order in which they began."""
        return deeds_of(self.trajectory, self.service_calls, self.offer)

    @property
    def transcript(self) -> tuple[Message, ...]:
        """Everything that was said, in order: the messages if they were kept, otherwise those of the conversation."""
        if self.messages or self.conversation is None:
            return self.messages
        return tuple(said for turn in self.conversation.turns for said in turn.messages)
