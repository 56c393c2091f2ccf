"""The shape of an agent scenario file."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from steadyhand.spec.validation import FreeForm, Milliseconds, Name, PassRate, Shape, Share, Temperature, Trials

EvaluationEntry = dict[str, Any]


class EvaluationHead(Shape):
    """The keys that are the same for every type of evaluation."""

    type: Name
    description: str | None = None
    weight: float = Field(default=1.0, ge=0, description="Its share under the judgment strategy `weighted`")


class MockWhenShape(Shape):
    """When a mock applies; everything given must hold."""

    args: list[Any] | None = Field(default=None, description="The whole argument list, or a list of such lists")
    input: FreeForm | None = Field(default=None, description="Named parameters, matched as a subset")
    context: FreeForm | None = None
    matcher: Name | None = Field(default=None, description="JavaScript over args, input and context")
    partial_args: list[Any] | None = Field(default=None, alias="partialArgs", description="The first arguments")


class MockErrorShape(Shape):
    """The error a mock answers with."""

    code: str | None = None
    message: str | None = None
    status: int | None = None


class MockMetadataShape(Shape):
    """How a mock answers."""

    delay: float = Field(default=0.0, ge=0, description="Milliseconds")
    probability: Share | None = Field(default=None, description="The chance that the call fails")


class MockShape(Shape):
    """A stand-in for a service's method. At least one of response, responseFn and error."""

    service: Name | None = None
    method: Name
    when: MockWhenShape = MockWhenShape.model_construct()
    response: Any = None
    response_fn: Name | None = Field(default=None, alias="responseFn", description="A JavaScript function")
    error: MockErrorShape | None = None
    metadata: MockMetadataShape = MockMetadataShape.model_construct()
    description: str = Field(default="", description="What an agent is told that the method does")
    parameters: dict[str, Any] | None = Field(
        default=None, description="What an agent is told of the named parameters: a JSON Schema of an object"
    )


class DatabaseShape(Shape):
    """What the trial's database holds at the start. `sql` or `sql_file`, and `records` on top."""

    sql: str | None = None
    sql_file: Name | None = Field(default=None, description="Relative to the scenario file")
    records: dict[str, list[dict[str, Any]]] = Field(default={}, description="Table to rows")
    url: Name | None = Field(default=None, description="Default: a fresh SQLite file for each trial")


class SetupShape(Shape):
    """What is there before the agent starts."""

    mocks: list[MockShape] = []
    virtual_fs: dict[str, str] = Field(default={}, description="Path in the workspace to content")
    database: DatabaseShape | None = None


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
    """A judge decides whether the conversation is over."""

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
    """What else to record."""

    log_user_simulation: bool = False
    log_turn_decisions: bool = False
    export_full_transcript: bool = True


class ScriptedTurnShape(Shape):
    """What the user says next: a text, or `say`, or `simulate: true`; and what to check after the agent's answer."""

    say: Name | None = None
    simulate: bool = Field(default=False, description="Let the user simulator speak in this turn")
    type: Name | None = Field(default=None, description="What this turn is meant to do, for the report")
    evaluations: list[EvaluationEntry] = []

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
    turn_evaluations: list[EvaluationEntry] = []
    final_evaluations: list[EvaluationEntry] = []
    debug_options: DebugOptionsShape = DebugOptionsShape.model_construct()


class PluginShape(Shape):
    """A plugin, by name or with its configuration."""

    name: Name
    version: str | None = None
    enabled: bool = True
    config: FreeForm = {}

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler.resolve_ref_schema(handler(schema))]}


class EnvironmentShape(Shape):
    """Where the trial runs."""

    type: Name


class CharacterModelShape(Shape):
    """The model behind the built-in agent."""

    model: Name | None = None
    temperature: Temperature | None = None


class CharacterShape(Shape):
    """Configures the built-in agent."""

    name: Name | None = None
    bio: str | list[str] = []
    system: str | None = None
    llm: CharacterModelShape = CharacterModelShape.model_construct()
    temperature: Temperature | None = None


class RunStepShape(Shape):
    """One step: `input`, or `code`, or a `conversation` that `input` opens."""

    name: Name | None = None
    lang: Name | None = Field(default=None, description="Language of `code`; default bash")
    code: str | None = None
    input: str | None = None
    evaluations: list[EvaluationEntry] = []
    conversation: ConversationShape | None = None
    timeout: Milliseconds | None = Field(default=None, description="Milliseconds")


class JudgmentShape(Shape):
    """How evaluations become a verdict."""

    strategy: Literal["all_pass", "any_pass", "majority_pass", "weighted"]
    threshold: Share | None = Field(default=None, description="For weighted: the share of weight that must pass")


class AgentShape(Shape):
    """A task or conversation for an agent, and what to check afterwards."""

    id: Name | None = Field(default=None, description="Default: made from the file's name")
    name: Name
    description: str
    tags: list[str] = []
    agent: Name | None = Field(default=None, description="Which agent to test, such as python:package.module:name")
    character: CharacterShape | None = None
    context: FreeForm = {}
    metadata: FreeForm = {}
    plugins: list[PluginShape] = []
    environment: EnvironmentShape
    setup: SetupShape = SetupShape.model_construct()
    run: list[RunStepShape] = Field(min_length=1)
    judgment: JudgmentShape
    trials: Trials | None = Field(default=None, description="Number of trials; --trials overrides it")
    pass_rate: PassRate | None = Field(
        default=None, description="Share of trials that must pass; default: all. --pass-rate overrides it"
    )
