from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path

import pytest

from steadyhand.errors import AgentError, ModelError, SetupError
from steadyhand.plugins.plugin import RunScope
from steadyhand.records.event import ActionTaken, ModelCalled, Noted, Observed, ServiceCalled, Thought
from steadyhand.records.scenario import Mock, MockWhen
from steadyhand.runtime.runtime import AgentRuntime
from support.agents import a_trial, an_agent, turn
from support.trial import HERE, ListedMocks

pytestmark = pytest.mark.usefixtures("forked_agents")


@pytest.fixture
def written(tmp_path: Path):
    def write(source: str, name: str = "mine.py") -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(source))
        return file

    return write


@pytest.fixture(params=[False, True], ids=["child", "in process"])
def in_process(request: pytest.FixtureRequest) -> bool:
    """Both ways of running it."""
    return request.param


async def answer(tmp_path: Path, asked=None, target: str = "./mine.py:agent", trial=None, run=None, **options):
    """The reply to one turn, and the trial it was given in."""
    agent = an_agent(f"python:{target}", tmp_path, options=options, run=run)
    trial = trial or a_trial(tmp_path)
    try:
        await agent.open(trial)
        return (await agent.respond(asked or turn("hi"))).text, trial
    finally:
        await agent.close()
        await trial.environment.teardown()


WRONG: list[tuple[str, str, str, str]] = [
    ("called", "def", "raise ValueError('broken')", "mine.py:{line}: ValueError: broken"),
    ("awaited", "async def", "raise ValueError('broken')", "mine.py:{line}: ValueError: broken"),
    ("streamed", "async def", "yield 'x'; raise ValueError('broken')", "mine.py:{line}: ValueError: broken"),
    ("called", "def", "import json; json.loads('{')", "mine.py:{line}: JSONDecodeError"),
    ("called", "def", "raise SystemExit(3)", "mine.py:{line}: SystemExit: 3"),
    ("awaited", "async def", "raise SystemExit(3)", "mine.py:{line}: SystemExit: 3"),
    ("called", "def", "raise StopIteration", "StopIteration"),
    ("awaited", "async def", "raise TimeoutError('own')", "mine.py:{line}: TimeoutError: own"),
    ("awaited", "async def", "import asyncio; raise asyncio.CancelledError", "mine.py:{line}: CancelledError"),
    ("called", "def", "pass", "returned None"),
    ("called", "def", "return 3", "returned a int; expected a text"),
    ("called", "def", "return b'x'", "returned a bytes"),
    ("called", "def", "return {'answer': 'x'}", "without a text .*its keys: answer"),
    ("streamed", "async def", "yield 3", "yielded a int"),
]
"""The agent that calls it, the form and the body of a function, and what is said of it."""
HOLDS = ["time.sleep(600)", "while True: pass", "threading.Event().wait()", "os.read(os.pipe()[0], 1)"]
TELLS = """
import os, threading, time
def called(message): return globals()[message]()
async def awaited(message): return await globals()[message]()
async def streamed(message):
    async for piece in globals()[message](): yield piece
from steadyhand.records.chat import Message, ToolCall
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}
RETURNED = {
    "a text": "hello",
    "a dict": {"text": "hello"},
    "a dict with a place for calls": {"text": "hello", "tool_calls": []},
    "a dict with calls": {"text": "hello", "tool_calls": [{"name": "f", "arguments": {}}]},
    "the last message": {"role": "assistant", "content": "hello", "tool_calls": None},
    "the messages": [CALL, {"role": "tool", "tool_call_id": "1"}, {"role": "assistant", "content": "hello"}],
    "only the reply in a list": [{"role": "assistant", "content": "hello"}],
}
def agent(message): return RETURNED[message]
def reporting(message, action): return RETURNED[message]
def evaluated(message): return eval(message)
"""


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory):
    """The folder of agents whose child process serves one test after another, and the run it belongs to."""
    folder = tmp_path_factory.mktemp("standing")
    wrong = [f"{form} wrong_{number}(): {body}" for number, (_, form, body, _) in enumerate(WRONG, 1)]
    holds = [
        f"async def {name}_{number}():\n    {held}\n    {end} 'x'"
        for number, held in enumerate(HOLDS)
        for name, end in (("awaited", "return"), ("streamed", "yield"))
    ]
    (folder / "mine.py").write_text("\n".join([*wrong, *holds]) + TELLS)
    run = RunScope(concurrency=5)
    yield folder, run
    asyncio.run(run.close())


@pytest.mark.parametrize(
    "source",
    [
        "def agent(message): return 'you said ' + message",
        "async def agent(input): return 'you said ' + input",
        "agent = lambda text: 'you said ' + text",
        "def agent(messages, /): return {'content': 'you said ' + messages[-1].content}",
        (
            "import functools\ndef _a(prefix, message): return prefix + message\n"
            "agent = functools.partial(_a, 'you said ')"
        ),
        "from steadyhand.ports.agent import Reply\ndef agent(text): return Reply(text='you said ' + text)",
        (
            "from steadyhand.records.chat import Message\n"
            "def agent(text): return Message(role='assistant', content='you said ' + text)"
        ),
        "async def agent(message):\n    yield 'you '\n    yield 'said '\n    yield message",
        "class agent:\n    def respond(self, message): return 'you said ' + message",
        (
            "class agent:\n    async def open(self): self.start = 'you said '\n"
            "    async def respond(self, message): return self.start + message\n    async def close(self): pass"
        ),
        "class agent:\n    async def respond(self, message):\n        yield 'you said '\n        yield message",
        "class _A:\n    async def __call__(self, message): return 'you said ' + message\nagent = _A()",
    ],
)
async def test_every_form_of_agent_answers(tmp_path, in_process, written, source):
    written(source)
    assert (await answer(tmp_path, in_process=in_process))[0] == "you said hi"


async def test_the_trial_is_offered_by_name(tmp_path, in_process, written):
    written("""
        import json
        async def agent(message, messages, turn, workspace, services, get_service, seed, deadline, remaining, emit,
                        action, thought, environment, trial, other="default"):
            (workspace / "made.txt").write_text("by the agent")
            await action("write_file", {"path": "made.txt"}, {"ok": True})
            await thought("so far so good")
            kept = (await environment.read("made.txt")).decode()
            return json.dumps([message, len(messages), turn.number, seed, remaining > 1e9, trial.seed, other, kept])
        """)
    text, trial = await answer(tmp_path, turn("one", "two", "three"), in_process=in_process)
    assert text == '["three", 3, 2, 7, true, 7, "default", "by the agent"]'
    (taken,), (observed,) = ([e for e in trial.events if isinstance(e, kind)] for kind in (ActionTaken, Observed))
    assert (taken.name, taken.params, taken.status) == ("write_file", {"path": "made.txt"}, "success")
    assert (observed.action_id, observed.content) == (taken.id, {"ok": True})
    assert [event.text for event in trial.events if isinstance(event, Thought)] == ["so far so good"]


async def test_remaining_counts_down_to_the_deadline(tmp_path, in_process, written):
    written("def agent(remaining, deadline): return f'{remaining:.0f} {deadline is not None}'")
    trial = a_trial(tmp_path)
    asked = turn("hi", deadline=trial.clock.now() + 100)
    text, _ = await answer(tmp_path, asked, trial=trial, in_process=in_process)
    assert text in ("100 True", "99 True")


@pytest.mark.parametrize("word", ["async ", ""])
async def test_a_service_is_called_from_a_coroutine_and_from_a_plain_function(tmp_path, in_process, written, word):
    await_ = "await " if word else ""
    written(f"""
        {word}def agent(get_service, services, environment, trial, action):
            issues = {await_}get_service("github").listIssues(repo="acme/site")
            again = {await_}services.call("github", "listIssues", [], {{"repo": "acme/site"}})
            {await_}environment.write("issues.txt", issues[0].encode())
            action("list_issues", {{"repo": "acme/site"}}, issues)
            return issues[0] + again[0] + ({await_}trial.environment.read("issues.txt")).decode()
        """)
    mocks = ListedMocks([Mock(place=HERE, service="github", method="listIssues", when=MockWhen(), response=["blank"])])
    services = AgentRuntime(mocks=mocks, actions={}, services={})
    trial = a_trial(tmp_path, services=services)
    await services.open(trial)
    assert (await answer(tmp_path, trial=trial, in_process=in_process))[0] == "blank" * 3
    assert [event.method for event in trial.events if isinstance(event, ServiceCalled)] == ["listIssues"] * 2
    assert [event.name for event in trial.events if isinstance(event, ActionTaken)] == ["list_issues"]
    await services.close()


async def test_pieces_are_stamped_as_they_come(tmp_path, in_process, written):
    written("""
        import asyncio
        async def agent(message):
            yield "one "
            await asyncio.sleep(0.03)
            yield "two"
        """)
    text, trial = await answer(tmp_path, in_process=in_process)
    (call,) = [event for event in trial.events if isinstance(event, ModelCalled)]
    (first, one), (second, two) = call.timing.chunks
    assert (text, one, two) == ("one two", 4, 3)
    assert second - first >= 29
    assert call.timing.latency_ms >= second
    assert call.model == "python:./mine.py:agent"


async def test_an_instance_lives_for_one_trial_and_is_closed_once(tmp_path, written):
    written("""
        class agent:
            made = []
            def __init__(self, workspace, seed):
                self.heard, self.log = [], workspace / "log.txt"
                agent.made.append(self)
            def open(self, action): self.action = action; self.log.write_text("opened")
            def respond(self, message):
                self.heard.append(message)
                self.action("listen", {"to": message})
                return " ".join(self.heard)
            def close(self): self.heard.append("closed")
        """)
    agent = an_agent("python:./mine.py:agent", tmp_path, options={"in_process": True})
    trial = a_trial(tmp_path)
    await agent.open(trial)
    assert (await agent.respond(turn("a"))).text == "a"
    assert (await agent.respond(turn("a", "a", "b"))).text == "a b"
    made = agent._target.found.made
    await agent.close()
    await agent.close()
    assert [instance.heard for instance in made] == [["a", "b", "closed"]]
    assert [event.params for event in trial.events if isinstance(event, ActionTaken)] == [{"to": "a"}, {"to": "b"}]
    await trial.environment.teardown()


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        (
            "def agent(question): ...",
            "./mine.py:agent",
            r"unknown required parameter 'question'; supported parameters: message, input, text,",
        ),
        (
            "class agent:\n    def respond(self, q): ...",
            "./mine.py:agent",
            r"agent.respond: unknown required parameter 'q'",
        ),
        ("class agent:\n    def open(self, message): ...\n    def respond(self): ...", "./mine.py:agent", "'message'"),
        ("class agent:\n    def __init__(self, model): ...\n    def respond(self): ...", "./mine.py:agent", "'model'"),
        ("class agent:\n    pass", "./mine.py:agent", "a class without a `respond` method"),
        ("agent = 3", "./mine.py:agent", "is a int; expected a function"),
        (
            "class A:\n    def respond(self): ...\nagent = A()",
            "./mine.py:agent",
            "is an instance, which all trials would share",
        ),
        ("class agent:\n    def open(self): yield\n    def respond(self): ...", "./mine.py:agent", "a generator"),
        ("def agnet(): ...", "./mine.py:agent", r"has no 'agent' \(it has: agnet\)"),
        ("x = 1\nraise ValueError('no')", "./mine.py:agent", r"mine.py:2: ValueError: no"),
        ("import nothing_of_the_kind", "./mine.py:agent", "No module named 'nothing_of_the_kind'"),
        ("def agent(:", "./mine.py:agent", "mine.py:1: SyntaxError"),
        ("", "./other.py:agent", "file not found: './other.py'"),
        ("", "no_such_package.inner:agent", "no module named 'no_such_package.inner'"),
        ("", "mine", "expected python:package.module:name"),
        ("", "", "expected python:package.module:name"),
    ],
)
def test_what_cannot_be_an_agent_is_said_before_anything_runs(tmp_path, written, source, target, said):
    written(source)
    with pytest.raises(SetupError, match=said) as raised:
        an_agent(f"python:{target}", tmp_path)
    assert "plugin" not in str(raised.value)


async def test_a_module_beside_the_scenario_and_its_neighbours_are_importable(tmp_path, written):
    written("WORD = 'here'", "one/neighbour_of_mine.py")
    written("from neighbour_of_mine import WORD\ndef agent(): return WORD", "one/beside_it.py")
    written("WORD = 'there'", "two/neighbour_of_mine.py")
    written("from neighbour_of_mine import WORD\ndef agent(): return WORD", "two/beside_it.py")
    assert (await answer(tmp_path / "one", target="beside_it:agent"))[0] == "here"
    assert (await answer(tmp_path / "two", target="beside_it:agent"))[0] == "there"


async def test_a_package_of_the_same_name_elsewhere_is_not_mistaken_and_in_one_process_refused(tmp_path, written):
    for folder in ("one", "two"):
        written("", f"{folder}/steadyhand_twins/__init__.py")
        written(f"def agent(): return {folder!r}", f"{folder}/steadyhand_twins/inner.py")
    target = "steadyhand_twins.inner:agent"
    for folder in ("one", "two"):
        assert (await answer(tmp_path / folder, target=target))[0] == folder
    assert (await answer(tmp_path / "one", target=target, in_process=True))[0] == "one"
    with pytest.raises(SetupError, match=r"already loaded from .*one"):
        an_agent(f"python:{target}", tmp_path / "two", options={"in_process": True})


@pytest.mark.parametrize("line", range(1, len(WRONG) + 1), ids=[" ".join(each[:3]) for each in WRONG])
async def test_what_a_function_does_wrong_is_the_agents_error_with_its_place(tmp_path, in_process, standing, line):
    folder, run = standing
    name, _, _, said = WRONG[line - 1]
    given = {"target": f"./mine.py:{name}", "trial": a_trial(tmp_path), "run": run, "in_process": in_process}
    with pytest.raises(AgentError, match=said.format(line=line)) as raised:
        await answer(folder, turn(f"wrong_{line}"), **given)
    assert f"python:./mine.py:{name}" in str(raised.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class agent:\n    def __init__(self): 1 / 0\n    def respond(self): ...", "__init__: raised .*mine.py:2"),
        ("class agent:\n    async def open(self): 1 / 0\n    def respond(self): ...", "open: raised .*mine.py:2"),
        ("def agent(get_service): get_service('x')", "this trial has no services"),
        ("def agent(action): action('x', 3)", "TypeError"),
    ],
)
async def test_what_goes_wrong_is_the_agents_error_with_its_place(tmp_path, in_process, written, source, said):
    written(source)
    with pytest.raises(AgentError, match=said) as raised:
        await answer(tmp_path, in_process=in_process)
    assert "python:./mine.py:agent" in str(raised.value)


async def test_the_line_is_that_of_the_users_own_code(tmp_path, in_process, written):
    """Not where it called a library, nor where the library called it back."""
    written("def tool(text):\n    raise ValueError('no')", "tools_of_mine.py")
    written("import re\nfrom tools_of_mine import tool\ndef agent():\n    return re.sub('a', tool, 'a')")
    with pytest.raises(AgentError, match=r"raised .*tools_of_mine.py:2: ValueError: no"):
        await answer(tmp_path, in_process=in_process)
    written("import json\ndef agent():\n    return json.loads('{')", "mine.py")
    with pytest.raises(AgentError, match=r"raised .*mine.py:3: JSONDecodeError"):
        await answer(tmp_path, in_process=in_process)


async def test_a_plain_generator_yields_the_reply_too(tmp_path, in_process, written):
    written("def agent(action):\n    yield 'one '\n    action('look')\n    yield 'two'")
    reply, *_ = await answer(tmp_path, in_process=in_process)
    assert reply == "one two"
    written("def agent():\n    yield 'one'\n    yield 2", "mine.py")
    with pytest.raises(AgentError, match="entry 1 of the list it returned is a str"):
        await answer(tmp_path, in_process=in_process)


async def test_a_models_error_stays_one(tmp_path, in_process, written):
    written("from steadyhand.errors import ModelError\nasync def agent(): raise ModelError('down', kind='server')")
    with pytest.raises(ModelError, match="down"):
        await answer(tmp_path, in_process=in_process)


@pytest.mark.parametrize("held", HOLDS)
@pytest.mark.parametrize("name", ["awaited", "streamed"])
async def test_a_coroutine_that_holds_the_loop_is_broken_off_there(tmp_path, in_process, standing, held, name):
    folder, run = standing
    holding = f"{name}_{HOLDS.index(held)}"
    line = (folder / "mine.py").read_text().splitlines().index(f"async def {holding}():") + 2
    given = {"target": f"./mine.py:{name}", "trial": a_trial(tmp_path), "run": run, "in_process": in_process}
    said = rf"blocked the event loop for 0.1 s, at .*mine.py:{line}; await what takes time"
    with pytest.raises(AgentError, match=said):
        await answer(folder, turn(holding), block_limit_s=0.1, **given)
    await asyncio.sleep(0.15)  # the alarm is off


async def test_a_plain_function_may_block_and_the_loop_goes_on(tmp_path, written):
    written("import time\ndef agent():\n    time.sleep(0.2)\n    return 'done'")
    woken = []

    async def tick() -> None:
        while True:
            woken.append(1)
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    assert (await answer(tmp_path, block_limit_s=0.1))[0] == "done"
    ticking.cancel()
    assert len(woken) > 5


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("import time\ndef agent():\n    time.sleep(3)\n    return ''", r"; it was at .*mine.py:3"),
        ("import asyncio\nasync def agent():\n    await asyncio.Event().wait()", ""),
        ("import asyncio\nasync def agent():\n    yield 'x'\n    await asyncio.Event().wait()", ""),
    ],
)
async def test_one_that_never_answers_is_an_error_after_its_limit(tmp_path, in_process, written, source, place):
    written(source)
    with pytest.raises(AgentError, match=f"did not answer within 0.1 s{place}"):
        await answer(tmp_path, timeout_s=0.1, in_process=in_process)


async def test_cancelling_ends_a_coroutine_and_leaves_a_thread_without_a_voice(tmp_path, written):
    written("""
        import asyncio, time, threading
        seen, go = [], threading.Event()
        class agent:
            async def respond(self):
                try:
                    await asyncio.Event().wait()
                finally:
                    seen.append("ended")
        def slow(action):
            action("before")
            go.wait(10)
            action("after")
            seen.append("thread ended")
            return "late"
        """)
    trial = a_trial(tmp_path)
    agent = an_agent("python:./mine.py:agent", tmp_path, options={"in_process": True})
    module = __import__("sys").modules[agent._target.found.__module__]
    await agent.open(trial)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(agent.respond(turn("hi", deadline=1.0)), 0.05)
    assert module.seen == ["ended"]
    await agent.close()
    slow = an_agent("python:./mine.py:slow", tmp_path, options={"in_process": True})
    await slow.open(trial)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(slow.respond(turn("hi", deadline=1.0)), 0.05)
    module.go.set()
    while "thread ended" not in module.seen:  # noqa: ASYNC110 - another thread's doing
        await asyncio.sleep(0.01)
    await slow.close()
    assert [event.name for event in trial.events if isinstance(event, ActionTaken)] == ["before"]
    assert any("ran out of time; it was at" in e.message for e in trial.events if isinstance(e, Noted))


@pytest.mark.parametrize("limit", [0, -1, True, "5", float("nan")])
def test_a_limit_that_is_not_a_duration_is_refused(tmp_path, written, limit):
    written("def agent(): ...")
    with pytest.raises(SetupError, match="timeout_s"):
        an_agent("python:./mine.py:agent", tmp_path, options={"timeout_s": limit})


async def test_what_is_reported_after_the_turn_is_noted_and_does_not_count(tmp_path, written):
    written("""
        import threading
        go = threading.Event()
        done = threading.Event()
        def agent(action):
            def late():
                go.wait()
                action("delete", {})
                done.set()
            threading.Thread(target=late, daemon=True).start()
            return "done"
        """)
    agent, trial = an_agent("python:./mine.py:agent", tmp_path, options={"in_process": True}), a_trial(tmp_path)
    await agent.open(trial)
    await agent.respond(turn("hi"))
    module = agent._target.found.__globals__
    module["go"].set()
    await asyncio.to_thread(module["done"].wait)
    await asyncio.sleep(0)
    await agent.close()
    await trial.environment.teardown()
    assert not [event for event in trial.events if isinstance(event, ActionTaken)]
    (note,) = [event for event in trial.events if isinstance(event, Noted)]
    assert (note.message, note.level) == (
        "the agent reported the action 'delete' after its turn had ended; it was ignored",
        "warning",
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{'content': 'x', 'tool_calls': 'delete'}", "a str as `tool_calls`; expected a list"),
        ("{'content': 'x', 'tool_calls': ['delete']}", "entry 1 of its `tool_calls` is a str"),
        ("{'content': 'x', 'tool_calls': [{'function': {'arguments': '{}'}}]}", "has no name"),
        ("{'content': 'x', 'tool_calls': [{'name': 'a', 'arguments': '{'}]}", r"\(a\) has arguments that are not JSON"),
        ("{'content': 'x', 'tool_calls': [{'name': 'a', 'arguments': '[1]'}]}", "has a list as arguments"),
        ("{'content': None, 'tool_calls': [{'name': 'a', 'arguments': {}}]}", "without a text"),
        ("{'content': 'x', 'function_call': {'name': 'a'}}", "with unknown keys: 'function_call'"),
        ("{'content': 'x', 'role': 'user'}", "the role 'user'"),
    ],
)
async def test_a_reply_that_cannot_be_read_whole_is_refused(tmp_path, in_process, standing, value, said):
    folder, run = standing
    given = {"target": "./mine.py:evaluated", "trial": a_trial(tmp_path), "run": run, "in_process": in_process}
    with pytest.raises(AgentError, match=said):
        await answer(folder, turn(value), **given)


@pytest.mark.parametrize(
    ("value", "calls"),
    [
        ("{'content': 'x', 'refusal': None, 'annotations': [], 'tool_calls': None, 'role': 'assistant'}", []),
        ("{'content': 'x', 'metadata': {'model': 'm'}}", []),
        ("{'text': 'x', 'tool_calls': [{'name': 'a', 'args': {'n': 1}, 'id': '1'}]}", [("a", {"n": 1})]),
        (
            "{'content': 'x', 'tool_calls': [{'function': {'name': 'a', 'arguments': '{\"n\": 1}'}, 'id': '1'}]}",
            [("a", {"n": 1})],
        ),
        (
            "{'content': 'x', 'tool_calls': [{'name': 'a', 'arguments': {'n': 1}}, {'name': 'b', 'arguments': ''}]}",
            [("a", {"n": 1}), ("b", {})],
        ),
        (
            "Message(role='assistant', content='x', tool_calls=(ToolCall(id='1', name='a', arguments={'n': 1}),))",
            [("a", {"n": 1})],
        ),
    ],
)
async def test_tool_calls_of_a_reply_are_actions(tmp_path, in_process, standing, value, calls):
    folder, run = standing
    given = {"target": "./mine.py:evaluated", "trial": a_trial(tmp_path), "run": run, "in_process": in_process}
    text, trial = await answer(folder, turn(value), **given)
    taken = [(event.name, event.params) for event in trial.events if isinstance(event, ActionTaken)]
    assert (text, taken) == ("x", calls)


@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize(
    ("said", "sight"),
    [
        (["a text"], "not_seen"),
        (["a dict"], "not_seen"),
        (["the last message"], "not_seen"),
        (["a dict with a place for calls"], "self_reported"),
        (["a dict with calls"], "self_reported"),
        (["the messages"], "self_reported"),
        (["only the reply in a list"], "self_reported"),
        (["the messages", "the messages"], "self_reported"),
        (["the messages", "a text"], "partly_seen"),
        (["a text", "the messages"], "partly_seen"),
    ],
)
async def test_silence_counts_only_if_what_it_returns_would_tell(tmp_path, standing, said, sight, in_process):
    """An agent that returns a text and has no way to report may have done anything."""
    folder, run = standing
    trial = a_trial(tmp_path)
    agent = an_agent("python:./mine.py:agent", folder, options={"in_process": in_process}, run=run)
    await agent.open(trial)
    assert agent.shows.actions == "not_seen"
    for text in said:
        await agent.respond(turn(text))
    assert agent.shows.actions == sight
    await agent.close()


async def test_one_that_can_report_is_taken_at_its_word(tmp_path):
    (tmp_path / "mine.py").write_text(TELLS)
    agent = an_agent("python:./mine.py:reporting", tmp_path, options={"in_process": True})
    await agent.open(a_trial(tmp_path))
    await agent.respond(turn("a text"))
    assert agent.shows.actions == "self_reported"
    await agent.close()
