"""The built-in parts, brought in the way a third party's would be."""

from __future__ import annotations

from steadyhand.builtin.evaluators.table import EVALUATORS
from steadyhand.plugins.plugin import Plugin


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
            "python": "steadyhand.builtin.agents.python:PythonAgent",
            "http": "steadyhand.builtin.agent_over_http:agent_over_http",
            "command": "steadyhand.builtin.agents.command:CommandAgent",
            "elizaos": "steadyhand.builtin.agents.elizaos:ElizaosAgent",
        },
        environments={
            "local": "steadyhand.builtin.environments.local:LocalEnvironment",
            "e2b": "steadyhand.builtin.environments.e2b:E2BEnvironment",
        },
    )
