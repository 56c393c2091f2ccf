"""What every agent must do. To apply it to another one, add a function that provides it to `KINDS`.

Each kind is told to answer "first" with "heard: first" and so on; how it remembers the exchange is up to it. "hang"
never answers and "break" fails. With `acts`, it reports the action `look` when told to "look". Told to "refund", it
does everything it can: the action `refund`, a call of `orders.refund`, the file `out.txt`, a row in `done`.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shlex
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace

from steadyhand.builtin.agents.model import ModelAgent
from steadyhand.builtin.agents.runtime import RuntimeAgent
from steadyhand.builtin.agents.toolbox import WORKSPACE_TOOLS
from steadyhand.builtin.models.openai import OpenAIModel
from steadyhand.compose.scenarios import build_registry
from steadyhand.engine.trial import run_trial
from steadyhand.errors import AgentError, ModelError
from steadyhand.plugins.plugin import AgentSettings, ModelSettings, RunScope
from steadyhand.ports.agent import Agent, AgentFacts, Reply, Shows, Turn, Visible, agent_facts, shows_of
from steadyhand.records.chat import ToolCall
from steadyhand.records.evaluation import EvaluationSpec, Verdict
from steadyhand.records.event import VISIBLE, ActionTaken, ModelCalled
from steadyhand.records.run import TrialRecord
from steadyhand.records.scenario import RunCode, Step
from steadyhand.testing import Answer, ModelServer, ScriptedAgent, Served
from support.agents import a_trial, an_agent, refund_trial, turn
from support.elizaos_server import ElizaosAction, ElizaosAnswer, ElizaosServer
from support.late import Late
from support.trial import HERE, a_scenario

if TYPE_CHECKING:
    from support.a2a_server import Heard

pytestmark = pytest.mark.usefixtures("forked_agents")

a2a_agents = Late("support.a2a_server")

Open = Callable[[Path], AbstractAsyncContextManager[Callable[..., Agent]]]


@dataclass(frozen=True)
class Kind:
    """`given` opens what the agent needs and returns a function that builds one.

    With `shares`, the function takes what the agents of a run share, so that one child process serves many tests.
    """

    given: Open
    acts: bool = True
    shares: bool = False


INSERT = "INSERT INTO done VALUES (17)"


def _heard(said: list[str]) -> str:
    return "heard: " + ", ".join(said)


def _serve(request: Served) -> Answer:
    messages = request.body["messages"]
    said = [message["content"] for message in messages if message["role"] == "user"]
    if said[-1] == "hang":
        return Answer(fault="hang")
    if said[-1] == "break":
        return Answer(body=b"<html>oops</html>")
    if request.body.get("tools") and messages[-1]["role"] == "user":
        if said[-1] == "look":
            return Answer(tool_calls=(ToolCall(id="1", name="list_files"),))
        if said[-1] == "refund":
            return Answer(
                tool_calls=(
                    ToolCall(id="1", name="orders_refund", arguments={"id": 17}),
                    ToolCall(id="2", name="write_file", arguments={"path": "out.txt", "content": "refunded"}),
                    ToolCall(id="3", name="database_execute", arguments={"sql": INSERT}),
                )
            )
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
        actions = (ElizaosAction(name=said[-1]),) if said[-1] in ("look", "refund") else ()
        return ElizaosAnswer(text=_heard(said), hang=said[-1] == "hang", actions=actions)

    async with ElizaosServer(say) as server:
        yield lambda: an_agent(f"elizaos:{server.url}", folder)


@asynccontextmanager
async def _a2a(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
    contexts: dict[str, list[str]] = {}

    async def work(heard: Heard) -> None:
        said = contexts.setdefault(heard.context_id, [])
        said.append(heard.text)
        await heard.begin()
        if heard.text == "hang":
            await asyncio.Event().wait()
        if heard.text == "break":
            await heard.updater.failed(heard.message("oops"))
            return
        await heard.updater.complete(heard.message(_heard(said)))

    async with a2a_agents.a2a_server(work) as server:
        yield lambda: an_agent(f"a2a:{server.url}", folder)


PYTHON_FUNCTION = """
    import threading
    def agent(messages, action, get_service, workspace):
        said = [message.content for message in messages if message.role == "user"]
        if said[-1] == "hang": threading.Event().wait(30)
        if said[-1] == "break": raise ValueError("oops")
        if said[-1] == "look": action("look", {})
        if said[-1] == "refund":
            action("refund", {"id": 17}, get_service("orders").refund(id=17))
            (workspace / "out.txt").write_text("refunded")
            get_service("database").execute(sql=INSERT)
        return "heard: " + ", ".join(said)
    """
PYTHON_COROUTINE = """
    import asyncio
    async def agent(messages, action, get_service, environment):
        said = [message.content for message in messages if message.role == "user"]
        if said[-1] == "hang": await asyncio.Event().wait()
        if said[-1] == "break": raise ValueError("oops")
        if said[-1] == "look": await action("look", {})
        if said[-1] == "refund":
            await action("refund", {"id": 17}, await get_service("orders").refund(id=17))
            await environment.write("out.txt", b"refunded")
            await get_service("database").execute(sql=INSERT)
        return "heard: " + ", ".join(said)
    """
PYTHON_STREAM = """
    import asyncio
    async def agent(messages, action, services, workspace):
        said = [message.content for message in messages if message.role == "user"]
        if said[-1] == "look": await action("look", {})
        if said[-1] == "refund":
            await action("refund", {"id": 17}, await services.call("orders", "refund", [], {"id": 17}))
            (workspace / "out.txt").write_text("refunded")
            await services.call("database", "execute", [], {"sql": INSERT})
        yield "heard: "
        if said[-1] == "hang": await asyncio.Event().wait()
        if said[-1] == "break": raise ValueError("oops")
        yield ", ".join(said)
    """
PYTHON_CLASS = """
    import asyncio
    class agent:
        async def open(self, get_service, workspace):
            self.said, self.get_service, self.workspace = [], get_service, workspace
        async def respond(self, message, action):
            self.said.append(message)
            if message == "hang": await asyncio.Event().wait()
            if message == "break": raise ValueError("oops")
            if message == "look": await action("look", {})
            if message == "refund":
                await action("refund", {"id": 17}, await self.get_service("orders").refund(id=17))
                (self.workspace / "out.txt").write_text("refunded")
                await self.get_service("database").execute(sql=INSERT)
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
        if said[-1] == "refund":
            print(json.dumps({"type": "action", "name": "refund", "params": {"id": 17}}))
            open("out.txt", "w").write("refunded")
            for service, method, params in (("orders", "refund", {"id": 17}), ("database", "execute", {"sql": INSERT})):
                line = {"type": "call", "service": service, "method": method, "params": params}
                print(json.dumps(line), flush=True)
                assert json.loads(sys.stdin.readline())["type"] == "result"
        print(json.dumps({"type": "reply", "text": "heard: " + ", ".join(said)}), flush=True)
    """


def _in_file(source: str, kind: str, **options: Any) -> Open:
    @asynccontextmanager
    async def given(folder: Path) -> AsyncIterator[Callable[..., Agent]]:
        (folder / "mine.py").write_text(f"INSERT = {INSERT!r}\n{textwrap.dedent(source)}")
        variables = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        yield functools.partial(an_agent, kind, folder, variables=variables, options=options)

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
        if said[-1] == "refund":
            trial.emit(ActionTaken(at_ms=trial.elapsed_ms(), id="1", name="refund"))
            await trial.services.call("orders", "refund", [], {"id": 17})
            await trial.environment.write("out.txt", b"refunded")
            await trial.services.call("database", "execute", [], {"sql": INSERT})
        return Reply(text=_heard(said))

    yield lambda: ScriptedAgent(say)


class Undeclared:
    """A third party's agent that follows the port but does not say what it shows."""

    name = "undeclared"

    def __init__(self, agent: ScriptedAgent) -> None:
        self.open, self.respond, self.close = agent.open, agent.respond, agent.close


@asynccontextmanager
async def _undeclared(folder: Path) -> AsyncIterator[Callable[[], Agent]]:
    async with _scripted(folder) as build:
        yield lambda: Undeclared(build())


KINDS: dict[str, Kind] = {
    "model": Kind(_model, acts=False),
    "runtime": Kind(_runtime),
    "python function": Kind(_in_file(PYTHON_FUNCTION, "python:./mine.py:agent"), shares=True),
    "python coroutine": Kind(_in_file(PYTHON_COROUTINE, "python:./mine.py:agent"), shares=True),
    "python generator": Kind(_in_file(PYTHON_STREAM, "python:./mine.py:agent"), shares=True),
    "python class": Kind(_in_file(PYTHON_CLASS, "python:./mine.py:agent"), shares=True),
    **{
        f"python {form}, in process": Kind(_in_file(source, "python:./mine.py:agent", in_process=True))
        for form, source in (
            ("function", PYTHON_FUNCTION),
            ("coroutine", PYTHON_COROUTINE),
            ("generator", PYTHON_STREAM),
            ("class", PYTHON_CLASS),
        )
    },
    "http": Kind(_http, acts=False),
    "command": Kind(_in_file(PROGRAM, f"command:{shlex.quote(sys.executable)} ./mine.py")),
    "elizaos": Kind(_elizaos),
    "a2a": Kind(_a2a, acts=False),
    "scripted": Kind(_scripted),
    "undeclared": Kind(_undeclared),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def run() -> Iterator[RunScope]:
    scope = RunScope(concurrency=len(KINDS))
    yield scope
    asyncio.run(scope.close())


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[Open, Path]:
    """The folder of the agents that share a child: the child knows them by it."""
    return {each.given: tmp_path_factory.mktemp("home") for each in KINDS.values() if each.shares}


@pytest.fixture
async def build(
    kind: Kind, tmp_path: Path, homes: dict[Open, Path], run: RunScope
) -> AsyncIterator[Callable[[], Agent]]:
    async with kind.given(homes.get(kind.given, tmp_path)) as build:
        yield functools.partial(build, run=run) if kind.shares else build


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
    assert left <= {"ServerConnection._serve"}, "only the server we asked may still be at it"


async def test_the_next_turn_is_not_answered_with_the_one_that_was_cancelled(build, trial):
    agent = build()
    await agent.open(trial)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await agent.respond(turn("hang", deadline=trial.clock.now() + 0.2))
    reply = await agent.respond(turn("hang", "", "again"))
    assert "again" in reply.text
    await agent.close()


ROWS = "SELECT id FROM done"
DONE_OR_NOT: list[tuple[Visible, dict[str, Any], dict[str, Any]]] = [
    (
        "actions",
        {"type": "trajectory_contains_action", "action": "refund"},
        {"type": "trajectory_contains_action", "action": "refund", "max_count": 0},
    ),
    (
        "actions",
        {"type": "sequence", "rules": [{"always": "refund"}]},
        {"type": "sequence", "rules": [{"never": "refund"}]},
    ),
    (
        "services",
        {"type": "service_called", "service": "orders"},
        {"type": "service_called", "service": "orders", "max_count": 0},
    ),
    (
        "files",
        {"type": "file_exists", "path": "out.txt"},
        {"type": "command_exit_code_is", "command": "test ! -e out.txt"},
    ),
    (
        "files",
        {"type": "file_contains", "path": "out.txt", "value": "refunded"},
        {"type": "command_exit_code_is", "command": "test -e out.txt", "expected_code": 1},
    ),
    (
        "database",
        {"type": "database_query", "query": ROWS, "min_rows": 1},
        {"type": "database_query", "query": ROWS, "max_rows": 0},
    ),
]
"""What is read, a check that it was done, and a check that it was not."""


async def _tried(build: Callable[[], Agent], folder: Path, said: str) -> TrialRecord:
    """A whole trial in which the agent is told this, with mocks, a workspace, a database and all the checks."""
    specs = [
        EvaluationSpec(type=check["type"], place=HERE, params={key: check[key] for key in check if key != "type"})
        for _, *pair in DONE_OR_NOT
        for check in pair
    ]
    return await refund_trial(build(), folder, specs, said)


@pytest.mark.parametrize("done", [True, False])
async def test_it_shows_what_it_declares_and_a_check_on_the_rest_is_inconclusive(build, tmp_path, done):
    shows = shows_of(build())
    if shows.on_report and shows.actions == "self_reported" and not done:
        shows = msgspec.structs.replace(shows, actions="not_seen")
    record = await _tried(build, tmp_path, "refund" if done else "stay")
    found = iter(record.evaluations)
    decided = (Verdict.PASSED, Verdict.FAILED) if done else (Verdict.FAILED, Verdict.PASSED)
    assert len(record.evaluations) == 2 * len(DONE_OR_NOT)
    for what, *_ in DONE_OR_NOT:
        positive, negative = next(found), next(found)
        verdicts = (positive.verdict, negative.verdict)
        if shows.of(what) == "not_seen":
            assert verdicts == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE), (what, positive.message, negative.message)
            assert positive.figures == negative.figures == {"not_seen": [what]}
            assert shows.advice in positive.message
        else:
            assert verdicts == decided, (what, positive.message, negative.message)
        told = (what,) if shows.of(what) == "self_reported" else ()
        assert (positive.self_reported, negative.self_reported) == (told, told)
    assert (record.shows, record.judged.verdict is Verdict.PASSED) == (shows, False)


@pytest.mark.parametrize("name", ["model", "runtime"])
async def test_model_calls_that_are_seen_are_recorded(name, tmp_path):
    async with KINDS[name].given(tmp_path) as build:
        assert shows_of(build()).model_calls == "seen"
        record = await _tried(build, tmp_path, "stay")
    assert [event.purpose for event in record.events if isinstance(event, ModelCalled)] == ["agent"]


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("model", "not_seen not_seen not_seen not_seen seen"),
        ("runtime", "seen seen seen seen seen"),
        ("python function", "self_reported seen seen seen not_seen"),
        ("command", "self_reported seen seen seen not_seen"),
        ("http", "not_seen not_seen not_seen not_seen not_seen"),
        ("elizaos", "seen not_seen not_seen not_seen not_seen"),
        ("undeclared", "not_seen not_seen not_seen not_seen not_seen"),
    ],
)
async def test_what_each_kind_declares(name, declared, tmp_path):
    async with KINDS[name].given(tmp_path) as build:
        shows = shows_of(build())
    assert [shows.of(what) for what in VISIBLE] == declared.split()


async def test_the_workspace_of_a_code_step_is_seen_whoever_the_agent_is(tmp_path):
    spec = EvaluationSpec(type="file_exists", place=HERE, params={"path": "out.txt"})
    step = Step(index=0, name="one", place=HERE, task=RunCode(code="touch out.txt"), evaluations=(spec,))
    agent = ScriptedAgent(["never asked"], shows=Shows())
    record = await run_trial(a_trial(tmp_path, scenario=replace(a_scenario(), steps=(step,)), agent=agent).parts)
    assert record.judged.verdict is Verdict.PASSED


async def test_one_that_declares_to_close_at_once_waits_for_nothing(build, trial):
    agent = build()
    await agent.open(trial)
    await agent.respond(turn("hello"))
    declared = agent_facts(agent).closes_at_once
    assert isinstance(declared, bool)
    if not declared:
        await agent.close()
        return
    with pytest.raises(StopIteration):
        agent.close().send(None)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("model", {"closes_at_once": True, "asks_model": "once"}),
        ("runtime", {"asks_model": "repeatedly", "own_tools": WORKSPACE_TOOLS}),
        ("python", {"uses_gateway": True, "names_python": True}),
        ("command", {"uses_gateway": True}),
        (
            "http",
            {
                "uses_network": True,
                "uses_gateway": True,
                "runs_target": False,
                "key_variable": "STEADYHAND_AGENT_KEY",
            },
        ),
        (
            "elizaos",
            {
                "uses_plugins": False,
                "uses_network": True,
                "uses_gateway": True,
                "runs_target": False,
                "key_variable": "ELIZA_SERVER_AUTH_TOKEN",
            },
        ),
    ],
)
def test_what_each_factory_declares(name, facts):
    found = agent_facts(build_registry().agent(name))
    assert found._replace(shows=Shows()) == AgentFacts(**facts)


def test_every_agent_is_held_to_it():
    registered = set(build_registry().names("agents"))
    assert registered <= {name.partition(" ")[0] for name in KINDS}


def test_an_agent_that_declares_nothing_gets_the_defaults():
    assert agent_facts(object()) == AgentFacts()
