"""The factories of agents behind a URL: `http:URL` and `a2a:URL`."""

from __future__ import annotations

import os
from typing import ClassVar
from urllib.parse import urldefrag

from steadyhand.builtin.agents.addresses import shown_url
from steadyhand.builtin.agents.http import (
    VALUES,
    HttpAgent,
    HttpAgentOptions,
    SessionCall,
    TemplateAgent,
    TemplateModel,
    TemplateWire,
    check_names,
)
from steadyhand.builtin.agents.options import A2aOptions
from steadyhand.builtin.http_model import HttpModel
from steadyhand.errors import SetupError
from steadyhand.http.endpoint import Endpoint, check_headers, read_endpoint, read_key
from steadyhand.http.proxy import proxy_for
from steadyhand.plugins.extras import missing_extra
from steadyhand.plugins.plugin import AgentSettings, Options, read_options
from steadyhand.ports.agent import Agent
from steadyhand.wire.dialect import RequestSettings
from steadyhand.wire.openai_chat import ChatCompletions

KEY_VARIABLE = "STEADYHAND_AGENT_KEY"
DEFAULT_MODEL = "agent"


class _RemoteAgentFactory:
    """An agent behind a URL that can be given the addresses of its trial. The key comes from `STEADYHAND_AGENT_KEY`, or
    from the variable that the option `api_key_env` names."""

    uses_network: ClassVar[bool] = True
    uses_gateway: ClassVar[bool] = True
    runs_target: ClassVar[bool] = False
    key_variable: ClassVar[str] = KEY_VARIABLE


class HttpAgentFactory(_RemoteAgentFactory):
    """`http:URL#NAME` sends NAME as the request's `model`."""

    options: ClassVar[type[Options]] = HttpAgentOptions

    def __call__(self, settings: AgentSettings) -> Agent:
        """Raises `SetupError` for something that is not a URL, or an option that is wrong."""
        name = f"agent http:{shown_url(settings.target)}"
        options = read_options(HttpAgentOptions, settings.options, name)
        target = f"http:{settings.target}" if settings.target.startswith("//") else settings.target
        url, model = urldefrag(target)
        if not url.startswith(("http://", "https://")):
            raise SetupError(f"{name}: expected http:URL, such as http:http://127.0.0.1:8000/v1")
        if options.reply is not None:
            return _templated(settings, options, url, name)
        own = ("body", "tool_calls", "session", "start", "end", "method")
        for what in own:
            if getattr(options, what) != HttpAgentOptions.model_fields[what].default:
                raise SetupError(f"{name}: option {what} needs option reply, the path to the reply in the answer")
        endpoint = _endpoint(settings, options, name, url, "/chat/completions", "/v1")
        wire = ChatCompletions(settings=RequestSettings(model=model or DEFAULT_MODEL))
        return HttpAgent(settings, options, HttpModel(name, endpoint, wire))


def _templated(settings: AgentSettings, options: HttpAgentOptions, url: str, name: str) -> Agent:
    """An agent whose interface is described in its options. Raises `SetupError`."""
    addresses = {} if settings.gateway is None else settings.gateway.reusable(None).names

    def model(call: SessionCall, reply: str | None, where: str) -> TemplateModel:
        check_names(call.body, {**VALUES, **addresses}, f"{name}: option {where}")
        joined = url.rstrip("/") + "/" + call.path.lstrip("/") if call.path else url
        endpoint = _endpoint(settings, options, name, joined, "", "/PATH")
        return TemplateModel(name, endpoint, TemplateWire(call.body, reply), method=call.method)

    ask = SessionCall(method=options.method, body={"message": "{message}"} if options.body is None else options.body)
    sessions = {
        which: model(call, None, which)
        for which, call in (("start", options.start), ("end", options.end))
        if call is not None
    }
    return TemplateAgent(settings, options, model(ask, options.reply, "body"), sessions=sessions)


def _endpoint(
    settings: AgentSettings, options: HttpAgentOptions, name: str, base_url: str, path: str, expected: str
) -> Endpoint:
    url, host = read_endpoint(name, base_url, endpoint=path, expected=expected)
    key, headers = _secrets(settings, options, name)
    return Endpoint(
        url=url,
        host=host,
        key=key,
        key_variable=options.api_key_env or KEY_VARIABLE,
        headers={**({"Authorization": f"Bearer {key}"} if key else {}), **headers},
        timeout_s=options.timeout_s,
    )


def _secrets(settings: AgentSettings, options: HttpAgentOptions | A2aOptions, name: str) -> tuple[str, dict[str, str]]:
    """The key, and the headers that name no address."""
    may_have_key = settings.default_key or options.api_key_env is not None
    key = read_key(name, options.api_key_env or KEY_VARIABLE, settings.variables if may_have_key else {})
    fixed = {header: value for header, value in options.headers.items() if "{" not in value}
    return key, check_headers(name, fixed)


class A2aAgentFactory(_RemoteAgentFactory):
    """`a2a:URL`: the agent's address, below which its card is, or the URL of the card. The key is a bearer token."""

    options: ClassVar[type[Options]] = A2aOptions

    def __call__(self, settings: AgentSettings) -> Agent:
        """Raises `SetupError` without the extra `a2a`, for something that is not a URL, or an option that is wrong."""
        name = f"agent a2a:{shown_url(settings.target)}"
        if (missing := missing_extra("a2a")) is not None:
            raise SetupError(f"{name}: {missing}")
        from steadyhand.builtin.agents.a2a import A2aAgent  # needs the extra

        options = read_options(A2aOptions, settings.options, name)
        key, _ = _secrets(settings, options, name)
        found = proxy_for(settings.target, os.environ)
        proxy = None if found is None else (f"http://{found}", found.authorization)
        return A2aAgent(settings.target, options, key=key, proxy=proxy)


http_agent = HttpAgentFactory()
a2a_agent = A2aAgentFactory()
