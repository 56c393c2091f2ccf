"""Checks that bring code along: where it runs, who may see it, and what only looks at it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.shell import Shell

pytestmark = pytest.mark.system

SCENARIO = """\
name: Say a word
description: One word.
agent: python:./agent.py:answer
environment: {type: local}
run:
  - input: Say the word.
    evaluations:
      - {type: python, function: "./checks.py:knows"}
judgment: {strategy: all_pass}
"""
AGENT = """
from pathlib import Path
def answer(message):
    try:
        return Path(__file__).with_name("checks.py").read_text() or "pelican"
    except OSError:
        return "pelican"
"""
CHECKS = 'def knows(reply): return "pelican" in reply'


def written(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in (("a.scenario.yaml", SCENARIO), ("agent.py", AGENT), ("checks.py", CHECKS)):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def project(shell: Shell) -> Path:
    """The folder in which the commands run."""
    (shell.folder / "steadyhand.toml").write_text("")
    return written(shell.folder)


def test_an_agent_cannot_read_the_file_of_a_check(shell, project):
    """One that can would answer with it, and pass."""
    (project / "checks.py").write_text(CHECKS.replace("return", "return len(reply) < 20 and"))
    done = shell("run", ".", "--json", "out.json", "--no-progress")
    trial = json.loads((project / "out.json").read_text())["trials"][0]
    if trial["isolation"] == "room":
        assert done.code == 0, done.out
    else:  # it was watched, or nothing could be done: what it read does not pass
        assert done.code != 0


def test_a_check_and_the_agent_need_files_of_their_own(shell, project):
    (project / "agent.py").write_text(f"{AGENT}\n{CHECKS}")
    (project / "a.scenario.yaml").write_text(SCENARIO.replace("./checks.py", "./agent.py"))
    done = shell("run", ".", "--no-progress")
    assert done.code == 2
    assert "a.scenario.yaml:8:9: ./agent.py holds both the agent and a check" in done.err


def test_code_from_outside_the_project_needs_trust(shell, project, tmp_path_factory):
    theirs = written(tmp_path_factory.mktemp("theirs"))
    (theirs / "a.scenario.yaml").write_text(SCENARIO.replace("agent: python:./agent.py:answer\n", ""))
    (theirs / "checks.py").write_text(f"open({str(theirs / 'ran')!r}, 'w')\n{CHECKS}")
    (project / "model.yaml").write_text("rules: [{reply: pelican}]")
    options = [str(theirs / "a.scenario.yaml"), "--model", "scripted/model.yaml", "--no-progress"]
    refused = shell("run", *options)
    assert refused.code == 2
    assert "--trust is needed to use python ./checks.py" in refused.err
    assert not (theirs / "ran").exists()
    assert shell("run", *options, "--trust").code == 0
    assert (theirs / "ran").exists()


def test_what_only_looks_at_files_says_that_it_runs_no_code(shell, project):
    (project / "checks.py").write_text(f"open('ran', 'w')\n{CHECKS}")
    validated = shell("validate", "a.scenario.yaml")
    assert validated.code == 0
    assert "a.scenario.yaml:8:9: not checked: python runs code, which only `run` does" in validated.err
    assert not (project / "ran").exists()
    (project / "checks.py").unlink()
    missing = shell("validate", "a.scenario.yaml")
    assert missing.code == 2
    assert "python: file not found: './checks.py'" in missing.out


def test_bad_javascript_is_found_before_the_run(shell, project):
    check = '{type: javascript, expression: "reply ==="}'
    (project / "a.scenario.yaml").write_text(SCENARIO.replace('{type: python, function: "./checks.py:knows"}', check))
    for command in (("validate", "a.scenario.yaml"), ("run", ".", "--no-progress")):
        done = shell(*command)
        assert done.code == 2
        assert "a.scenario.yaml:8:9" in done.out + done.err
        assert "not valid JavaScript" in done.out + done.err


DECISION = """\
id: SCN-T-001
name: Stop
domain: test
description: x
messages: [{role: user, content: "Stop?"}]
latency_budget: {target_ms: 500, acceptable_ms: 900, critical_ms: 2000}
constraint: {description: x, time_pressure: immediate, consequence_of_delay: x}
rubric: clinical_v1
expected_action: x
severity: 1.0
safety_invariants:
  - {name: a, description: b, check_type: json_path, path: $.command, equals: STOP, severity: 1.0}
  - {name: c, description: d, check_type: javascript, expression: "reply.length < 40", severity: 0.5}
  - {name: e, description: f, check_type: python, function: "./checks.py:knows", severity: 0.5}
examples:
  good: ['{"command": "STOP"}']
  bad: ['STOP', '{"command": "GO"}']
"""


def test_selftest_runs_javascript_and_says_that_it_runs_no_python(shell, project):
    (project / "d.yaml").write_text(DECISION)
    tested = shell("selftest", "d.yaml")
    assert (tested.code, tested.out) == (0, ""), tested.err
    assert "d.yaml:14:5: not tested: python checks run code, which only `run` does" in tested.err
    (project / "d.yaml").write_text(DECISION.replace("< 40", "> 40"))
    assert "d.yaml:13:5: SCN-T-001: c: a good answer is rejected" in shell("selftest", "d.yaml").out
