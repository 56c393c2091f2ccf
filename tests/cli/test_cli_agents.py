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

from cli.conftest import AGENT
from holdfast.testing import Answer, ElizaosAnswer, ElizaosServer, ModelServer

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
    """A server on an event loop of its own, for a command in another process to talk to."""
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
    """How the command line names this kind of agent, told to speak these lines."""
    if kind == "runtime":
        server = stack.enter_context(served(_endpoint(lines)))
        shell.write("holdfast.toml", f'[providers.openai]\nbase_url = "{server.base_url}"\n')
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
    assert [each["verdict"] for each in trial["evaluations"]] == ["passed"] * 2 + [verdict]


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
    "a coroutine that blocks the loop": ("async", "import time; time.sleep(600)", "held up the event loop"),
    "a callable of the wrong type": ("python", "return 42", "returned a int"),
    "a command that dies": ("command", "sys.exit('no key')", "ended with exit code 1 before it replied; on stderr"),
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
    assert "nothing is offered under the name of its parameter 'question'" in ended.err
