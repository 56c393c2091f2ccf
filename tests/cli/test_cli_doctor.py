"""`steadyhand doctor`: what can be seen of an agent in one turn."""

from __future__ import annotations

import shlex
import sys

import pytest

pytestmark = pytest.mark.usefixtures("forked_agents")

AGENTS = """\
async def reporting(message, get_service, action, workspace):
    action("PING", {}, await get_service("doctor").ping())
    return "The doctor said pong."

def silent(message):
    return "Hello"

def broken(message):
    raise ValueError("no key")
"""
RULES = """\
rules:
  - tool_results: true
    reply: I pinged.
  - tool_calls:
      - {name: doctor_ping, arguments: {}}
"""


@pytest.fixture
def desk(shell):
    shell.write("agents.py", AGENTS)
    shell.write("rules.yaml", RULES)
    return shell


def seen(out: str) -> dict[str, str]:
    """What is said of each kind, from the table."""
    kinds = ("actions", "services", "files", "database", "model calls")
    rows = {line[2:15].strip(): line[15:].strip() for line in out.splitlines()[1:6]}
    assert tuple(rows) == kinds
    return {kind: " ".join(row.split()) for kind, row in rows.items()}


def test_everything_is_seen_of_the_built_in_agent(desk):
    ended = desk("doctor", "--agent", "runtime", "--model", "scripted/rules.yaml")
    assert ended.code == 0, ended.out + ended.err
    found = seen(ended.out)
    assert found["actions"] == "seen ping"
    assert found["services"] == "seen doctor.ping"
    assert found["model calls"] == "seen scripted/rules.yaml (2)"
    assert ended.out.endswith("checks on all of these can be decided\n")
    assert not (desk.folder / ".steadyhand").exists(), "nothing is left behind"


def test_what_is_not_seen_is_told_with_what_makes_it_visible(desk):
    ended = desk("doctor", "--agent", "python:./agents.py:reporting")
    assert ended.code == 3
    assert seen(ended.out) == {
        "actions": "self-reported PING",
        "services": "seen doctor.ping",
        "files": "seen nothing in this turn",
        "database": "seen nothing in this turn",
        "model calls": "not seen nothing in this turn",
    }
    assert "to make it visible:\n  model calls  name its model with --model" in ended.out


def test_silence_is_not_seen(desk):
    ended = desk("doctor", "--agent", "python:./agents.py:silent", "--task", "Wave.")
    assert ended.code == 3
    assert {row.partition(" nothing")[0] for row in seen(ended.out).values()} == {"not seen"}
    assert "`action`, `get_service` or `workspace`" in " ".join(ended.out.split())
    assert "…" not in ended.out, "advice is not cut short"


def test_a_bare_model_hides_nothing(desk):
    desk.write("words.yaml", "rules: [{reply: Hello}]")
    ended = desk("doctor", "--agent", "model", "--model", "scripted/words.yaml")
    assert (ended.code, "it only replies" in ended.out) == (0, True)


@pytest.mark.parametrize(
    ("agent", "told"),
    [
        ("python:./nowhere.py:x", "file not found: './nowhere.py'"),
        ("python:./agents.py:broken", "could not be tried"),
        (f"command:{shlex.quote(sys.executable)} -c 'raise SystemExit(4)'", "could not be tried"),
    ],
)
def test_an_agent_that_does_not_answer_could_not_be_started(desk, agent, told):
    ended = desk("doctor", "--agent", agent)
    assert (ended.code, told in ended.err) == (2, True), ended.err
