from __future__ import annotations

import asyncio
import os
import shlex
import sys
import textwrap
from pathlib import Path

import pytest

from steadyhand.errors import AgentError, SetupError
from steadyhand.records.event import ActionTaken, Observed, ServiceCalled, Thought
from steadyhand.records.scenario import Mock, MockWhen
from steadyhand.runtime.runtime import AgentRuntime
from support.agents import a_trial, an_agent, turn
from support.trial import HERE, ListedMocks

PYTHON = shlex.quote(sys.executable)
LOOP = """
import json, os, sys, time
def say(**line): print(json.dumps(line), flush=True)
for raw in sys.stdin:
    turn = json.loads(raw)
"""


@pytest.fixture
def program(tmp_path: Path):
    """Writes a program that does this with each `turn`; returns the agent's name."""

    def write(body: str) -> str:
        (tmp_path / "agent.py").write_text(LOOP + textwrap.indent(textwrap.dedent(body), "    "))
        return f"command:{PYTHON} ./agent.py"

    return write


def alive(pid: str) -> bool:
    """A process that has ended, but has not been reaped by its parent, has no command line."""
    file = Path(f"/proc/{pid}/cmdline")
    return file.exists() and bool(file.read_bytes())


async def answers(tmp_path: Path, kind: str, *turns, trial=None, **settings):
    agent = an_agent(kind, tmp_path, **settings)
    trial = trial or a_trial(tmp_path)
    try:
        await agent.open(trial)
        return [(await agent.respond(each)).text for each in turns or (turn("hi"),)], trial
    finally:
        await agent.close()
        await agent.close()
        await trial.environment.teardown()


async def test_a_turn_is_one_line_and_so_is_the_reply(tmp_path, program):
    kind = program("say(type='reply', text=json.dumps(turn))")
    (first, second), trial = await answers(tmp_path, kind, turn("a"), turn("a", "b", "c"))
    assert '"number": 1' in first
    assert '"input": "a"' in first
    assert '"seed": 7' in first
    assert f'"workspace": "{trial.environment.workspace}"' in first
    assert '"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}' in second


async def test_one_process_serves_the_trial_in_its_workspace(tmp_path, program):
    kind = program(
        "open('log.txt', 'a').write(turn['input']); say(type='reply', text=open('log.txt').read() + str(os.getpid()))"
    )
    (first, second), _ = await answers(tmp_path, kind, turn("a"), turn("a", "x", "b"))
    assert (first[:1], second[:2]) == ("a", "ab")
    assert first[1:] == second[2:]


async def test_what_it_does_becomes_events(tmp_path, program):
    kind = program("""
        say(type='thought', text='let me see')
        say(type='action', name='look', params={'at': 'it'}, result={'found': 3}, duration_ms=1.5)
        say(type='action', name='jump', status='error')
        say(type='observation', name='jump', content='too high')
        say(type='reply', text='done', number=turn['number'])
        """)
    _, trial = await answers(tmp_path, kind)
    look, jump = (event for event in trial.events if isinstance(event, ActionTaken))
    assert (look.name, look.params, look.status, look.duration_ms) == ("look", {"at": "it"}, "success", 1.5)
    assert (jump.name, jump.status) == ("jump", "error")
    seen = [(event.action_id, event.content) for event in trial.events if isinstance(event, Observed)]
    assert seen == [(look.id, {"found": 3}), (jump.id, "too high")]
    assert [event.text for event in trial.events if isinstance(event, Thought)] == ["let me see"]


async def test_it_calls_the_trials_services(tmp_path, program):
    kind = program("""
        say(type='call', id=1, service='github', method='listIssues', params={'repo': 'acme/site'})
        good = json.loads(sys.stdin.readline())
        say(type='call', id=2, service='github', method='nothing')
        bad = json.loads(sys.stdin.readline())
        say(type='reply', text=f"{good['type']} {good['id']} {good['result']} {bad['type']} {bad['id']}")
        """)
    mocks = ListedMocks([Mock(place=HERE, service="github", method="listIssues", when=MockWhen(), response=["blank"])])
    services = AgentRuntime(mocks=mocks, actions={}, services={})
    trial = a_trial(tmp_path, services=services)
    await services.open(trial)
    (text,), _ = await answers(tmp_path, kind, trial=trial)
    assert text == "result 1 ['blank'] fault 2"
    assert [event.method for event in trial.events if isinstance(event, ServiceCalled)] == ["listIssues", "nothing"]
    await services.close()


async def test_without_services_a_call_is_answered_with_a_fault(tmp_path, program):
    kind = program("""
        say(type='call', service='github', method='listIssues')
        say(type='reply', text=json.loads(sys.stdin.readline())['message'])
        """)
    assert (await answers(tmp_path, kind))[0] == ["no service 'github': this trial has no services"]


async def test_it_sees_only_the_variables_it_is_given(tmp_path, program, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-canary")
    program("say(type='reply', text=json.dumps(dict(os.environ)))")
    line = f"MODE=test TOKEN=x-${{MY_TOKEN}} {PYTHON} ./agent.py"
    variables = {"PATH": os.environ["PATH"], "MY_TOKEN": "abcdef"}
    (text,), _ = await answers(tmp_path, f"command:{line}", variables=variables)
    assert "canary" not in text
    assert '"MODE": "test", "TOKEN": "x-abcdef"' in text
    agent = an_agent(f"command:{line}", tmp_path, variables=variables)
    assert agent.name == f"command:{PYTHON} ./agent.py"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "sys.exit('no key in sight')",
            r"exited with code 1 before it replied; stderr: no key in sight",
        ),
        ("os.kill(os.getpid(), 9)", "exited with code -9 before it replied; nothing on stderr"),
        ("os.close(1); time.sleep(600)", "closed its stdout before it replied"),
        ("print('Hello!', flush=True); time.sleep(600)", r"it wrote 'Hello!' to stdout \(.*expected a JSON object"),
        ("print('[1]', flush=True)", r"it wrote '\[1\]'"),
        ("sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush(); time.sleep(600)", "it wrote '\ufffd' to stdout"),
        ("print('x' * 5_000_000, flush=True); time.sleep(600)", "a line longer than 4194304 bytes"),
        ("say(type='answer', text='x')", "it wrote .*expected a JSON object with a `type`"),
        ("say(type='reply')", "missing required field `text`"),
        ("say(type='reply', text=3)", "Expected `str`, got `int`"),
        ("say(type='reply', text='x', txet='y')", "unknown field `txet`"),
        ("say(type='reply', text='x', number=9)", "replied to turn 9 when asked turn 1"),
        ("say(type='error', message='no network')", "it reported an error: no network"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
async def test_what_goes_wrong_is_one_error_with_what_it_said(tmp_path, program, body, said):
    kind = program(body)
    with pytest.raises(AgentError, match=said) as raised:
        await answers(tmp_path, kind)
    assert str(raised.value).startswith("command:")


async def test_a_secret_it_was_given_is_not_shown(tmp_path, program):
    program("sys.exit('bad key ' + os.environ['KEY'])")
    with pytest.raises(AgentError, match=r"bad key \*\*\*"):
        await answers(tmp_path, f"command:KEY=$K {PYTHON} ./agent.py", variables={"K": "sk-canary", **os.environ})


async def test_one_that_hangs_is_an_error_after_its_limit(tmp_path, program):
    kind = program("print('thinking', file=sys.stderr, flush=True); time.sleep(600)")
    with pytest.raises(AgentError, match=r"did not reply within 0.5 s; stderr: thinking"):
        await answers(tmp_path, kind, options={"timeout_s": 0.5})


async def test_a_second_reply_is_not_taken_for_the_next_one(tmp_path, program):
    kind = program("say(type='reply', text='one'); say(type='reply', text='two')")
    agent, trial = an_agent(kind, tmp_path), a_trial(tmp_path)
    await agent.open(trial)
    await agent.respond(turn("a"))
    while not agent._process.unread:  # noqa: ASYNC110 - another process's doing
        await asyncio.sleep(0.01)
    with pytest.raises(AgentError, match="more lines after its reply"):
        await agent.respond(turn("a", "one", "b"))
    await agent.close()
    await trial.environment.teardown()


async def test_it_may_die_between_turns_and_that_is_said(tmp_path, program):
    kind = program("say(type='reply', text='one'); sys.exit(4)")
    with pytest.raises(AgentError, match="exited with code 4"):
        await answers(tmp_path, kind, turn("a"), turn("a", "one", "b"))


async def test_a_cancelled_turn_ends_it_and_the_next_begins_afresh(tmp_path, program):
    kind = program("""
        open('pid', 'w').write(str(os.getpid()))
        if turn['input'] == 'hang': time.sleep(600)
        say(type='reply', text=turn['input'] + str(len(turn['messages'])))
        """)
    agent, trial = an_agent(kind, tmp_path), a_trial(tmp_path)
    await agent.open(trial)
    hanging = asyncio.create_task(agent.respond(turn("hang")))
    folder = trial.environment.workspace
    while not (folder / "pid").exists() or not (folder / "pid").read_text():  # noqa: ASYNC110 - another process's
        await asyncio.sleep(0.01)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)
    assert (await agent.respond(turn("hang", "", "go on"))).text == "go on3"
    await agent.close()
    await trial.environment.teardown()


async def test_nothing_it_started_is_left(tmp_path, program):
    kind = program("""
        import subprocess
        one = subprocess.Popen(['sleep', '600'])
        two = subprocess.Popen(['sleep', '600'], start_new_session=True)
        say(type='reply', text=f'{one.pid} {two.pid}')
        """)
    (text,), _ = await answers(tmp_path, kind)
    assert not [pid for pid in text.split() if alive(pid)]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "expected command:PROGRAM ARGUMENTS"),
        ("A=1 B=2", "expected command:PROGRAM ARGUMENTS"),
        ("python 'open", "bad quoting: No closing quotation"),
        ("no-such-program-here", "program not found: 'no-such-program-here'; write ./NAME for a file"),
        ("python3 ./none.py", "file not found: './none.py'"),
        ("./plain.txt", "is it executable"),
        ("KEY=$NOT_SET python3", r"agent command: KEY uses \$NOT_SET, which is not set"),
    ],
)
def test_a_line_that_cannot_work_is_said_before_anything_runs(tmp_path, line, said):
    (tmp_path / "plain.txt").write_text("x")
    with pytest.raises(SetupError, match=said):
        an_agent(f"command:{line}", tmp_path, variables=dict(os.environ))
