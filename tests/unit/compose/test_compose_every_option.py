"""Every option that the configuration can pass to a part has an effect that is visible from outside.

The keys of the configuration itself are in `tests/cli/test_cli_every_setting.py`.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import steadyhand
from steadyhand.api.result import RunResult, Trial
from steadyhand.builtin.environments.sandbox import sandbox_available
from steadyhand.builtin.models.local import LocalModelOptions
from steadyhand.compose.models import build_gate
from steadyhand.compose.run import Run
from steadyhand.compose.scenarios import build_registry
from steadyhand.errors import FileError, SetupError
from steadyhand.plugins.plugin import options_of
from steadyhand.records.chat import ChatRequest
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.event import ActionTaken, CommandRan, ModelCalled, ServiceCalled
from steadyhand.spec.config_shapes import CalibrationShape, PriceShape, ProviderShape
from steadyhand.spec.shared_shapes import PluginShape
from steadyhand.testing import Answer, ModelServer, Served
from support.desk import Desk, serving_desk
from support.e2b_server import E2BServer
from support.elizaos_server import ElizaosAnswer, ElizaosServer
from support.late import Late

if TYPE_CHECKING:
    from support.a2a_server import Heard

a2a_agents = Late("support.a2a_server")
mcp_connection = Late("steadyhand.builtin.services.mcp_connection")

HERE = Path(__file__).parents[2] / "support"


class Project:
    """A folder with a configuration, in which scenarios are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs = 0

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.write_text(text)
        return file

    async def result(self, config: str, *steps: Any, variables: dict[str, str] | None = None, **more: Any) -> RunResult:
        """The result of a scenario with these steps; a string stands for a step that only says something."""
        self._runs += 1
        given = [{"input": step, "evaluations": [ANY]} if isinstance(step, str) else step for step in steps]
        scenario = {
            "id": "one",
            "name": "One",
            "description": "It answers.",
            "environment": {"type": more.pop("environment", "local")},
            "run": given or [{"input": "Hello", "evaluations": [ANY]}],
            "judgment": {"strategy": "all_pass"},
            **more.pop("scenario", {}),
        }
        if "messages" in scenario:
            scenario = {key: value for key, value in scenario.items() if key not in ("environment", "run", "judgment")}
        file = self.write(f"{self._runs}.toml", f"retries = 0\n{config}\n")
        env = self.write("vars.env", "".join(f"{name}={value}\n" for name, value in (variables or {}).items()))
        return await steadyhand.run_async(scenario, config=file, env_file=env, out=self.folder / "runs", **more)

    async def trial(self, config: str, *steps: Any, **more: Any) -> Trial:
        (trial,) = await self.result(config, *steps, **more)
        return trial

    async def decision(self, config: str, **more: Any) -> Trial:
        """The same for a decision, which has no services for an agent to reach."""
        return await self.trial(config, scenario=DECISION, **more)

    async def output(self, config: str, code: str, lang: str = "bash", **more: Any) -> str:
        """What a program prints in the environment."""
        step = {"lang": lang, "code": code, "evaluations": [ANY]}
        trial = await self.trial(config, step, **more)
        return "".join(event.stdout for event in trial.events if isinstance(event, CommandRan)).strip()


def _calls(trial: Trial) -> list[ModelCalled]:
    return [event for event in trial.events if isinstance(event, ModelCalled)]


ANY = {"type": "regex_match", "pattern": r"\S"}
DECISION = {
    "domain": "clinical",
    "messages": [{"role": "user", "content": "Hello"}],
    "latency_budget": {"target_ms": 60000, "acceptable_ms": 60000, "critical_ms": 60000},
    "safety_invariants": [
        {"name": "says", "description": "d", "check_type": "regex", "pattern": r"\S", "severity": 1.0}
    ],
    "constraint": {"description": "d", "time_pressure": "immediate", "consequence_of_delay": "d"},
    "rubric": "rubric_clinical",
    "expected_action": "Say something",
    "severity": 1.0,
}
Shown = Callable[[Project], Awaitable[None]]
SHOWN: dict[str, Shown] = {}
SHOWN_WITH_WEIGHTS = {f"models.local.{name}" for name in LocalModelOptions.model_fields}
"""They need the weights of a real model: `tests/local/test_local_smollm2.py` walks them in the same way."""
SHOWN_BY_THE_COMMAND = {f"calibration.{name}" for name in CalibrationShape.model_fields}
"""In `tests/cli/test_cli_calibrate.py`, since a calibration is made by a command."""


def shows(*options: str) -> Callable[[Shown], Shown]:
    def keep(test: Shown) -> Shown:
        SHOWN.update(dict.fromkeys(options, test))
        return test

    return keep


def every_option() -> set[str]:
    registry = build_registry()
    shapes: dict[str, type[BaseModel] | None] = {
        "providers": ProviderShape,
        "prices": PriceShape,
        "plugins": PluginShape,
        "calibration": CalibrationShape,
        "services": mcp_connection.McpOptions,
    }
    for point in ("models", "agents", "environments", "judges", "users"):
        shapes |= {f"{point}.{name}": options_of(registry.part(point, name)) for name in registry.names(point)}
    found = {f"{owner}.{name}" for owner, shape in shapes.items() if shape for name in shape.model_fields}
    return found | {f"agents.http.{call}.{name}" for call in ("start", "end") for name in ("method", "path", "body")}


# Models over HTTP

TEMPERED = {"agent": "model", "character": {"name": "c", "temperature": 0.3}}


async def _asked(project: Project, provider: str, options: str, variables: dict[str, str] | None = None) -> Served:
    """The request that a server gets from a model with these options."""
    async with ModelServer(Answer(text="hello")) as server:
        url = server.base_url if provider != "anthropic" else server.base_url.removesuffix("/v1")
        table = f'model = "{provider}/m"\n[providers.{provider}]\nbase_url = "{url}"\n{options}'
        trial = await project.trial(table, variables=variables, scenario=TEMPERED)
        assert trial.reply == "hello", trial.reason
        (served,) = server.log
    return served


def _headers(served: Served) -> dict[str, str]:
    return {name.lower(): value for name, value in served.headers.items()}


@shows(*(f"models.{provider}.{name}" for provider in ("openai", "anthropic") for name in (
    "base_url", "api_key_env", "headers", "body", "stream", "send_temperature",
)), "models.openai.send_seed", "models.anthropic.max_tokens")  # fmt: skip
async def what_a_request_says(project: Project) -> None:
    own = {
        "openai": ("send_seed = true", "authorization", "Bearer key-of-mine"),
        "anthropic": ("max_tokens = 77", "x-api-key", "key-of-mine"),
    }
    for provider, (more, header, key) in own.items():
        plain = await _asked(project, provider, "", {f"{provider.upper()}_API_KEY": "key-of-all"})
        options = 'api_key_env = "MINE"\nheaders = {X-Team = "red"}\nbody = {top_k = 3}\nstream = false\n'
        options += f"send_temperature = false\n{more}\n"
        asked = await _asked(project, provider, options, {"MINE": "key-of-mine"})
        assert (_headers(plain)[header], _headers(asked)[header]) == (key.replace("mine", "all"), key)
        assert (_headers(plain).get("x-team"), _headers(asked).get("x-team")) == (None, "red")
        assert (plain.body.get("top_k"), asked.body.get("top_k")) == (None, 3)
        assert (plain.body.get("stream"), bool(asked.body.get("stream"))) == (True, False)
        assert (plain.body.get("temperature"), asked.body.get("temperature")) == (0.3, None)
        if provider == "openai":
            assert ("seed" in plain.body, "seed" in asked.body) == (False, True)
        else:
            assert (plain.body["max_tokens"] == 77, asked.body["max_tokens"]) == (False, 77)


@shows("models.openai.api")
async def the_interface_that_is_asked(project: Project) -> None:
    assert (await _asked(project, "openai", "")).path.endswith("/chat/completions")
    assert (await _asked(project, "openai", 'api = "responses"')).path.endswith("/responses")


@shows("providers.type")
async def whose_interface_a_provider_speaks(project: Project) -> None:
    async with ModelServer(Answer(text="hello")) as server:
        url = server.base_url.removesuffix("/v1")
        table = f'model = "mine/m"\n[providers.mine]\ntype = "anthropic"\nbase_url = "{url}"\n'
        await project.trial(table, scenario=TEMPERED)
        assert [served.path for served in server.log] == ["/v1/messages"]


@shows("providers.requests_per_minute", "providers.tokens_per_minute")
async def limits_of_a_provider(project: Project) -> None:
    """The second call in a minute waits, and so does the first if it would use more tokens than a minute allows."""
    project.write("replies.yaml", "rules: [{reply: hello}]\n")
    project.write("a.scenario.yaml", SPOKEN)
    asked = ChatRequest(messages=(), max_tokens=1000)
    for limit in ("", "requests_per_minute = 1", "tokens_per_minute = 1500"):
        config = project.write("limits.toml", f'model = "scripted/replies.yaml"\n[providers.scripted]\n{limit}\n')
        run = Run(Selection(paths=("a.scenario.yaml",)), RunOptions(config=config))
        gate = build_gate(run.providers, run.settings, lambda _: None)
        async with gate.admit("scripted/replies.yaml", asked):
            pass
        try:
            async with asyncio.timeout(0.05), gate.admit("scripted/replies.yaml", asked):
                waited = False
        except TimeoutError:
            waited = True
        assert waited is bool(limit), limit


SPOKEN = """\
name: One
description: It answers.
environment: {type: local}
run: [{input: Hello, evaluations: [{type: string_contains, value: hello}]}]
judgment: {strategy: all_pass}
"""


@shows("providers.reasoning_tags")
async def the_marks_of_thoughts(project: Project) -> None:
    """A scenario's marks come before those of its agent, and these before those of the provider."""
    project.write("replies.yaml", 'rules: [{reply: "<think>hm</think><mull>so</mull>hello"}]\n')
    model = 'model = "scripted/replies.yaml"\n'
    provider = '[providers.scripted]\nreasoning_tags = "none"\n'
    agent = '[agents.runtime]\nreasoning_tags = ["think", "mull"]\n'
    assert (await project.trial(model)).reply == "<mull>so</mull>hello"
    assert (await project.trial(model + provider)).reply == "<think>hm</think><mull>so</mull>hello"
    assert (await project.trial(model + provider + agent)).reply == "hello"
    off = agent.replace('["think", "mull"]', '"none"')
    scenario = {"reasoning_tags": ["mull", "think"]}
    assert (await project.trial(model + off, scenario=scenario)).reply == "hello"


@shows("models.pydantic-ai.stream", "models.pydantic-ai.send_seed", "models.pydantic-ai.send_temperature")
async def what_the_bridge_asks(project: Project) -> None:
    async def asked(options: str) -> dict[str, Any]:
        async with ModelServer(Answer(text="hello")) as server:
            variables = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "k"}
            table = f'model = "pydantic-ai/openai-chat:m"\n[providers.pydantic-ai]\n{options}'
            trial = await project.trial(table, variables=variables, scenario=TEMPERED)
            assert trial.reply == "hello", trial.reason
            (served,) = server.log
        return served.body

    plain = await asked("")
    other = await asked("stream = false\nsend_seed = true\nsend_temperature = false\n")
    assert (plain.get("stream"), bool(other.get("stream"))) == (True, False)
    assert ("seed" in plain, "seed" in other) == (False, True)
    assert (plain.get("temperature"), other.get("temperature")) == (0.3, None)


@shows("models.replay.time")
async def how_long_a_replayed_answer_takes(project: Project) -> None:
    async with ModelServer(Answer(text="hello", delay_s=0.05)) as server:
        table = f'model = "openai/m"\n[providers.openai]\nbase_url = "{server.base_url}"\n'
        await project.trial(table, variables={"OPENAI_API_KEY": "k"}, record=project.folder / "tape.jsonl")
    trial = await project.trial('model = "replay/tape.jsonl"\n[providers.replay]\ntime = "original"\n')
    assert (trial.reply, trial.duration_ms >= 50) == ("hello", True), trial.reason


@shows("prices.input", "prices.output")
async def what_a_call_costs(project: Project) -> None:
    project.write("replies.yaml", "rules: [{reply: hello, usage: {input_tokens: 10, output_tokens: 3}}]\n")
    for prices, cost in (("input = 1e6\noutput = 0", 10.0), ("input = 0\noutput = 1e6", 3.0)):
        table = f'model = "scripted/replies.yaml"\n[prices."scripted/replies.yaml"]\n{prices}\n'
        result = await project.result(table)
        assert json.loads(result.to_json())["trials"][0]["cost"]["cost"] == cost


# Judges


@shows("judges.llm.max_tokens", "judges.llm.timeout_s")
async def limits_on_a_judge(project: Project) -> None:
    judged = {"input": "Hello", "evaluations": [{"type": "llm_judge", "prompt": "Ok?"}]}
    says = Answer(json={"judgment": "yes", "confidence": 1, "reasoning": "fine"})
    project.write("replies.yaml", "rules: [{reply: hello}]\n")

    async def outcome(answer: Answer, options: str) -> tuple[str, list[Any]]:
        async with ModelServer(answer) as server:
            table = f'model = "scripted/replies.yaml"\njudge = "openai/j"\n[judges.llm]\n{options}\n'
            table += f'[providers.openai]\nbase_url = "{server.base_url}"\n'
            trial = await project.trial(table, judged, variables={"OPENAI_API_KEY": "k"})
            return trial.verdict, [served.body.get("max_tokens") for served in server.log]

    assert await outcome(says, "") == ("passed", [None])
    assert await outcome(says, "max_tokens = 99") == ("passed", [99])
    hung, _ = await outcome(Answer(fault="hang"), "timeout_s = 0.1")
    assert hung == "inconclusive"


# Plugins and services


@shows("plugins.name", "plugins.version", "plugins.enabled", "plugins.config")
async def plugins_of_the_project(project: Project) -> None:
    project.write("acme.py", (HERE / "third_party.py").read_text())
    used = {"agent": "acme", "environment": {"type": "acme"}}

    def table(more: str) -> str:
        return f'model = "acme/m"\nplugins = [{{name = "./acme.py"{more}}}]\n'

    for more, noted in (("", "hello"), (", config = {prefix = '> '}", "> hello")):
        trial = await project.trial(table(more), scenario=used)
        (called,) = [event for event in trial.events if isinstance(event, ServiceCalled)]
        assert called.result == {"lines": [noted]}
    with pytest.raises(SetupError, match="version >=3 is required"):
        await project.trial(table(", version = '>=3'"), scenario=used)
    with pytest.raises(FileError, match="acme"):
        await project.trial(table(", enabled = false"), scenario=used)


@shows("services.api_key_env", "services.headers", "services.start_timeout_s")
async def ways_to_a_real_service(project: Project) -> None:
    project.write("replies.yaml", "rules: [{reply: hello}]\n")
    async with serving_desk() as desk:
        desk.answers["POST", "/mcp"] = {"no": "server"}
        served = {"setup": {"services": {"shop": {"mcp": f"{desk.url}/mcp"}}}}
        table = 'model = "scripted/replies.yaml"\n[services.shop]\n'
        options = 'api_key_env = "SHOP_KEY"\nheaders = {X-Team = "red"}\n'
        for more in ("", options):
            await project.trial(table + more, scenario=served, variables={"SHOP_KEY": "key-of-the-shop"})
        plain, given = desk.asked[0][2], desk.asked[-1][2]
    assert ("Authorization" in plain, given["Authorization"]) == (False, "Bearer key-of-the-shop")
    assert ("X-Team" in plain, given["X-Team"]) == (False, "red")
    slow = {"setup": {"services": {"shop": {"mcp": "sleep 60"}}}}
    trial = await project.trial(f"{table}start_timeout_s = 0.2\n", scenario=slow)
    assert (trial.verdict, "0.2 s" in trial.reason) == ("error", True), trial.reason


# Agents


@shows("agents.runtime.max_steps", "agents.runtime.allow_commands")
async def what_the_built_in_agent_may_do(project: Project) -> None:
    call = "{name: run_command, arguments: {command: echo $((40+2))}}"
    project.write("replies.yaml", f"rules:\n  - tool_calls: [{call}]\n")
    for options, steps, ran in (("max_steps = 2", 2, False), ("max_steps = 3\nallow_commands = true", 3, True)):
        trial = await project.trial(f'model = "scripted/replies.yaml"\n[agents.runtime]\n{options}\n')
        assert len(_calls(trial)) == steps
        assert any(isinstance(event, ActionTaken) and event.status == "success" for event in trial.events) is ran


PYTHON = """\
import asyncio, os, time

def variables(message):
    return repr([os.environ.get("GIVEN"), "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ, os.getpid()])

async def slow(message):
    await asyncio.sleep(600)

async def blocking(message):
    time.sleep(1)
    return "done"
"""


@shows("agents.python.env", "agents.python.traces", "agents.python.in_process", "agents.python.timeout_s",
       "agents.python.block_limit_s", "agents.python.shows")  # fmt: skip
async def how_a_python_agent_runs(project: Project) -> None:
    project.write("mine.py", PYTHON)

    async def said(options: str) -> tuple[Any, bool, bool]:
        trial = await project.decision(f'agent = "python:./mine.py:variables"\n[agents.python]\n{options}')
        given, traced, pid = ast.literal_eval(trial.reply)
        return given, traced, pid == os.getpid()

    assert await said("") == (None, False, False)
    assert await said('env = {GIVEN = "this"}') == ("this", False, False)
    assert await said('traces = "spans"') == (None, True, False)
    assert await said("in_process = true") == (None, False, True)
    late = await project.trial('agent = "python:./mine.py:slow"\n[agents.python]\ntimeout_s = 0.2\n')
    assert (late.verdict, "0.2 s" in late.reason) == ("error", True), late.reason
    blocked = 'agent = "python:./mine.py:blocking"\n[agents.python]\nin_process = true\n'
    assert (await project.trial(blocked)).reply == "done"
    trial = await project.trial(f"{blocked}block_limit_s = 0.1\n")
    assert (trial.verdict, "block" in trial.reason) == ("error", True), trial.reason
    assert await _never(project, 'agent = "python:./mine.py:variables"\n[agents.python]\n') == NEVER


COMMAND = """\
import json, os, sys, time
heard = sys.stdin.readline()
if "sleep" in heard:
    time.sleep(600)
said = repr([os.environ.get("GIVEN"), "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ, heard.startswith("{")])
print(json.dumps({"type": "reply", "text": said}) if heard.startswith("{") else said, flush=True)
"""


NEVER = ["inconclusive", "passed"]


async def _never(project: Project, agent: str) -> list[str]:
    """Whether silence proves that nothing was done, without and with the option `shows`."""
    never = {"input": "Hello", "evaluations": [{"type": "trajectory_contains_action", "action": "x", "max_count": 0}]}
    return [(await project.trial(agent + declared, never)).verdict for declared in ("", 'shows = "actions"\n')]


@shows("agents.command.env", "agents.command.traces", "agents.command.timeout_s", "agents.command.speaks",
       "agents.command.shows")  # fmt: skip
async def how_a_command_is_run(project: Project) -> None:
    project.write("mine.py", COMMAND)
    agent = f"command:{shlex.quote(sys.executable)} ./mine.py"

    async def said(options: str) -> Any:
        trial = await project.decision(f"agent = {json.dumps(agent)}\n[agents.command]\n{options}")
        return ast.literal_eval(trial.reply)

    assert await said("") == [None, False, True]
    assert await said('env = {GIVEN = "this"}') == ["this", False, True]
    assert await said('traces = "spans"') == [None, True, True]
    assert await said('speaks = "text"') == [None, False, False]
    late = await project.trial(f"agent = {json.dumps(agent)}\n[agents.command]\ntimeout_s = 0.2\n", "sleep")
    assert (late.verdict, "0.2 s" in late.reason) == ("error", True), late.reason
    assert await _never(project, f"agent = {json.dumps(agent)}\n[agents.command]\n") == NEVER


TOOLS = [{"name": "find_order", "arguments": {}, "result": 1}]
COMPLETION = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}


@shows("agents.http.api_key_env", "agents.http.headers", "agents.http.traces", "agents.http.timeout_s")
async def how_an_agent_over_http_is_asked(project: Project) -> None:
    async with serving_desk() as desk:
        desk.answers["POST", "/v1/chat/completions"] = COMPLETION
        for options in ("", 'api_key_env = "MINE"\nheaders = {X-Team = "red"}\ntraces = "spans"\n'):
            trial = await _over_http(project, desk, "/v1", options)
            assert trial.reply == "Hi.", trial.reason
        plain, given = desk.asked[0][2], desk.asked[1][2]
        assert ("Authorization" in plain, given["Authorization"]) == (False, "Bearer key-of-mine")
        assert ("X-Team" in plain, given["X-Team"]) == (False, "red")
        assert ("traceparent" in plain, "traceparent" in given) == (False, True)
        desk.answers["POST", "/v1/chat/completions"] = None
        late = await _over_http(project, desk, "/v1", "timeout_s = 0.2")
        assert (late.verdict, "0.2 s" in late.reason) == ("error", True), late.reason


@shows("agents.http.method", "agents.http.body", "agents.http.reply", "agents.http.tool_calls", "agents.http.session",
       "agents.http.start", "agents.http.start.method", "agents.http.start.path", "agents.http.start.body",
       "agents.http.end", "agents.http.end.method", "agents.http.end.path", "agents.http.end.body")  # fmt: skip
async def an_interface_of_ones_own(project: Project) -> None:
    async with serving_desk() as desk:
        desk.answers["POST", "/chat"] = {"said": "no", "calls": TOOLS}
        trial = await _over_http(project, desk, "/chat", 'reply = "said"')
        assert (trial.reply, desk.asked) == ("no", [("POST", "/chat", desk.asked[0][2], {"message": "Hello"})])
        assert [step.name for step in trial.trajectory if step.type == "action"] == []
        desk.asked.clear()
        desk.answers["PUT", "/chat/new"] = {"id": "s-1"}
        desk.answers["PATCH", "/chat"] = {"said": "no", "deep": {"said": "yes"}, "calls": TOOLS}
        desk.answers["DELETE", "/chat/gone"] = {}
        options = (
            'method = "PATCH"\nreply = "deep.said"\ntool_calls = "calls"\nsession = "id"\n'
            'body = {q = "{message}", s = "{session}"}\nstart = {method = "PUT", path = "/new", body = {a = 1}}\n'
            'end = {method = "DELETE", path = "/gone", body = {s = "{session}"}}\n'
        )
        trial = await _over_http(project, desk, "/chat", options)
        assert [(method, path, body) for method, path, _, body in desk.asked] == [
            ("PUT", "/chat/new", {"a": 1}),
            ("PATCH", "/chat", {"q": "Hello", "s": "s-1"}),
            ("DELETE", "/chat/gone", {"s": "s-1"}),
        ]
        assert trial.reply == "yes"
        assert [step.name for step in trial.trajectory if step.type == "action"] == ["find_order"]


async def _over_http(project: Project, desk: Desk, path: str, options: str) -> Trial:
    table = f'agent = "http:{desk.url}{path}"\n[agents.http]\n{options}'
    return await project.decision(table, variables={"MINE": "key-of-mine"})


@shows("agents.a2a.api_key_env", "agents.a2a.headers", "agents.a2a.traces", "agents.a2a.timeout_s")
async def how_an_a2a_agent_is_asked(project: Project) -> None:
    async def work(heard: Heard) -> None:
        if heard.text == "wait":
            await asyncio.sleep(600)
        await heard.say("Hi.")

    async with a2a_agents.a2a_server(work) as server:
        table = f'agent = "a2a:{server.url}"\n[agents.a2a]\n'
        for options in ("", 'api_key_env = "MINE"\nheaders = {X-Team = "red"}\ntraces = "spans"\n'):
            trial = await project.decision(table + options, variables={"MINE": "key-of-mine"})
            assert trial.reply == "Hi.", trial.reason
        plain, given = (heard.headers for heard in server.heard)
        assert ("authorization" in plain, given["authorization"]) == (False, "Bearer key-of-mine")
        assert ("x-team" in plain, given["x-team"]) == (False, "red")
        assert ("traceparent" in plain, "traceparent" in given) == (False, True)
        late = await project.trial(f"{table}timeout_s = 0.3\n", "wait")
        assert (late.verdict, "0.3 s" in late.reason) == ("error", True), late.reason


@shows("agents.elizaos.settings", "agents.elizaos.settle_s", "agents.elizaos.timeout_s")
async def how_an_elizaos_agent_is_set_up(project: Project) -> None:
    async with ElizaosServer(ElizaosAnswer(text="Hi.")) as server:
        table = f'agent = "elizaos:{server.url}"\n[agents.elizaos]\n'
        assert (await project.trial(table)).reply == "Hi."
        assert server.characters == {}
        begun = []
        for settle_s in (0, 0.4):
            trial = await project.trial(f'{table}settings = {{MODE = "loud"}}\nsettle_s = {settle_s}\n')
            assert trial.reply == "Hi.", trial.reason
            begun.append(min(event.at_ms for event in trial.events if event.step is not None))
        assert [character["settings"]["MODE"] for character in server.characters.values()] == ["loud", "loud"]
        assert begun[1] >= 400
        server.behaviour = ElizaosAnswer(hang=True)
        late = await project.trial(f"{table}timeout_s = 0.2\n")
        assert (late.verdict, "0.2 s" in late.reason) == ("error", True), late.reason


# Environments


@shows("environments.local.sandbox", "environments.local.memory_mib", "environments.local.processes",
       "environments.local.file_mib")  # fmt: skip
async def limits_of_the_sandbox(project: Project) -> None:
    if (reason := sandbox_available()) is not None:
        pytest.skip(reason)

    async def said(options: str, code: str, lang: str = "bash") -> str:
        return await project.output(f"[environments.local]\n{options}\n", code, lang)

    there = f"test -e {shlex.quote(str(HERE))} && echo seen || echo hidden"
    assert (await said("", there), await said("sandbox = true", there)) == ("seen", "hidden")
    write = "head -c 3000000 /dev/zero > big 2>/dev/null && echo written || echo refused"
    assert await said("sandbox = true", write) == "written"
    assert await said("sandbox = true\nfile_mib = 1", write) == "refused"
    hold = "head -c 100000000 /dev/zero | tail -c 99999999 | wc -c 2>/dev/null"
    assert await said("sandbox = true", hold) == "99999999"
    assert await said("sandbox = true\nmemory_mib = 64", hold) != "99999999"
    assert await said("sandbox = true", FORKS, "python") == "forked"
    assert await said("sandbox = true\nprocesses = 5", FORKS, "python") == "refused"


FORKS = """\
import os, signal
children = []
try:
    for _ in range(9):
        children.append(os.fork() or os.execlp("sleep", "sleep", "60"))
    print("forked")
except OSError:
    print("refused")
for child in children:
    os.kill(child, signal.SIGKILL)
"""


@shows("environments.e2b.template", "environments.e2b.timeout_s", "environments.e2b.internet",
       "environments.e2b.workspace")  # fmt: skip
async def what_sandbox_is_asked_of_e2b(project: Project) -> None:
    async with E2BServer() as server:
        replies = []
        for options in ("", 'template = "mine"\ntimeout_s = 77\ninternet = false\nworkspace = "/home/user/desk"\n'):
            table = f"[environments.e2b]\n{options}"
            replies.append(await project.output(table, "pwd", environment="e2b", variables=server.variables))
        plain, given = server.requests
    assert (plain["templateID"] == "mine", given["templateID"]) == (False, "mine")
    assert (plain["timeout"], given["timeout"]) == (3600, 77)
    assert (plain["allow_internet_access"], given["allow_internet_access"]) == (True, False)
    assert (replies[0].endswith("/desk"), replies[1].endswith("/home/user/desk")) == (False, True)


def test_no_option_is_left_out():
    assert set(SHOWN) | SHOWN_WITH_WEIGHTS | SHOWN_BY_THE_COMMAND == every_option()


@pytest.mark.parametrize("test", dict.fromkeys(SHOWN.values()), ids=lambda test: test.__name__)
async def test_it_has_an_effect(test, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await test(Project(tmp_path))
