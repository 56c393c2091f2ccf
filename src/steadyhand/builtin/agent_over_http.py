"""`http:URL`, put together: the `http` agent and the client that speaks to an OpenAI-compatible server.

It stands here because agents and models do not import each other.
"""

from __future__ import annotations

from urllib.parse import urldefrag

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import AgentSettings, ModelSettings
from steadyhand.ports.agent import Agent

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
