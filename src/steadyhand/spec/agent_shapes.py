"""The agent scenario format, as it is written."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from steadyhand.spec.shapes.base import FreeForm, Milliseconds, Name, PassRate, Shape, Share, Temperature, Trials
from steadyhand.spec.shapes.conversation import ConversationShape
from steadyhand.spec.shapes.evaluation import Evaluation
from steadyhand.spec.shapes.setup import SetupShape


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
    evaluations: list[Evaluation] = []
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
    trials: Trials | None = Field(default=None, description="How often to run it; --trials wins")
    pass_rate: PassRate | None = Field(
        default=None, description="Share of the trials that must pass; without it all must. --pass-rate wins"
    )
