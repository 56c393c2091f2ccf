"""Keys at the gateway: planted everywhere it looks, and searched for in everything it leaves behind."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from cli.test_cli_agents import served
from steadyhand.cli.main import tell_bug
from steadyhand.redaction import Redactor
from steadyhand.testing import Answer, ModelServer
from support.collector import collecting

pytestmark = pytest.mark.system

USERS = "canary-users-Zq7f93kd02mmx81"
AGENTS = "canary-agents-7Hh2kd93bbqpz"
OTHER = "canary-header-Jt5wq0aa81ncm"
SCENARIO = """\
id: desk
name: Desk
description: It asks its model.
environment: {type: local}
run:
  - input: Well?
    evaluations: [{type: string_contains, value: It was told no key.}]
judgment: {strategy: all_pass}
"""
# An agent with its own key, which it sends in every way that clients do.
ASKS = """\
import json, os, sys, urllib.error, urllib.request

URL = os.environ["OPENAI_BASE_URL"] + "/chat/completions"

def ask(streamed):
    body = json.dumps({"model": "m", "stream": streamed, "messages": [{"role": "user", "content": "Well?"}]}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OWN_KEY"], "x-api-key": os.environ["OWN_KEY"],
               "api-key": os.environ["OWN_KEY"], "X-Trace": os.environ["OWN_TOKEN"], "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(URL, body, headers)) as answer:
            return answer.read().decode() + str(answer.headers)
    except urllib.error.HTTPError as error:
        return error.read().decode() + str(error.headers)

sys.stdin.read()
heard = ask(False) + ask(True)
sys.stderr.write(os.environ["OWN_KEY"] + heard)
print("It was told a key." if "canary" in heard else "It was told no key.", heard)
"""


@pytest.mark.parametrize("status", [200, 401])
def test_no_key_is_left_behind(shell, status):
    shell.write("desk.scenario.yaml", SCENARIO)
    shell.write("ask.py", ASKS)
    shell.write("steadyhand.toml", '[agents.command]\nspeaks = "text"\n')
    told = {"x-echo": USERS, "retry-after": "0"}
    behaviour = Answer(status=status, text="Yes.", error=f"Incorrect API key provided: {USERS}", headers=told)
    program = f"{shlex.quote(sys.executable)} ./ask.py"
    agent = f"command:OWN_KEY=$OWN_KEY OWN_TOKEN=$OWN_TOKEN {program}"
    with collecting() as collector, served(ModelServer(behaviour)) as provider:
        ended = shell(
            "run", "desk.scenario.yaml", "--agent", agent, "--model", "openai/real", "--record", "tape",
            "--json", "out.json", "--html", "out.html", "--junit", "out.xml", "--otel", collector.url,
            OPENAI_API_KEY=USERS, OPENAI_BASE_URL=provider.base_url, OWN_KEY=AGENTS, OWN_TOKEN=OTHER,
        )  # fmt: skip
    assert collector.bodies, ended.out + ended.err
    assert len(provider.log) == 2
    for sent in provider.log:
        assert sent.headers["authorization"] == f"Bearer {USERS}"
        assert AGENTS not in str(sent.headers), "a key of the agent's own is for its own provider"
        assert sent.headers["x-trace"] == OTHER, "any other header is passed on"
    left = {"stdout": ended.out, "stderr": ended.err, "otlp": repr(collector.bodies)}
    left |= {
        str(file.relative_to(shell.folder)): file.read_bytes().decode("latin-1")
        for file in shell.folder.rglob("*")
        if file.is_file()
    }
    for key in (USERS, AGENTS, OTHER):
        assert [name for name, text in left.items() if key in text] == []
    assert ended.code == (0 if status == 200 else 3), (
        "a key that is not accepted is the user's problem, not the agent's"
    )
    assert "It was told no key." in left["out.json"]
    assert "***" in left["out.json"]


def test_no_key_is_in_a_traceback():
    line = tell_bug(ValueError(f"the server said {USERS}"), Redactor([USERS]))
    file = Path(line.rpartition(" ")[2])
    try:
        assert "ValueError: the server said ****" in file.read_text()
    finally:
        file.unlink()
