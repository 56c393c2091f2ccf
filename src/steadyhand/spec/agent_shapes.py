"""The shape of an agent scenario file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from steadyhand.records.config import REASONING_TAGS
from steadyhand.records.scenario import FaultKind
from steadyhand.spec.quoting import DATA, FIXED, PROSE, Written
from steadyhand.spec.shared_shapes import (
    CASES,
    EXTENDS,
    VARIANTS,
    CasesField,
    Data,
    EvaluationEntry,
    PluginShape,
    Prose,
    VariantsShape,
)
from steadyhand.spec.validation import (
    Milliseconds,
    Name,
    PassRate,
    ReasoningTags,
    Shape,
    Share,
    Temperature,
    Trials,
)

_CODE = Written(
    by="lang",
    of={
        **dict.fromkeys((None, "bash", "sh"), "shell"),
        "python": "python",
        **dict.fromkeys(("node", "javascript"), "javascript"),
    },
)


class MockWhenShape(Shape):
    """When a mock applies; everything given must hold."""

    args: Annotated[list[Any] | None, DATA] = Field(
        default=None, description="The whole argument list, or a list of such lists"
    )
    input: Data | None = Field(default=None, description="Named parameters, matched as a subset")
    context: Data | None = Field(
        default=None,
        description="Facts about the trial, matched as a subset: the scenario's name, step, turn, ids and `context`",
    )
    matcher: Annotated[Name, Written("javascript")] | None = Field(
        default=None, description="JavaScript over args, input and context"
    )
    partial_args: Annotated[list[Any] | None, DATA] = Field(
        default=None, alias="partialArgs", description="The first arguments"
    )


class MockErrorShape(Shape):
    """The error a mock answers with."""

    code: Prose | None = Field(default=None, description="Error code that the agent sees")
    message: Prose | None = Field(default=None, description="Error message that the agent sees")
    status: int | None = Field(default=None, description="HTTP status that the agent sees")


class MockMetadataShape(Shape):
    """How a mock answers."""

    delay: float = Field(default=0.0, ge=0, description="Milliseconds")
    probability: Share | None = Field(default=None, description="The chance that the call fails")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Faults = Annotated[
    Annotated[list[Literal[FaultKind, "all"]], Field(min_length=1)],
    BeforeValidator(_listed, json_schema_input_type=Literal["all"] | Annotated[list[FaultKind], Field(min_length=1)]),
]
FAULTS_TOLD = "What goes wrong with it, each in a scenario of its own; run with --faults"


class MockShape(Shape):
    """A mock of a service's method. Needs at least one of response, responseFn and error."""

    service: Name | None = Field(default=None, description="Name of the service. Default: the method on every service")
    method: Name = Field(description="Name of the method")
    when: MockWhenShape = Field(
        default=MockWhenShape.model_construct(), description="When the mock applies. Default: always"
    )
    response: Annotated[Any, DATA] = Field(default=None, description="What the call returns; any value")
    response_fn: Annotated[Name, Written("javascript")] | None = Field(
        default=None, alias="responseFn", description="A JavaScript function"
    )
    error: MockErrorShape | None = Field(default=None, description="The error the call fails with")
    metadata: MockMetadataShape = Field(
        default=MockMetadataShape.model_construct(), description="How the mock answers: delay and chance of failure"
    )
    description: str = Field(default="", description="Description of the method, as shown to the agent")
    parameters: Annotated[dict[str, Any], Written("schema")] | None = Field(
        default=None, description="JSON Schema of the named parameters, as shown to the agent; must describe an object"
    )
    faults: Faults | None = Field(default=None, description=FAULTS_TOLD)


class RealServiceShape(Shape):
    """A real service behind the mocks: calls that no mock matches go to it."""

    mcp: Annotated[Name, Written("name")] = Field(
        description="An MCP server: the command line that starts it, or its http:// or https:// URL"
    )
    timeout: Milliseconds = Field(default=60_000, description="Time limit for one call, in milliseconds")


class DatabaseShape(Shape):
    """The initial contents of the trial's database: `sql` or `sql_file`, then `records`."""

    sql: Annotated[str, Written("sql")] | None = Field(default=None, description="SQL statements to run first")
    sql_file: Name | None = Field(default=None, description="Relative to the scenario file")
    records: dict[str, list[Data]] = Field(default={}, description="Rows to insert, by table")
    url: Name | None = Field(default=None, description="Default: a fresh SQLite file for each trial")


class SetupShape(Shape):
    """What is set up before the agent starts."""

    mocks: list[MockShape] = Field(default=[], description="Mocked responses for services that the agent calls")
    faults: Faults | None = Field(default=None, description="The same for every mock, as far as it can go wrong so")
    services: dict[Name, RealServiceShape] = Field(
        default={}, description="Real services behind the mocks, by name: calls that no mock matches go to them"
    )
    virtual_fs: dict[str, Prose] = Field(default={}, description="Files to create in the workspace, as path to content")
    database: DatabaseShape | None = Field(default=None, description="What the trial's database holds at the start")


class UserSimulatorShape(Shape):
    """Who the simulated user is and how they talk."""

    persona: Prose = Field(description="Who the user is")
    objective: Prose = Field(description="What the user wants")
    model_type: Name = Field(
        default="TEXT_LARGE", description="Model that plays the user: provider/model, or an alias of the configuration"
    )
    temperature: Temperature = Field(default=0.7, description="Temperature of the model that plays the user")
    max_tokens: int = Field(default=200, ge=50, le=500, description="Maximum number of tokens in one user message")
    style: Prose | None = Field(default=None, description="How the user writes")
    constraints: list[Prose] = Field(default=[], description="What the user must or must not do")
    emotional_state: Prose | None = Field(default=None, description="How the user feels")
    knowledge_level: Literal["beginner", "intermediate", "expert"] = Field(
        default="intermediate", description="How much the user knows about the subject"
    )


class TerminationJudgeShape(Shape):
    """A judge decides whether the conversation is over."""

    prompt: str = Field(description="Question about the conversation; a yes ends it")
    threshold: Share = Field(default=0.8, description="Confidence in yes that ends the conversation")


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
    ] = Field(description="What ends the conversation")
    description: str | None = Field(default=None, description="What the condition is for")
    keywords: list[Name] = Field(default=[], description="Words or phrases that meet the condition")
    function: Name | None = Field(default=None, description="Name of a plugin's termination function")
    llm_judge: TerminationJudgeShape | None = Field(
        default=None, description="Ask a judge whether the condition is met"
    )


class DebugOptionsShape(Shape):
    """What else to record."""

    log_user_simulation: bool = Field(default=False, description="Record the prompts and answers of the simulated user")
    log_turn_decisions: bool = Field(
        default=False, description="Record why each turn did or did not end the conversation"
    )
    export_full_transcript: bool = Field(default=True, description="Include the whole transcript in reports")


class ScriptedTurnShape(Shape):
    """What the user says next: a string, or `say`, or `simulate: true`; and what to check after the agent's answer."""

    say: Annotated[Name, PROSE] | None = Field(default=None, description="What the user says")
    simulate: bool = Field(default=False, description="Let the user simulator speak in this turn")
    type: Name | None = Field(default=None, description="What this turn is meant to do, for the report")
    evaluations: list[EvaluationEntry] = Field(default=[], description="Checks after the agent's answer to this turn")

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
    timeout_per_turn_ms: int = Field(default=30_000, ge=1_000, description="Time limit for one turn, in milliseconds")
    total_timeout_ms: int = Field(
        default=300_000, ge=10_000, description="Time limit for the conversation, in milliseconds"
    )
    user_simulator: UserSimulatorShape | None = Field(default=None, description="Required without a script")
    script: list[ScriptedTurnShape] = Field(default=[], max_length=19, description="What the user says, turn by turn")
    termination_conditions: list[TerminationConditionShape] = Field(
        default=[], description="What ends the conversation before `max_turns`"
    )
    turn_evaluations: list[EvaluationEntry] = Field(default=[], description="Checks after every turn")
    final_evaluations: list[EvaluationEntry] = Field(default=[], description="Checks after the last turn")
    debug_options: DebugOptionsShape = Field(
        default=DebugOptionsShape.model_construct(), description="What else to record"
    )


class EnvironmentShape(Shape):
    """Where the trial runs."""

    type: Name = Field(description="Type of environment")


class CharacterModelShape(Shape):
    """The model behind the built-in agent."""

    model: Name | None = Field(default=None, description="Model under test, as provider/model; --model overrides it")
    temperature: Temperature | None = Field(default=None, description="Temperature of the model")


class CharacterShape(Shape):
    """Configures the built-in agent."""

    name: Name | None = Field(default=None, description="Name of the agent")
    bio: str | list[str] = Field(default=[], description="Who the agent is: a string, or a list of strings")
    system: str | None = Field(default=None, description="System prompt")
    llm: CharacterModelShape = Field(
        default=CharacterModelShape.model_construct(), description="The model behind the agent"
    )
    temperature: Temperature | None = Field(default=None, description="Temperature of the model")


class RunStepShape(Shape):
    """One step: `input`, or `code`, or a `conversation`, which `input` may open."""

    name: Name | None = Field(default=None, description="Name of the step, for reports")
    lang: Name | None = Field(default=None, description="Language of `code`; default bash")
    code: Annotated[str, _CODE] | None = Field(default=None, description="Code to run in the environment")
    input: Prose | None = Field(default=None, description="What the agent is asked")
    evaluations: list[EvaluationEntry] = Field(default=[], description="Checks when the step has ended")
    conversation: ConversationShape | None = Field(
        default=None, description="A conversation with a user, instead of a single question"
    )
    timeout: Milliseconds | None = Field(default=None, description="Milliseconds")


class JudgmentShape(Shape):
    """How evaluations become a verdict."""

    strategy: Literal["all_pass", "any_pass", "majority_pass", "weighted"] = Field(description="Which checks must pass")
    threshold: PassRate | None = Field(default=None, description="For weighted: the share of weight that must pass")


class AgentShape(Shape):
    """A task or conversation for an agent, and what to check afterwards."""

    id: Annotated[Name, FIXED] | None = Field(default=None, description="Default: made from the file's name")
    name: Annotated[Name, PROSE] = Field(description="Name of the scenario, for reports")
    description: Prose = Field(description="What the scenario is about")
    tags: list[str] = Field(default=[], description="Tags to select scenarios by (--tag)")
    cases: CasesField | None = Field(default=None, description=CASES)
    variants: VariantsShape | None = Field(default=None, description=VARIANTS)
    extends: Name | None = Field(default=None, description=EXTENDS)
    agent: Annotated[Name, Written("name")] | None = Field(
        default=None, description="Which agent to test, such as python:package.module:name"
    )
    character: CharacterShape | None = Field(default=None, description="Configures the built-in agent")
    context: Data = Field(default={}, description="Facts for mocks to match in `when.context`")
    metadata: Data = Field(default={}, description="Free-form data; not read by Steadyhand")
    plugins: list[Annotated[PluginShape, FIXED]] = Field(default=[], description="Plugins that the scenario uses")
    environment: EnvironmentShape = Field(description="Where the trial runs")
    setup: SetupShape = Field(
        default=SetupShape.model_construct(),
        description="What to set up before the agent starts: files, mocks, a database",
    )
    run: list[RunStepShape] = Field(min_length=1, description="The steps, in order")
    judgment: JudgmentShape = Field(description="How the checks become a verdict")
    trials: Trials | None = Field(default=None, description="Number of trials; --trials overrides it")
    pass_rate: PassRate | None = Field(
        default=None, description="Share of trials that must pass; default: all. --pass-rate overrides it"
    )
    reasoning_tags: ReasoningTags | None = Field(default=None, description=REASONING_TAGS)
