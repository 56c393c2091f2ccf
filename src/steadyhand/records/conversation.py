"""Turns of a conversation, and what came of it."""

from __future__ import annotations

from steadyhand.records.base import Record
from steadyhand.records.evaluation import EvaluationResult
from steadyhand.records.trajectory import TrajectoryStep


class ConversationTurn(Record):
    """One exchange: what the user said, what the agent answered and did. `turn_number` counts from 1.

    It begins when the agent is given what the user said and ends with its answer; both count from the start of the
    trial.
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


class SimulatorQuality(Record):
    """How well the simulated user kept to its part.

    `asked_again` counts replies that were refused once, `reasons` why; `still_flawed` those whose second try was no
    better and was used all the same.
    """

    turns_simulated: int = 0
    asked_again: int = 0
    still_flawed: int = 0
    reasons: dict[str, int] = {}


class TokenUsage(Record):
    """Tokens by purpose, as counted by the servers. `complete` is false when a call came without a count."""

    total: int = 0
    user_simulation: int = 0
    agent_responses: int = 0
    evaluations: int = 0
    complete: bool = True


class ConversationMetrics(Record):
    """Counted, never invented. Durations of turns are the agent's own; `llm_calls_per_turn` counts every purpose."""

    total_duration_ms: float
    turn_count: int
    avg_turn_duration_ms: float
    llm_calls_per_turn: float
    token_usage: TokenUsage = TokenUsage()
    simulator_quality: SimulatorQuality | None = None


class ConversationEnding(Record, array_like=True):
    """How the conversation of a step ended. `transcript_exported` is whether reports may tell what was said."""

    step: int
    turns: int
    terminated_early: bool
    termination_reason: str | None
    termination_evidence: str | None = None
    transcript_exported: bool = True


class ConversationResult(Record):
    """The whole conversation. `termination_reason` names the condition that fired."""

    turns: tuple[ConversationTurn, ...]
    total_duration_ms: float
    terminated_early: bool
    termination_reason: str | None
    termination_evidence: str | None = None
    final_evaluations: tuple[EvaluationResult, ...] = ()
    conversation_transcript: str = ""
    success: bool = True
    simulator_quality: SimulatorQuality | None = None
