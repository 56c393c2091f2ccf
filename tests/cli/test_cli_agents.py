"""One scenario file, unchanged, against every kind of agent, as a user runs it."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from steadyhand.testing import Answer, ModelServer
from support.elizaos_server import ElizaosAnswer, ElizaosServer
from support.shell import AGENT

pytestmark = [pytest.mark.system, pytest.mark.usefixtures("forked_agents")]

BROUGHT = Path(__file__).parents[2] / "examples" / "bring_your_own"
PYTHON = shlex.quote(sys.executable)
GOOD = ("Thank you. I am looking into order {}.", "It is about order {}. A colleague decides on refunds.")
BAD = ("Thank you. I am looking into order {}.", "It is about order {}. Your refund is granted!")


def _say(said: list[str], lines: tuple[str, str]) -> str:
    order = re.search(r"[A-Z]-\d+", " ".join(said))
    assert order is not None
    return lines["money back" in said[-1]].format(order[0])


@contextmanager
def served(server) -> Iterator[object]:
    """A server on its own event loop, for a command in another process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _endpoint(lines: tuple[str, str]) -> ModelServer:
    def answer(request):
        said = [each["content"] for each in request.body["messages"] if each["role"] == "user"]
        return Answer(text=_say(said, lines))

    return ModelServer(answer)


def _arguments(kind: str, lines: tuple[str, str], shell, stack: ExitStack) -> list[str]:
    """The name of this kind of agent on the command line, set up to say these lines."""
    if kind == "runtime":
        server = stack.enter_context(served(_endpoint(lines)))
        shell.write("steadyhand.toml", f'[providers.openai]\nbase_url = "{server.base_url}"\n')
        return ["--agent", "runtime", "--model", "openai/m"]
    if kind == "python":
        source = (
            f"import re\nLINES = {lines!r}\n"
            "def answer(message, messages):\n"
            "    order = re.search(r'[A-Z]-\\d+', ' '.join(each.content for each in messages if each.role == 'user'))\n"
            "    return LINES['money back' in message].format(order[0])\n"
        )
        shell.write("mine.py", source)
        return ["--agent", "python:./mine.py:answer"]
    if kind == "http":
        server = stack.enter_context(served(_endpoint(lines)))
        return ["--agent", f"http:{server.base_url}"]
    if kind == "command":
        source = (
            f"import json, re, sys\nLINES = {lines!r}\n"
            "for raw in sys.stdin:\n"
            "    turn = json.loads(raw)\n"
            "    order = re.search(r'[A-Z]-\\d+', ' '.join(each['content'] for each in turn['messages']))\n"
            "    text = LINES['money back' in turn['input']].format(order[0])\n"
            "    print(json.dumps({'type': 'reply', 'text': text}), flush=True)\n"
        )
        shell.write("program.py", source)
        return ["--agent", f"command:{PYTHON} ./program.py"]
    server = stack.enter_context(served(ElizaosServer(lambda said: ElizaosAnswer(text=_say(said, lines)))))
    return ["--agent", f"elizaos:{server.url}"]


@pytest.mark.parametrize(("lines", "code", "verdict"), [(GOOD, 0, "passed"), (BAD, 1, "failed")])
@pytest.mark.parametrize("kind", ["runtime", "python", "http", "command", "elizaos"])
def test_one_scenario_has_the_same_verdict_from_every_kind_of_agent(shell, kind, lines, code, verdict):
    shutil.copy(BROUGHT / "help_desk.scenario.yaml", shell.folder)
    with ExitStack() as stack:
        arguments = _arguments(kind, lines, shell, stack)
        ended = shell("run", "help_desk.scenario.yaml", *arguments, "--json", "out.json")
    assert ended.code == code, ended.out + ended.err
    (trial,) = _trials(shell)
    assert trial["verdict"] == verdict
    assert trial["agent"].startswith(f"{kind}:")
    assert ({each["verdict"] for each in trial["evaluations"]} == {"passed"}) is (verdict == "passed")
    assert trial["evaluations"][0]["verdict"] == "passed"


@pytest.mark.parametrize("agent", [None, "python:./my_agent.py:answer", "command:node ./agent.mjs"])
def test_the_examples_pass_and_their_actions_are_recorded(shell, agent):
    if agent is not None and "node" in agent and shutil.which("node") is None:
        pytest.skip("there is no node here")
    for file in BROUGHT.glob("*.*"):
        shutil.copy(file, shell.folder)
    chosen = [] if agent is None else ["--agent", agent]
    ended = shell("run", "help_desk.scenario.yaml", *chosen, "--json", "out.json")
    assert ended.code == 0, ended.out + ended.err
    assert "FIND_ORDER" in (shell.folder / "out.json").read_text()


def _one_breaks(shell) -> None:
    shell.write("a.scenario.yaml", AGENT.replace('"Hello"', '"break now"').replace("An agent", "A broken"))
    shell.write("b.scenario.yaml", AGENT)


def _trials(shell) -> list[dict[str, Any]]:
    trials = json.loads((shell.folder / "out.json").read_text())["trials"]
    return sorted(trials, key=lambda trial: trial["scenario"]["file"])


BAD_AGENTS = {
    "a callable that raises": ("python", "raise ValueError('broken')", "mine.py:3: ValueError: broken"),
    "a coroutine that blocks the loop": ("async", "import time; time.sleep(600)", "blocked the event loop"),
    "a callable of the wrong type": ("python", "return 42", "returned a int"),
    "a command that dies": ("command", "sys.exit('no key')", "exited with code 1 before it replied; stderr"),
    "a command that prints garbage": ("command", "print('Hi!', flush=True)", "it wrote 'Hi!' to stdout"),
}


@pytest.mark.parametrize("case", BAD_AGENTS)
def test_a_broken_agent_is_one_error_and_the_rest_goes_on(shell, case):
    kind, body, said = BAD_AGENTS[case]
    word = "async " if kind == "async" else ""
    shell.write(
        "mine.py",
        f"import sys\n{word}def answer(message):\n    if 'break' in message: {body}\n    return 'hello'\n",
    )
    loop = "import json, sys\nfor raw in sys.stdin:\n"
    shell.write(
        "program.py",
        f"{loop}    if 'break' in raw: {body}\n"
        "    print(json.dumps({'type': 'reply', 'text': 'hello'}), flush=True)\n",
    )
    _one_breaks(shell)
    agent = f"command:{PYTHON} ./program.py" if kind == "command" else "python:./mine.py:answer"
    ended = shell("run", ".", "--agent", agent, "--json", "out.json", "--concurrency", "1")
    assert ended.code == 3, ended.out + ended.err
    broken, sound = _trials(shell)
    assert (broken["verdict"], sound["verdict"]) == ("error", "passed"), ended.out
    assert said in json.dumps(broken["errors"])
    assert "Traceback" not in ended.out + ended.err


def test_an_endpoint_that_answers_with_a_page_is_one_error_and_the_rest_goes_on(shell):
    def answer(request):
        return Answer(body=b"<html>Welcome</html>") if "break" in request.prompt else Answer(text="hello")

    _one_breaks(shell)
    with served(ModelServer(answer)) as server:
        ended = shell("run", ".", "--agent", f"http:{server.base_url}", "--json", "out.json")
    assert ended.code == 3, ended.out + ended.err
    assert [trial["verdict"] for trial in _trials(shell)] == ["error", "passed"]


def test_an_agent_that_cannot_be_built_stops_the_run_before_it_starts(shell):
    shell.write("a.scenario.yaml", AGENT)
    shell.write("mine.py", "def answer(question): ...\n")
    ended = shell("run", "a.scenario.yaml", "--agent", "python:./mine.py:answer")
    assert (ended.code, ended.out) == (2, "")
    assert "unknown required parameter 'question'" in ended.err


WATCHED = """\
name: %s
description: What it does is checked.
environment: {type: local}
setup:
  virtual_fs: {notes.txt: hello}
  database: {sql: CREATE TABLE orders (id INTEGER)}
  mocks:
    - {service: orders, method: refund, response: {}}
run:
  - input: "Hello, do not refund."
    evaluations:
%s
judgment: {strategy: all_pass}
"""
ACTIONS = [
    "trajectory_contains_action, action: refund",
    "trajectory_contains_action, action: refund, max_count: 0",
    "sequence, rules: [{always: refund}]",
    "sequence, rules: [{never: refund}]",
]
THE_TRIALS_OWN = [
    "service_called, service: orders",
    "service_called, service: orders, max_count: 0",
    "file_exists, path: out.txt",
    "file_contains, path: notes.txt, value: hello",
    "command_exit_code_is, command: test ! -e out.txt",
    "database_query, query: SELECT id FROM orders, max_rows: 0",
    "database_query, query: SELECT id FROM orders, min_rows: 1",
]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [("http", ACTIONS, THE_TRIALS_OWN), ("elizaos", THE_TRIALS_OWN[:2], THE_TRIALS_OWN[2:])],
    ids=["http", "elizaos"],
)
def test_silence_of_an_agent_that_cannot_be_seen_proves_nothing(shell, kind, first, second):
    for name, checks in (("first", first), ("second", second)):
        listed = "\n".join(f"      - {{type: {check}}}" for check in checks)
        shell.write(f"{name}.scenario.yaml", WATCHED % (name, listed))
    server = ModelServer(Answer(text="Hello!")) if kind == "http" else ElizaosServer(ElizaosAnswer(text="Hello!"))
    with served(server) as there:
        agent = f"{kind}:{there.base_url if kind == 'http' else there.url}"
        ended = shell("run", ".", "--agent", agent, "--json", "r.json")
    report = json.loads((shell.folder / "r.json").read_text())
    found = {trial["scenario"]["name"]: trial["evaluations"] for trial in report["trials"]}
    assert [each["verdict"] for each in found["first"]] == ["inconclusive"] * len(first)
    assert [each["verdict"] for each in found["second"]] == ["inconclusive"] * len(second)
    assert ended.code == 3
    assert "absence proves nothing" in found["first"][0]["message"]
    for what in ("mocks do", "`virtual_fs` does", "database does"):
        told = f"the scenario's {what} not reach the agent {agent}"
        assert re.search(rf"^note: {re.escape(told)}.*\(2 scenarios\)$", ended.err, re.MULTILINE)
        assert all(any(note["message"].startswith(told) for note in trial["notes"]) for trial in report["trials"])
    shown = report["trials"][0]["shows"]
    assert (shown["actions"], shown["files"]) == ("not_seen" if kind == "http" else "seen", "not_seen")


NEVER = """\
name: Never
description: What it reports is checked.
environment: {type: local}
setup:
  mocks:
    - {service: orders, method: refund, response: {}}
run:
  - input: "Hello, do not refund."
    evaluations:
      - {type: trajectory_contains_action, action: delete, max_count: 0}
judgment: {strategy: all_pass}
"""
OPENAI_CALL = '{"id": "1", "type": "function", "function": {"name": "delete", "arguments": "{\\"id\\": 17}"}}'


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("def agent(message, action): return {'text': 'nothing done', 'tool_calls': []}", 0),
        ("def agent(message): return {'text': 'nothing done', 'tool_calls': []}", 0),
        ("def agent(message, action):\n    action('delete', {'id': 17}); return 'done'", 1),
        (f"def agent(message): return {{'content': 'done', 'tool_calls': [{OPENAI_CALL}]}}", 1),
        ("def agent(message): return {'text': 'done', 'tool_calls': [{'name': 'delete', 'arguments': {}}]}", 1),
        ("def agent(message): return {'content': 'done', 'tool_calls': [{'do': 'delete'}]}", 3),
        ("def agent(message): return {'content': 'done', 'actions': ['delete']}", 3),
        ("def agent(message, action):\n    action('delete', {}, duration_ms='5'); return 'done'", 3),
        ("def agent(message, action):\n    action('delete', {('a', 1): 2}); return 'done'", 1),
        (
            (
                "class Odd:\n    def __repr__(self): raise RuntimeError('no')\n"
                "def agent(message, action):\n    action('delete', {'x': Odd()}); return 'done'"
            ),
            3,
        ),
        (
            "def agent(action):\n    try: action('delete', ['x'])\n    except TypeError: pass\n    return 'done'",
            3,
        ),
        (
            (
                "from steadyhand.records.event import ActionTaken\n"
                "def agent(message, emit):\n"
                "    emit(ActionTaken(at_ms=1.0, id='1', name='delete', params='x')); return 'done'"
            ),
            3,
        ),
        (
            (
                "async def agent(message, action):\n    try: action('delete', {}, duration_ms='5')\n"
                "    except TypeError: pass\n    return 'done'"
            ),
            3,
        ),
    ],
)
def test_what_a_python_agent_reports_is_counted_or_an_error(shell, source, code):
    shell.write("mine.py", source)
    shell.write("a.scenario.yaml", NEVER)
    ended = shell("run", ".", "--agent", "python:./mine.py:agent", "--json", "r.json")
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert (ended.code, trial["verdict"]) == (code, {0: "passed", 1: "failed", 3: "error"}[code]), ended.out
    assert "Traceback" not in ended.err
    if code != 3:
        assert trial["evaluations"][0]["self_reported"] == ["actions"]


SILENT = {
    "python": ("mine.py", "def agent(message, action): return 'nothing done'", "python:./mine.py:agent"),
    "command": (
        "agent.py",
        'import sys\nfor line in sys.stdin: print(\'{"type": "reply", "text": "done"}\', flush=True)',
        f"command:{PYTHON} ./agent.py",
    ),
}


@pytest.mark.parametrize("kind", SILENT)
@pytest.mark.parametrize("declared", [False, True])
def test_silence_is_a_report_only_if_that_is_declared(shell, kind, declared):
    file, source, agent = SILENT[kind]
    shell.write(file, source)
    shell.write("a.scenario.yaml", NEVER)
    shell.write("steadyhand.toml", f'[agents.{kind}]\nshows = "actions"\n' if declared else "")
    ended = shell("run", ".", "--agent", agent)
    assert ended.code == (0 if declared else 3), ended.out
    assert ("so their absence proves nothing" in " ".join(ended.out.split())) == (not declared)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("for line in sys.stdin: say({**REPLY, 'tool_calls': []})", 0),
        ("for line in sys.stdin: say({**REPLY, 'tool_calls': [{'name': 'delete', 'arguments': {}}]})", 1),
        ("for line in sys.stdin: say(REPLY, ACTION)", 1),
        ("for line in sys.stdin: say(REPLY)\nsay(ACTION)", 3),
    ],
    ids=["none, it says", "in the reply", "with the reply", "after the turn"],
)
def test_what_a_program_reports_with_or_after_its_reply_is_not_lost(shell, program, code):
    source = (
        "import json, sys\n"
        "REPLY, ACTION = {'type': 'reply', 'text': 'done'}, {'type': 'action', 'name': 'delete'}\n"
        f"def say(*each): print('\\n'.join(map(json.dumps, each)), flush=True)\n{program}\n"
    )
    shell.write("agent.py", source)
    shell.write("a.scenario.yaml", NEVER)
    ended = shell("run", ".", "--agent", f"command:{PYTHON} ./agent.py", "--json", "r.json")
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert (ended.code, trial["verdict"]) == (code, {0: "passed", 1: "failed", 3: "error"}[code]), ended.out
