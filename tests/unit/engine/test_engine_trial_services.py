"""A mock or plugin that breaks is an error of the trial, whatever the agent makes of it."""

from __future__ import annotations

import asyncio
import random
import shlex
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.mocks.javascript import QuickJsSandbox, ScriptLimits
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.builtin.plugin import builtin_plugin
from steadyhand.engine.context import TrialParts
from steadyhand.engine.limits import SystemClock
from steadyhand.engine.trial import run_trial
from steadyhand.plugins.plugin import AgentSettings, EnvironmentSettings, ModelSettings, RunScope
from steadyhand.plugins.registry import Registry
from steadyhand.ports.agent import Agent
from steadyhand.ports.services import Action, ProvidedService, ServiceFault
from steadyhand.records.chat import Message, ToolCall
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialKey, TrialRecord
from steadyhand.records.scenario import (
    Ask,
    ConversationConfig,
    Converse,
    Mock,
    MockWhen,
    Scenario,
    ScriptedTurn,
    Setup,
    Step,
    VerdictPolicy,
)
from steadyhand.runtime.mocks import MockTable
from steadyhand.runtime.runtime import AgentRuntime
from steadyhand.testing import Answer, ModelServer
from support.engine import PLACE, check

pytestmark = pytest.mark.usefixtures("forked_agents")

FUNCTION = """
    def agent(message, get_service):
        try:
            get_service("s").get("x")
        except Exception:
            return "sorry"
        return "got it"
"""
COROUTINE = """
    async def agent(message, get_service):
        try:
            await get_service("s").get("x")
        except BaseException:
            return "sorry"
        return "got it"
"""
IMPATIENT = """
    import asyncio

    async def agent(message, get_service):
        try:
            async with asyncio.timeout(0.05):
                await get_service("s").get("x")
        except TimeoutError:
            return "sorry"
        return "got it"
"""
IN_OPEN = """
    class agent:
        def open(self, get_service):
            try:
                get_service("s").get("x")
            except Exception:
                pass

        def respond(self, message):
            return "sorry"
"""
IN_CLOSE = """
    class agent:
        def respond(self, message):
            return "sorry"

        def close(self, get_service):
            try:
                get_service("s").get("x")
            except Exception:
                pass
"""
OWN_ERROR = """
    def agent(message, get_service):
        try:
            get_service("s").get("x")
        except Exception:
            raise RuntimeError("my service is down") from None
"""
SLOW_AFTERWARDS = """
    import asyncio

    async def agent(message, get_service):
        try:
            await get_service("s").get("x")
        except Exception:
            await asyncio.sleep(60)
        return "got it"
"""
COMMAND = """
    import json, sys
    for line in sys.stdin:
        print(json.dumps({"type": "call", "id": "1", "service": "s", "method": "get", "args": ["x"]}), flush=True)
        sys.stdin.readline()
        print(json.dumps({"type": "reply", "text": "sorry"}), flush=True)
"""


class Sky:
    def get(self, place: str) -> str:
        return {}[place]


class Exits:
    def get(self, place: str) -> str:
        sys.exit(3)


def mock(**fields: Any) -> Mock:
    when = MockWhen(matcher=fields.pop("matcher", None))
    return Mock(service="s", method="get", place=PLACE, when=when, **fields)


BREAKS: dict[str, dict[str, Any]] = {
    "a matcher that throws": {"mocks": [mock(matcher="args.no.such", response=1)]},
    "a responseFn that throws": {"mocks": [mock(response_fn="() => { throw new Error('boom') }")]},
    "a responseFn that never ends": {"mocks": [mock(response_fn="() => { for (;;) {} }")]},
    "a plugin's KeyError": {"services": {"s": ProvidedService(build=Sky, plugin="sky")}},
    "a plugin's sys.exit": {"services": {"s": ProvidedService(build=Exits, plugin="sky")}},
    "a service that cannot be built": {"services": {"s": ProvidedService(build=lambda: 1 / 0, plugin="sky")}},
}


@pytest.fixture(scope="module")
def scripts():
    """As in a run, where one serves all trials."""
    sandbox = QuickJsSandbox(ScriptLimits(time_s=0.2), workers=1)
    yield sandbox
    sandbox.close()


@pytest.fixture
def run(tmp_path: Path, scripts: QuickJsSandbox):
    async def run(
        agent: Any,
        *,
        mocks: list[Mock] | None = None,
        step: Step | None = None,
        strategy: Any = "all_pass",
        **runtime: Any,
    ) -> TrialRecord:
        asked = Ask(messages=(Message(role="user", content="hi"),))
        step = step or Step(
            index=0, name="one", place=PLACE, task=asked, evaluations=(check("string_contains", value="sorry"),)
        )
        scenario = Scenario(
            id="s", name="S", description="", place=PLACE, digest="d", steps=(step,),
            judgment=VerdictPolicy(strategy=strategy), setup=Setup(mocks=tuple(mocks or ())),
        )  # fmt: skip
        registry = Registry([builtin_plugin()])
        parts = TrialParts(
            scenario=scenario,
            key=TrialKey(scenario_id="s"),
            environment=LocalEnvironment(EnvironmentSettings(root=tmp_path / "root", trial_id="t")),
            evaluator=registry.evaluator,
            agent=agent,
        )
        table = MockTable(mocks or (), scripts=scripts, random=random.Random(1), clock=SystemClock())
        parts.services = AgentRuntime(mocks=table, **runtime)
        return await run_trial(parts)

    return run


def python(folder: Path, source: str):
    (folder / "mine.py").write_text(textwrap.dedent(source))
    return Registry([builtin_plugin()]).agent("python")(AgentSettings(target="./mine.py:agent", folder=folder))


def command(folder: Path):
    (folder / "mine.py").write_text(textwrap.dedent(COMMAND))
    target = f"{shlex.quote(sys.executable)} ./mine.py"
    return Registry([builtin_plugin()]).agent("command")(AgentSettings(target=target, folder=folder))


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory):
    """Builds agents that catch everything, whose child processes serve one test after another."""
    scope, folder = RunScope(concurrency=2), tmp_path_factory.mktemp("standing")
    (folder / "function.py").write_text(textwrap.dedent(FUNCTION))
    (folder / "coroutine.py").write_text(textwrap.dedent(COROUTINE))

    def build(form: str) -> Agent:
        settings = AgentSettings(target=f"./{form}.py:agent", folder=folder, run=scope)
        return Registry([builtin_plugin()]).agent("python")(settings)

    yield build
    asyncio.run(scope.close())


@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("form", ["function", "coroutine"])
async def test_a_python_agent_that_catches_it_does_not_hide_it(run, standing, form, broken):
    record = await run(standing(form), **BREAKS[broken])
    assert record.judged.verdict is Verdict.ERROR
    assert "s.get" in record.judged.reason or "service 's'" in record.judged.reason


@pytest.mark.parametrize("broken", BREAKS)
async def test_nor_does_a_command(run, tmp_path, broken):
    record = await run(command(tmp_path), **BREAKS[broken])
    assert record.judged.verdict is Verdict.ERROR


@pytest.mark.parametrize("broken", BREAKS)
async def test_nor_does_a_plugin_of_the_built_in_agent(run, tmp_path, broken):
    async def look(params: dict[str, Any], context: Any) -> str:
        try:
            return str(await context.get_service("s").get("x"))
        except BaseException:  # noqa: BLE001 - a plugin that hides everything
            return "sorry"

    async with ModelServer(_look_then_reply) as server:
        model = OpenAIModel(ModelSettings(name="m", folder=tmp_path, options={"base_url": server.base_url}))
        agent = Registry([builtin_plugin()]).agent("runtime")(AgentSettings(model=model, folder=tmp_path))
        record = await run(agent, actions={"LOOK": Action(name="LOOK", handler=look, plugin="p")}, **BREAKS[broken])
        await model.close()
    assert record.judged.verdict is Verdict.ERROR


def _look_then_reply(request):
    if request.body["messages"][-1]["role"] == "user":
        return Answer(tool_calls=(ToolCall(id="1", name="LOOK"),))
    return Answer(text="sorry")


@pytest.mark.parametrize("source", [IN_OPEN, IN_CLOSE, OWN_ERROR], ids=["in open", "in close", "as its own error"])
async def test_wherever_the_agent_called_it(run, tmp_path, source):
    record = await run(python(tmp_path, source), **BREAKS["a responseFn that throws"])
    assert record.judged.verdict is Verdict.ERROR
    assert [phase.error is not None for phase in record.phases].count(True) == 1
    assert "responseFn of the mock of s.get" in record.judged.reason


async def test_giving_up_on_a_mock_that_never_answers_does_not_hide_it(run, tmp_path):
    record = await run(python(tmp_path, IMPATIENT), **BREAKS["a responseFn that never ends"])
    assert record.judged.verdict is Verdict.ERROR
    assert "responseFn of the mock of s.get" in record.judged.reason


@pytest.mark.parametrize("kind", ["step", "turn", "conversation"])
async def test_a_broken_mock_is_blamed_before_the_time_that_ran_out_on_it(run, tmp_path, kind):
    said = (Message(role="user", content="hi"),)
    config = ConversationConfig(
        max_turns=1,
        script=(ScriptedTurn(say="bye"),),
        **({"timeout_per_turn_ms": 300} if kind == "turn" else {"total_timeout_ms": 300}),
    )
    task = Ask(messages=said) if kind == "step" else Converse(opening=said, config=config)
    limited = Step(index=0, name="one", place=PLACE, task=task, timeout_ms=300 if kind == "step" else None)
    record = await run(python(tmp_path, SLOW_AFTERWARDS), step=limited, **BREAKS["a responseFn that throws"])
    assert record.judged.verdict is Verdict.ERROR
    assert "responseFn of the mock of s.get" in record.judged.reason


async def test_it_is_an_error_whatever_the_strategy(run, standing):
    record = await run(standing("function"), strategy="any_pass", **BREAKS["a matcher that throws"])
    assert record.judged.verdict is Verdict.ERROR


async def test_a_simulated_failure_and_arguments_that_do_not_fit_are_the_agents_to_deal_with(run, standing):
    class Picky:
        def get(self) -> str:
            return "never called like this"

    class Refuses:
        def get(self, place: str) -> str:
            raise ServiceFault("closed")

    for service in (Picky, Refuses):
        record = await run(standing("function"), services={"s": ProvidedService(build=service, plugin="p")})
        assert record.judged.verdict is Verdict.PASSED, record.judged.reason
