"""The built-in parts, registered like third-party parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from steadyhand.errors import StoreError
from steadyhand.plugins.plugin import Plugin
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.ports.services import OfferedDatabase, ProvidedService, ScriptSandbox
from steadyhand.records.scenario import DatabaseSeed, RealService
from steadyhand.redaction import Redactor

EVALUATORS: dict[str, str] = {
    "string_contains": "steadyhand.builtin.evaluators.text:StringContains",
    "regex_match": "steadyhand.builtin.evaluators.text:RegexMatch",
    "file_exists": "steadyhand.builtin.evaluators.workspace:FileExists",
    "file_contains": "steadyhand.builtin.evaluators.workspace:FileContains",
    "command_exit_code_is": "steadyhand.builtin.evaluators.workspace:CommandExitCodeIs",
    "trajectory_contains_action": "steadyhand.builtin.evaluators.actions:TrajectoryContainsAction",
    "llm_judge": "steadyhand.builtin.evaluators.judge:LlmJudgeEvaluator",
    "execution_time": "steadyhand.builtin.evaluators.timing:ExecutionTime",
    "conversation_length": "steadyhand.builtin.evaluators.conversation:ConversationLength",
    "conversation_flow": "steadyhand.builtin.evaluators.conversation:ConversationFlow",
    "user_satisfaction": "steadyhand.builtin.evaluators.satisfaction:UserSatisfaction",
    "context_retention": "steadyhand.builtin.evaluators.conversation:ContextRetention",
    "holds_across_turns": "steadyhand.builtin.evaluators.holds_across_turns:HoldsAcrossTurns",
    "regex": "steadyhand.builtin.evaluators.text:RegexInvariant",
    "contains": "steadyhand.builtin.evaluators.text:Contains",
    "not_contains": "steadyhand.builtin.evaluators.text:NotContains",
    "judge": "steadyhand.builtin.evaluators.judge:JudgeCriterion",
    "advises": "steadyhand.builtin.evaluators.meaning:AdvisesEvaluator",
    "forbids": "steadyhand.builtin.evaluators.meaning:ForbidsEvaluator",
    "states": "steadyhand.builtin.evaluators.meaning:StatesEvaluator",
    "chooses": "steadyhand.builtin.evaluators.meaning:ChoosesEvaluator",
    "nothing_else": "steadyhand.builtin.evaluators.meaning:NothingElseEvaluator",
    "latency_budget": "steadyhand.builtin.evaluators.timing:LatencyBudget",
    "sequence": "steadyhand.builtin.evaluators.sequence:Sequence",
    "service_called": "steadyhand.builtin.evaluators.service_called:ServiceCalledEvaluator",
    "not_regex": "steadyhand.builtin.evaluators.text:NotRegex",
    "equals": "steadyhand.builtin.evaluators.reply:Equals",
    "similar_to": "steadyhand.builtin.evaluators.reply:SimilarTo",
    "refuses": "steadyhand.builtin.evaluators.reply:Refuses",
    "language_is": "steadyhand.builtin.evaluators.reply:LanguageIs",
    "json_schema": "steadyhand.builtin.evaluators.json_value:JsonSchemaEvaluator",
    "json_path": "steadyhand.builtin.evaluators.json_value:JsonPathEvaluator",
    "tool_args_valid": "steadyhand.builtin.evaluators.calls:ToolArgsValid",
    "no_repeated_calls": "steadyhand.builtin.evaluators.calls:NoRepeatedCalls",
    "max_tokens": "steadyhand.builtin.evaluators.spending:MaxTokens",
    "cost_below": "steadyhand.builtin.evaluators.spending:CostBelow",
    "javascript": "steadyhand.builtin.evaluators.scripts:Javascript",
    "python": "steadyhand.builtin.evaluators.scripts:Python",
    "database_query": "steadyhand.builtin.evaluators.database:DatabaseQuery",
}


def builtin_plugin() -> Plugin:
    return Plugin(
        name="steadyhand",
        evaluators=EVALUATORS,
        models={
            "anthropic": "steadyhand.builtin.models.anthropic:AnthropicModel",
            "local": "steadyhand.builtin.models.local:LocalModel",
            "openai": "steadyhand.builtin.models.openai:OpenAIModel",
            "replay": "steadyhand.builtin.models.replay:ReplayProvider",
            "pydantic-ai": "steadyhand.builtin.models.pydantic_ai:PydanticAIModel",
            "scripted": "steadyhand.builtin.models.scripted:ScriptedModel",
        },
        agents={
            "model": "steadyhand.builtin.agents.model:ModelAgent",
            "runtime": "steadyhand.builtin.agents.runtime:RuntimeAgent",
            "python": "steadyhand.builtin.agents.python_process:python_agent",
            "http": "steadyhand.builtin.agents.remote:http_agent",
            "command": "steadyhand.builtin.agents.command:CommandAgent",
            "elizaos": "steadyhand.builtin.agents.elizaos:ElizaosAgent",
            "a2a": "steadyhand.builtin.agents.remote:a2a_agent",
        },
        environments={
            "local": "steadyhand.builtin.environments.local:LocalEnvironment",
            "e2b": "steadyhand.builtin.environments.e2b:E2BEnvironment",
        },
        judges={"llm": "steadyhand.builtin.judges.llm:llm_judge"},
        users={"llm": "steadyhand.builtin.users.simulator:llm_user"},
    )


# Parts that every run may need and no scenario names: compose gets them here, and imports no built-in part itself.


def script_sandbox() -> ScriptSandbox:
    """The sandbox for the JavaScript of mocks. The caller must close it."""
    from steadyhand.builtin.mocks.javascript import QuickJsSandbox

    return QuickJsSandbox()


def make_database(
    seed: DatabaseSeed, *, environment: EnvironmentProvider, folder: Path, live: bool
) -> OfferedDatabase | None:
    """What `setup.database` asks for, not opened yet; see `builtin.services.database.make_database`."""
    from steadyhand.builtin.services import database

    return database.make_database(seed, environment=environment, folder=folder, live=live)


def real_service(
    service: RealService, *, folder: Path, variables: Mapping[str, str], options: Mapping[str, Any]
) -> ProvidedService:
    """What `setup.services` names, not started yet. Raises `SetupError` for a missing program and for an invalid
    option."""
    from steadyhand.builtin.services.mcp_connection import mcp_service

    return mcp_service(service, folder=folder, variables=variables, options=options)


def sweep_workspaces(folder: Path) -> None:
    """Remove what killed runs have left there."""
    if next(folder.iterdir(), None) is None:
        return
    from steadyhand.builtin.environments.cleanup import sweep

    sweep(folder)


def recording(folder: Path, redactor: Redactor, *, add: bool) -> Recording:
    """Records every model exchange in `folder`. Raises `SetupError` if it cannot be created."""
    from steadyhand.builtin.models.cassette import CassetteWriter, RecordingModel

    writer = CassetteWriter(folder, redactor, add=add)

    def wrap(model: ChatModel) -> ChatModel:
        return RecordingModel(model, writer)

    return Recording(wrap=wrap, broken=lambda: writer.broken, close=writer.close)


def replaying(folder: Path, redactor: Redactor, *, time: Literal["zero", "original"]) -> Callable[[str], ChatModel]:
    """Maps a model's name to its recorded answers. Raises `SetupError` if there is no recording."""
    from steadyhand.builtin.models.replay import Cassette, ReplayedModel

    cassette = Cassette(folder, redactor, time=time)
    return lambda name: ReplayedModel(name, cassette)


class Recording(NamedTuple):
    wrap: Callable[[ChatModel], ChatModel]
    broken: Callable[[], StoreError | None]
    close: Callable[[], None]
