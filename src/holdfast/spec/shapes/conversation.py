"""The `conversation` of a run step, as it is written."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from holdfast.spec.shapes.base import Name, Shape, Share, Temperature
from holdfast.spec.shapes.evaluation import Evaluation


class UserSimulatorShape(Shape):
    """Who the simulated user is and how it talks."""

    persona: str
    objective: str
    model_type: Name = "TEXT_LARGE"
    temperature: Temperature = 0.7
    max_tokens: int = Field(default=200, ge=50, le=500)
    style: str | None = None
    constraints: list[str] = []
    emotional_state: str | None = None
    knowledge_level: Literal["beginner", "intermediate", "expert"] = "intermediate"


class TerminationJudgeShape(Shape):
    """A judge's word on whether the conversation is over."""

    prompt: str
    threshold: Share = 0.8


class TerminationConditionShape(Shape):
    """What ends the conversation before `max_turns`."""

    type: Literal[
        "max_turns_reached",
        "user_expresses_satisfaction",
        "agent_provides_solution",
        "conversation_stuck",
        "escalation_needed",
        "goal_achieved",
        "custom_condition",
    ]
    description: str | None = None
    keywords: list[Name] = []
    llm_judge: TerminationJudgeShape | None = None


class DebugOptionsShape(Shape):
    """What else to write down."""

    log_user_simulation: bool = False
    log_turn_decisions: bool = False
    export_full_transcript: bool = True


class ConversationShape(Shape):
    """A conversation with a simulated user."""

    max_turns: int = Field(ge=2, le=20)
    timeout_per_turn_ms: int = Field(default=30_000, ge=1_000)
    total_timeout_ms: int = Field(default=300_000, ge=10_000)
    user_simulator: UserSimulatorShape
    termination_conditions: list[TerminationConditionShape] = []
    turn_evaluations: list[Evaluation] = []
    final_evaluations: list[Evaluation] = []
    debug_options: DebugOptionsShape = DebugOptionsShape.model_construct()
