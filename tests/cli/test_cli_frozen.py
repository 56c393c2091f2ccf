"""A run that is stopped for a while (SIGSTOP, Ctrl-Z, a debugger) fails no agent for the time that passed meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from cli.test_cli_agents import served
from steadyhand.records.evaluation import Verdict
from steadyhand.testing import Answer
from support.a2a_server import a2a_server
from support.elizaos_server import ElizaosAnswer, ElizaosServer
from support.loopback import Loopback

pytestmark = pytest.mark.system

LIMIT_MS = 4000
STOPPED_S = 5.0

SINGLE = f"""\
name: It answers in time
description: It has a time limit.
environment: {{type: local}}
run:
  - input: Hello
    timeout: {LIMIT_MS}
    evaluations: [{{type: string_contains, value: hello}}]
judgment: {{strategy: all_pass}}
"""
TIMED = f"""\
name: It takes its time
description: It has a time limit.
environment: {{type: local}}
run:
  - input: Hello
    evaluations: [{{type: execution_time, max_duration_ms: {LIMIT_MS}}}]
judgment: {{strategy: all_pass}}
"""
CODE = """\
name: A program
description: It has a time limit.
environment: {{type: local}}
run:
  - code: "touch {started}; sleep 1; echo hello"
    timeout: 4000
    evaluations: [{{type: string_contains, value: hello}}]
judgment: {{strategy: all_pass}}
"""


def conversation(*, turn_ms: int = 60_000, step_ms: int = 60_000) -> str:
    return f"""\
name: A conversation
description: It has a time limit.
environment: {{type: local}}
run:
  - input: Hello
    timeout: {step_ms}
    conversation: {{max_turns: 2, timeout_per_turn_ms: {turn_ms}, script: [{{say: Thanks}}]}}
    evaluations: [{{type: conversation_length, min_turns: 1}}]
judgment: {{strategy: all_pass}}
"""


PYTHON = """\
import asyncio, pathlib

async def answer(message):
    pathlib.Path({started!r}).touch()
    await asyncio.sleep({takes_s})
    return "hello"
"""
PROGRAM = """\
import json, pathlib, sys, time
for line in sys.stdin:
    pathlib.Path({started!r}).touch()
    time.sleep({takes_s})
    print(json.dumps(dict(type="reply", text="hello")), flush=True)
"""


def arguments(kind: str, shell, *, takes_s: float = 1.0) -> list[str]:
    started = str(shell.folder / "started")
    if kind == "python":
        shell.write("agent.py", PYTHON.format(started=started, takes_s=takes_s))
        return ["--agent", "python:agent.py:answer"]
    shell.write("program.py", PROGRAM.format(started=started, takes_s=takes_s))
    return ["--agent", f"command:{shlex.quote(sys.executable)} {shell.folder / 'program.py'}"]


def stopped_run(batch, begun, *given: str, stop=os.kill) -> tuple[int, str, str]:
    """Stops the run once the agent has begun, for longer than the limit allows."""
    process = batch.start("run", "it.scenario.yaml", *given, "--no-progress")
    while not begun() and process.poll() is None:
        time.sleep(0.01)
    if process.poll() is None:
        stop(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        stop(process.pid, signal.SIGCONT)
    out, err = process.communicate()
    return process.wait(), out, err


def kill_family(pid: int, number: int) -> None:
    """The process and everything that it has started, as when a whole job is stopped."""
    family = [pid]
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"PPid:\t{pid}\n" in (folder / "status").read_text():
                family.append(int(folder.name))
    for each in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def only_trial(batch):
    (trial,) = batch.reader().trials()
    return trial


@pytest.fixture
def empty(batch):
    for name in ("one.yaml", "untimed.yaml", "replies.yaml", "steadyhand.toml"):
        (batch.folder / name).unlink()
    return batch


@pytest.mark.parametrize("kind", ["python", "command"])
@pytest.mark.parametrize(
    "scenario",
    [SINGLE, TIMED, conversation(turn_ms=LIMIT_MS), conversation(step_ms=LIMIT_MS)],
    ids=["step", "execution_time", "turn", "conversation"],
)
def test_an_agent_of_one_second_passes(empty, kind, scenario):
    empty.write("it.scenario.yaml", scenario)
    started = empty.folder / "started"
    code, out, err = stopped_run(empty, started.exists, *arguments(kind, empty))
    assert code == 0, out + err
    trial = only_trial(empty)
    assert trial.earlier, "it was measured again"
    assert trial.earlier[0].judged.verdict is Verdict.ERROR
    assert "Steadyhand was" in trial.earlier[0].judged.reason


@pytest.mark.parametrize("how", ["http", "model", "runtime"])
def test_a_service_or_model_of_one_second_passes(empty, how):
    empty.write("it.scenario.yaml", SINGLE)
    with Loopback(lambda request: Answer(text="hello", delay_s=1.0)) as server:
        if how == "http":
            given = ["--agent", f"http:{server.url}"]
        else:
            empty.write("steadyhand.toml", f'[providers.openai]\nbase_url = "{server.url}"\n')
            given = ["--agent", how, "--model", "openai/gpt-test"]
        code, out, err = stopped_run(empty, lambda: server.received, *given, "--timeout", "3")
    assert code == 0, out + err


def test_an_elizaos_agent_of_one_second_passes(empty):
    empty.write("it.scenario.yaml", SINGLE)
    with served(ElizaosServer(ElizaosAnswer(text="hello", delay_s=1.0))) as server:
        given = ("--agent", f"elizaos:{server.url}")
        code, out, err = stopped_run(empty, lambda: any(server.heard.values()), *given)
    assert code == 0, out + err


def test_an_a2a_agent_of_one_second_passes(empty):
    async def work(heard):
        await asyncio.sleep(1.0)
        await heard.say("hello")

    empty.write("it.scenario.yaml", SINGLE)
    with served(a2a_server(work)) as server:
        code, out, err = stopped_run(empty, lambda: server.heard, "--agent", f"a2a:{server.url}")
    assert code == 0, out + err


def test_an_agent_that_is_stopped_with_the_run_passes(empty):
    empty.write("it.scenario.yaml", SINGLE)
    started = empty.folder / "started"
    code, out, err = stopped_run(empty, started.exists, *arguments("python", empty), stop=kill_family)
    assert code == 0, out + err


def test_an_agent_that_is_too_slow_anyway_fails(empty):
    empty.write("it.scenario.yaml", SINGLE)
    started = empty.folder / "started"
    code, out, err = stopped_run(empty, started.exists, *arguments("python", empty, takes_s=3600))
    assert code == 1, out + err
    trial = only_trial(empty)
    assert not trial.earlier
    assert "step time limit reached" in trial.evaluations[0].message


def test_a_program_of_a_step_is_not_killed_for_it(empty):
    empty.write("it.scenario.yaml", CODE.format(started=empty.folder / "started"))
    code, out, err = stopped_run(empty, (empty.folder / "started").exists)
    assert code == 0, out + err


def test_a_forbidden_word_still_fails(empty):
    empty.write("it.scenario.yaml", SINGLE.replace("value: hello", "value: good-bye"))
    started = empty.folder / "started"
    code, out, err = stopped_run(empty, started.exists, *arguments("python", empty))
    assert code == 1, out + err
