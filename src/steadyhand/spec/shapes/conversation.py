"""The `conversation` of a run step, as it is written."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from steadyhand.spec.shapes.base import Name, Shape, Share, Temperature
from steadyhand.spec.shapes.evaluation import Evaluation


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
    function: Name | None = Field(default=None, description="Name of a plugin's termination function")
    llm_judge: TerminationJudgeShape | None = None


class DebugOptionsShape(Shape):
    """What else to write down."""

    log_user_simulation: bool = False
    log_turn_decisions: bool = False
    export_full_transcript: bool = True


class ScriptedTurnShape(Shape):
    """What the user says next: a text, or `say`, or `simulate: true`; and what to check after the agent's answer."""

    say: Name | None = None
    simulate: bool = Field(default=False, description="Let the user simulator speak in this turn")
    type: Name | None = Field(default=None, description="What this turn is meant to do, for the report")
    evaluations: list[Evaluation] = []

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"say": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler.resolve_ref_schema(handler(schema))]}


class ConversationShape(Shape):
    """A conversation with a user: simulated, scripted, or both."""

    max_turns: int | None = Field(
        default=None, ge=2, le=20, description="Required, except with a script and no simulator: then all of the script"
    )
    timeout_per_turn_ms: int = Field(default=30_000, ge=1_000)
    total_timeout_ms: int = Field(default=300_000, ge=10_000)
    user_simulator: UserSimulatorShape | None = Field(default=None, description="Required without a script")
    script: list[ScriptedTurnShape] = Field(default=[], max_length=19, description="What the user says, turn by turn")
    termination_conditions: list[TerminationConditionShape] = []
    turn_evaluations: list[Evaluation] = []
    final_evaluations: list[Evaluation] = []
    debug_options: DebugOptionsShape = DebugOptionsShape.model_construct()
