"""The built-in parts, registered the way a third party's would be."""

from __future__ import annotations

from urllib.parse import urldefrag

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import AgentSettings, ModelSettings, Plugin
from steadyhand.ports.agent import Agent

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
    "latency_budget": "steadyhand.builtin.evaluators.timing:LatencyBudget",
    "sequence": "steadyhand.builtin.evaluators.sequence:Sequence",
    "service_called": "steadyhand.builtin.evaluators.actions:ServiceCalledEvaluator",
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
            "http": "steadyhand.builtin.plugin:agent_over_http",
            "command": "steadyhand.builtin.agents.command:CommandAgent",
            "elizaos": "steadyhand.builtin.agents.elizaos:ElizaosAgent",
        },
        environments={
            "local": "steadyhand.builtin.environments.local:LocalEnvironment",
            "e2b": "steadyhand.builtin.environments.e2b:E2BEnvironment",
        },
    )


KEY_VARIABLE = "STEADYHAND_AGENT_KEY"
DEFAULT_MODEL = "agent"


def agent_over_http(settings: AgentSettings) -> Agent:
    """`URL#NAME` sends NAME as the request's `model`. A key comes from the variable `STEADYHAND_AGENT_KEY`.

    Raises `SetupError` for something that is not a URL, or an option of the wrong kind.
    """
    from steadyhand.builtin.agents.http import HttpAgent
    from steadyhand.builtin.agents.options import time_limit_s
    from steadyhand.builtin.models.openai import OpenAIModel

    target = f"http:{settings.target}" if settings.target.startswith("//") else settings.target
    url, model = urldefrag(target)
    if not url.startswith(("http://", "https://")):
        raise SetupError(f"agent http:{settings.target}: expected http:URL, such as http:http://127.0.0.1:8000/v1")
    client = ModelSettings(
        name=model or DEFAULT_MODEL,
        folder=settings.folder,
        variables=settings.variables,
        timeout_s=time_limit_s(settings),
        options={"base_url": url, "api_key_env": str(settings.options.get("api_key_env", KEY_VARIABLE))},
    )
    try:
        return HttpAgent(settings, OpenAIModel(client))
    except SetupError as error:
        raise SetupError(f"agent http:{settings.target}: {error}") from error
