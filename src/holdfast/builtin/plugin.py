"""The built-in parts, brought in the way a third party's would be."""

from __future__ import annotations

from holdfast.builtin.evaluators.table import EVALUATORS
from holdfast.plugins.plugin import Plugin


def builtin_plugin() -> Plugin:
    return Plugin(
        name="holdfast",
        evaluators=EVALUATORS,
        models={
            "anthropic": "holdfast.builtin.models.anthropic:AnthropicModel",
            "local": "holdfast.builtin.models.local:LocalModel",
            "openai": "holdfast.builtin.models.openai:OpenAIModel",
            "replay": "holdfast.builtin.models.replay:ReplayProvider",
            "pydantic-ai": "holdfast.builtin.models.pydantic_ai:PydanticAIModel",
            "scripted": "holdfast.builtin.models.scripted:ScriptedModel",
        },
        agents={
            "model": "holdfast.builtin.agents.model:ModelAgent",
            "runtime": "holdfast.builtin.agents.runtime:RuntimeAgent",
            "python": "holdfast.builtin.agents.python_agent:PythonAgent",
            "http": "holdfast.builtin.agent_over_http:agent_over_http",
            "command": "holdfast.builtin.agents.command_agent:CommandAgent",
            "elizaos": "holdfast.builtin.agents.elizaos_agent:ElizaosAgent",
        },
        environments={
            "local": "holdfast.builtin.environments.local:LocalEnvironment",
            "e2b": "holdfast.builtin.environments.e2b:E2BEnvironment",
        },
    )
