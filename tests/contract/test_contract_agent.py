"""What every agent must do. To hold another one to it, add a function that gives it to `KINDS`.

Each kind is told to answer "first" with "heard: first" and so on: its own way to remember the exchange is its affair.
"hang" never answers and "break" fails. With `acts`, it reports the action `look` when it is told to "look".
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.builtin.agents.model import ModelAgent
from holdfast.builtin.agents.runtime import RuntimeAgent
from holdfast.builtin.models.openai import OpenAIModel
from holdfast.errors import AgentError, ModelError
from holdfast.plugins.factories import AgentSettings, ModelSettings
from holdfast.ports.agent import Agent, Reply, Turn
from holdfast.records.event import ActionTaken
from holdfast.records.message import ToolCall
from holdfast.testing import Answer, ElizaosAnswer, ElizaosServer, ModelServer, ScriptedAgent, Served
from holdfast.testing.elizaos_server import ElizaosAction
from unit.builtin_agents.agent_support import a_trial, an_agent, turn

Open = Callable[[Path], AbstractAsyncContextManager[Callable[[], Agent]]]


@dataclass(frozen=True)
class Kind:
    """`given` opens what the agent needs and gives a function that builds one."""

    given: Open
    acts: bool = True


def _heard(said: list[str]) -> str:
    return "heard: " + ", ".join(said)


def _serve(request: Served) -> Answer:
    messages = request.body["messages"]
    said = [message["content"] for message in messages if message["role"] == "user"]
    if said[-1] == "hang":
        return Answer(fault="hang")
    if said[-1] == "break":
        return Answer(body=b"<html>oops</html>")
    if said[-1] == "look" and request.body.get("tools") and messages[-1]["role"] == "user":
        return Answer(tool_calls=(ToolCall(id="1", name="list_files"),))
    return Answer(text=_heard(said))


@asynccontextmanager
async def _model(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
    async with _served(folder) as model:
        yield lambda: ModelAgent(AgentSettings(model=model, folder=folder))


@asynccontextmanager
async def _runtime(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
    async with _served(folder) as model:
        yield lambda: RuntimeAgent(AgentSettings(model=model, folder=folder))


@asynccontextmanager
async def _served(folder: Path) -> AsyncIterator[OpenAIModel]:
    async with ModelServer(_serve) as server:
        model = OpenAIModel(ModelSettings(name="m", folder=folder, options={"base_url": server.base_url}))
        try:
            yield model
        finally:
            await model.close()


@asynccontextmanager
async def _http(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
    async with ModelServer(_serve) as server:
        yield lambda: an_agent(f"http:{server.base_url}", folder)


@asynccontextmanager
async def _elizaos(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
    def say(said: list[str]) -> ElizaosAnswer:
        if said[-1] == "break":
            return ElizaosAnswer(status=500, text="oops")
        actions = (ElizaosAction(name="look"),) if said[-1] == "look" else ()
        return ElizaosAnswer(text=_heard(said), hang=said[-1] == "hang", actions=actions)

    async with ElizaosServer(say) as server:
        yield lambda: an_agent(f"elizaos:{server.url}", folder)


PYTHON_FUNCTION = """
    import threading
    def agent(messages, action):
        said = [message.content for message in messages if message.role == "user"]
        if said[-1] == "hang": threading.Event().wait(30)
        if said[-1] == "break": raise ValueError("oops")
        if said[-1] == "look": action("look", {})
        return "heard: " + ", ".join(said)
    """
PYTHON_COROUTINE = """
    import asyncio
    async def agent(messages, action):
        said = [message.content for message in messages if message.role == "user"]
        if said[-1] == "hang": await asyncio.Event().wait()
        if said[-1] == "break": raise ValueError("oops")
        if said[-1] == "look": await action("look", {})
        return "heard: " + ", ".join(said)
    """
PYTHON_STREAM = """
    import asyncio
    async def agent(messages, action):
        said = [message.content for message in messages if message.role == "user"]
        if said[-1] == "look": await action("look", {})
        yield "heard: "
        if said[-1] == "hang": await asyncio.Event().wait()
        if said[-1] == "break": raise ValueError("oops")
        yield ", ".join(said)
    """
PYTHON_CLASS = """
    import asyncio
    class agent:
        async def open(self): self.said = []
        async def respond(self, message, action):
            self.said.append(message)
            if message == "hang": await asyncio.Event().wait()
            if message == "break": raise ValueError("oops")
            if message == "look": await action("look", {})
            return "heard: " + ", ".join(self.said)
        async def close(self): del self.said
    """
PROGRAM = """
    import json, sys, time
    for line in sys.stdin:
        said = [message["content"] for message in json.loads(line)["messages"] if message["role"] == "user"]
        if said[-1] == "hang": time.sleep(600)
        if said[-1] == "break": sys.exit("oops")
        if said[-1] == "look": print(json.dumps({"type": "action", "name": "look"}))
        print(json.dumps({"type": "reply", "text": "heard: " + ", ".join(said)}), flush=True)
    """


def _in_file(source: str, kind: str) -> Open:
    @asynccontextmanager
    async def given(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
        (folder / "mine.py").write_text(textwrap.dedent(source))
        yield lambda: an_agent(kind, folder, variables=dict(os.environ))

    return given


@asynccontextmanager
async def _scripted(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
    async def say(asked: Turn, trial) -> Reply:
        said = [message.content for message in asked.messages if message.role == "user"]
        if said[-1] == "hang":
            await asyncio.Event().wait()
        if said[-1] == "break":
            raise AgentError("oops")
        if said[-1] == "look":
            trial.emit(ActionTaken(at_ms=trial.elapsed_ms(), id="1", name="look"))
        return Reply(text=_heard(said))

    yield lambda: ScriptedAgent(say)


KINDS: dict[str, Kind] = {
    "model": Kind(_model, acts=False),
    "runtime": Kind(_runtime),
    "python function": Kind(_in_file(PYTHON_FUNCTION, "python:./mine.py:agent")),
    "python coroutine": Kind(_in_file(PYTHON_COROUTINE, "python:./mine.py:agent")),
    "python generator": Kind(_in_file(PYTHON_STREAM, "python:./mine.py:agent")),
    "python class": Kind(_in_file(PYTHON_CLASS, "python:./mine.py:agent")),
    "http": Kind(_http, acts=False),
    "command": Kind(_in_file(PROGRAM, f"command:{shlex.quote(sys.executable)} ./mine.py")),
    "elizaos": Kind(_elizaos),
    "scripted": Kind(_scripted),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
async def build(kind: Kind, tmp_path: Path) -> AsyncIterator[Callable[[], Agent]]:
    async with kind.given(tmp_path) as build:
        yield build


@pytest.fixture
async def trial(tmp_path: Path):
    made = a_trial(tmp_path)
    await made.environment.setup([])
    yield made
    await made.environment.teardown()


async def test_has_a_name_before_it_is_opened(build):
    assert build().name


async def test_it_remembers_the_exchange(build, trial):
    agent = build()
    await agent.open(trial)
    first = await agent.respond(turn("one"))
    assert first.text == "heard: one"
    assert (await agent.respond(turn("one", first.text, "two"))).text == "heard: one, two"
    await agent.close()


async def test_trials_do_not_hear_each_other(build, trial, tmp_path):
    one, other, beside = build(), build(), a_trial(tmp_path)
    await one.open(trial)
    await other.open(beside)
    await one.respond(turn("one"))
    assert (await other.respond(turn("other"))).text == "heard: other"
    await one.close()
    assert (await other.respond(turn("other", "heard: other", "more"))).text == "heard: other, more"
    await other.close()
    await beside.environment.teardown()


async def test_it_is_closed_twice_and_unopened(build, trial):
    unopened = build()
    await unopened.close()
    await unopened.close()
    agent = build()
    await agent.open(trial)
    await agent.close()
    await agent.close()


async def test_what_it_does_is_reported_where_the_kind_can(build, kind, trial):
    agent = build()
    await agent.open(trial)
    assert (await agent.respond(turn("look"))).text == "heard: look"
    await agent.close()
    assert len([event for event in trial.events if isinstance(event, ActionTaken)]) == (1 if kind.acts else 0)


async def test_a_failure_is_an_error_of_the_agent_or_its_model(build, trial):
    agent = build()
    await agent.open(trial)
    with pytest.raises((AgentError, ModelError), match=r"."):
        await agent.respond(turn("break"))
    await agent.close()


async def test_a_cancelled_turn_leaves_nothing_behind(build, trial):
    agent = build()
    await agent.open(trial)
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await agent.respond(turn("hang", deadline=trial.clock.now() + 0.2))
    await agent.close()
    await asyncio.sleep(0)
    left = {task.get_coro().__qualname__ for task in asyncio.all_tasks() - before}
    assert left <= {"Connection._serve"}, "only the server we asked may still be at it"


async def test_the_next_turn_is_not_answered_with_the_one_that_was_cancelled(build, trial):
    agent = build()
    await agent.open(trial)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await agent.respond(turn("hang", deadline=trial.clock.now() + 0.2))
    reply = await agent.respond(turn("hang", "", "again"))
    assert "again" in reply.text
    await agent.close()
