"""The built-in parts, registered like third-party parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple
from urllib.parse import urldefrag

from steadyhand.errors import SetupError, StoreError
from steadyhand.plugins.extras import missing_extra
from steadyhand.plugins.plugin import AgentSettings, ModelSettings, Options, Plugin, read_options
from steadyhand.ports.agent import Agent
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.ports.model import ChatModel
from steadyhand.ports.services import OfferedDatabase, ProvidedService, ScriptSandbox
from steadyhand.records.scenario import DatabaseSeed, RealService
from steadyhand.redaction import Redactor

if TYPE_CHECKING:
    from steadyhand.builtin.agents.http import HttpAgentOptions

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
            "a2a": "steadyhand.builtin.plugin:agent_over_a2a",
        },
        environments={
            "local": "steadyhand.builtin.environments.local:LocalEnvironment",
            "e2b": "steadyhand.builtin.environments.e2b:E2BEnvironment",
        },
        judges={"llm": "steadyhand.builtin.judges.llm:llm_judge"},
        users={"llm": "steadyhand.builtin.users.simulator:llm_user"},
    )


KEY_VARIABLE = "STEADYHAND_AGENT_KEY"
DEFAULT_MODEL = "agent"


class _RemoteAgentFactory:
    """Options of an agent behind a URL that can be given the addresses of its trial."""

    uses_network: ClassVar[bool] = True
    uses_gateway: ClassVar[bool] = True
    runs_target: ClassVar[bool] = False
    key_variable: ClassVar[str] = KEY_VARIABLE


class HttpAgentFactory(_RemoteAgentFactory):
    """`http:URL#NAME` sends NAME as the request's `model`. The key comes from `STEADYHAND_AGENT_KEY`, or from the
    variable that the option `api_key_env` names."""

    @property
    def options(self) -> type[Options]:
        from steadyhand.builtin.agents.http import HttpAgentOptions

        return HttpAgentOptions

    def __call__(self, settings: AgentSettings) -> Agent:
        """Raises `SetupError` for something that is not a URL, or an option that is wrong."""
        from steadyhand.builtin.agents.addresses import shown_url
        from steadyhand.builtin.agents.http import HttpAgent, HttpAgentOptions
        from steadyhand.builtin.models.openai import OpenAIModel

        name = f"agent http:{shown_url(settings.target)}"
        options = read_options(HttpAgentOptions, settings.options, name)
        target = f"http:{settings.target}" if settings.target.startswith("//") else settings.target
        url, model = urldefrag(target)
        if not url.startswith(("http://", "https://")):
            raise SetupError(f"{name}: expected http:URL, such as http:http://127.0.0.1:8000/v1")
        if options.reply is not None:
            return _templated(settings, options, url, name)
        _refuse_without_reply(options, name)
        may_have_key = settings.default_key or options.api_key_env is not None
        headers = {header: value for header, value in options.headers.items() if "{" not in value}
        client = ModelSettings(
            name=model or DEFAULT_MODEL,
            folder=settings.folder,
            variables=settings.variables if may_have_key else {},
            timeout_s=options.timeout_s,
            options={"base_url": url, "api_key_env": options.api_key_env or KEY_VARIABLE, "headers": headers},
        )
        try:
            return HttpAgent(settings, options, OpenAIModel(client))
        except SetupError as error:
            raise SetupError(f"{name}: {error}") from error


def _refuse_without_reply(options: HttpAgentOptions, name: str) -> None:
    given = [each for each in ("body", "tool_calls", "session", "start", "end") if getattr(options, each) is not None]
    if given or options.method != "POST":
        what = given[0] if given else "method"
        raise SetupError(f"{name}: option {what} needs option reply, the path to the reply in the answer")


def _templated(settings: AgentSettings, options: HttpAgentOptions, url: str, name: str) -> Agent:
    """An agent whose interface is described in its options. Raises `SetupError`."""
    from steadyhand.builtin.agents.http import VALUES, SessionCall, TemplateAgent
    from steadyhand.builtin.models.http.settings import HttpSettings, check_headers, read_endpoint, read_key
    from steadyhand.builtin.models.http.template import TemplateModel, TemplateWire, at_path, check_names

    variable = options.api_key_env or KEY_VARIABLE
    may_have_key = settings.default_key or options.api_key_env is not None
    key = read_key(name, variable, settings.variables if may_have_key else {})
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    fixed = {header: value for header, value in options.headers.items() if "{" not in value}
    headers |= check_headers(name, fixed)
    addresses = {} if settings.gateway is None else settings.gateway.reusable(None).names

    def endpoint(call: SessionCall, reply: str | None, where: str) -> TemplateModel:
        check_names(call.body, {**VALUES, **addresses}, f"{name}: option {where}")
        joined = url.rstrip("/") + "/" + call.path.lstrip("/") if call.path else url
        full, host = read_endpoint(name, joined, endpoint="", expected="/PATH")
        http = HttpSettings(
            url=full, host=host, key=key, key_variable=variable, headers=headers, timeout_s=options.timeout_s
        )
        return TemplateModel(name, http, TemplateWire(call.body, reply), method=call.method)

    ask = SessionCall(method=options.method, body={"message": "{message}"} if options.body is None else options.body)
    sessions = {
        which: endpoint(call, None, which)
        for which, call in (("start", options.start), ("end", options.end))
        if call is not None
    }
    client = endpoint(ask, options.reply, "body")
    return TemplateAgent(settings, options, client, sessions=sessions, at_path=at_path)


agent_over_http = HttpAgentFactory()


class A2aAgentFactory(_RemoteAgentFactory):
    """`a2a:URL`: the agent's address, below which its card is, or the URL of the card. The bearer token comes from
    `STEADYHAND_AGENT_KEY`, or from the variable that the option `api_key_env` names."""

    @property
    def options(self) -> type[Options]:
        from steadyhand.builtin.agents.options import A2aOptions

        return A2aOptions

    def __call__(self, settings: AgentSettings) -> Agent:
        """Raises `SetupError` without the extra `a2a`, for something that is not a URL, or an option that is wrong."""
        from steadyhand.builtin.agents.addresses import shown_url
        from steadyhand.builtin.agents.options import A2aOptions
        from steadyhand.builtin.models.http.proxy import proxy_for
        from steadyhand.builtin.models.http.settings import check_headers, read_key

        name = f"agent a2a:{shown_url(settings.target)}"
        if (missing := missing_extra("a2a")) is not None:
            raise SetupError(f"{name}: {missing}")
        from steadyhand.builtin.agents.a2a import A2aAgent

        options = read_options(A2aOptions, settings.options, name)
        check_headers(name, {header: value for header, value in options.headers.items() if "{" not in value})
        variable = options.api_key_env or KEY_VARIABLE
        may_have_key = settings.default_key or options.api_key_env is not None
        key = read_key(name, variable, settings.variables if may_have_key else {})
        found = proxy_for(settings.target, os.environ)
        proxy = None if found is None else (f"http://{found}", found.authorization)
        return A2aAgent(settings.target, options, key=key, proxy=proxy)


agent_over_a2a = A2aAgentFactory()


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
    """What `setup.services` names, not started yet. Raises `SetupError` without the extra `mcp`, for a missing program
    and for an invalid option."""
    if (missing := missing_extra("mcp")) is not None:
        raise SetupError(f"the service {service.name!r} is an MCP server, and {missing}")
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
