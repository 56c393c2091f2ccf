"""What an agent is judged by stays closed to it, by each means that this machine has; else the record says so."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import support.without_namespaces
from support.hostile_agents import attacks
from support.ordinary_user import OrdinaryShell
from support.shell import Ended, Shell

pytestmark = pytest.mark.system

KEY = "key-0123456789ab"
SCENARIO = """\
id: {name}
name: "{name}"
description: It answers.
environment: {{type: local}}
run:
  - input: "{name}"
    evaluations:
      - {{type: string_contains, value: {key}}}
judgment: {{strategy: all_pass}}
"""
ATTACKS = [name for name in attacks.ATTACKS if name != "memory"]
PEEKING = {"beside", "linked", "copied", "committed", "recorded"}
"""Attacks that succeed where nothing is done about them."""


@pytest.fixture
def shell(either_shell: Shell) -> Shell:
    """As the user who runs the tests, and as an ordinary user."""
    return either_shell


@pytest.fixture(params=["python", "command"])
def agent(request: pytest.FixtureRequest, shell: Shell) -> str:
    """The hostile agent, beside its scenarios."""
    python = "/usr/bin/python3" if isinstance(shell, OrdinaryShell) else shlex.quote(sys.executable)
    shutil.copy(attacks.__file__, shell.folder / "attacks.py")
    return "python:attacks.py:agent" if request.param == "python" else f"command:{python} ./attacks.py"


def write_project(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / f"{name}.scenario.yaml").write_text(SCENARIO.format(name=name, key=KEY))
    text = SCENARIO.format(name="attack", key=KEY)
    (folder / "attack.scenario.yaml").write_text(text)
    for place in ("old", "reports", ".steadyhand/runs"):
        (folder / place).mkdir(parents=True)
    shutil.copy(folder / f"{names[0]}.scenario.yaml", folder / "old" / "backup.txt")
    (folder / "reports" / "labels.csv").write_text(f"run,scenario,trial,check,label,note\n1,beside,0,a,pass,{KEY}\n")
    (folder / "reports" / "base.json").write_text(f'{{"baseline":1,"run":"x","entries":[\n"{KEY}"]}}')
    (folder / ".steadyhand" / "runs" / "old.txt").write_text(KEY)
    (folder / "steadyhand.toml").touch()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".git" / "objects" / "ab").mkdir(exist_ok=True)
    (folder / ".git" / "objects" / "ab" / "cdef").write_text(KEY)
    lender, origin = folder.parent / f"{folder.name}-lender", folder.parent / f"{folder.name}-origin"
    for place in (lender / "objects", origin / ".git" / "objects"):  # outside of the project
        place.mkdir(parents=True)
        (place / "cdef").write_text(KEY)
    shutil.copy(folder / "attack.scenario.yaml", origin)
    (folder / ".git" / "objects" / "info" / "alternates").write_text(f"{lender}/objects\n")
    subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", str(origin)], check=True)


def trials_of(shell: Shell) -> dict[str, dict[str, Any]]:
    report = json.loads((shell.folder / "r.json").read_text())
    return {trial["scenario"]["id"]: trial for trial in report["trials"]}


def run(shell: Shell, agent: str, *more: str, without_namespaces: bool = False, **variables: str) -> Ended:
    names = [f"{path.name}" for path in sorted(shell.folder.glob("*.scenario.yaml"))]
    words = ("run", *names, "--agent", agent, "--json", "r.json", *more)
    if without_namespaces:
        return shell.behind(Path(support.without_namespaces.__file__), *words, **variables)
    return shell(*words, **variables)


def without_bubblewrap(folder: Path) -> str:
    """A PATH on which everything is found but bubblewrap."""
    tools = folder.parent / "tools"
    tools.mkdir(exist_ok=True)
    for place in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if program.name != "bwrap" and not os.path.lexists(tools / program.name):
                (tools / program.name).symlink_to(program)
    return str(tools)


@pytest.mark.parametrize("means", ["bubblewrap", "namespaces", "landlock"])
def test_no_attack_finds_the_key_from_a_room(shell: Shell, agent: str, means: str) -> None:
    names = [*ATTACKS, "memory"]
    if means == "landlock" and not isinstance(shell, OrdinaryShell):
        names.remove("kernel_helpers")  # Landlock cannot take away what is in a folder that it grants
    write_project(shell.folder, names)
    path = {} if means == "bubblewrap" else {"PATH": without_bubblewrap(shell.folder)}
    done = run(shell, agent, without_namespaces=means == "landlock", **path)
    assert done.code == 1, done.err
    trials = trials_of(shell)
    assert {name: trials[name]["isolation"] for name in names} == dict.fromkeys(names, "room")
    assert {name: trials[name]["verdict"] for name in names} == dict.fromkeys(names, "failed")
    said = {name: trials[name]["transcript"][-1]["content"] for name in names}
    assert said == dict.fromkeys(names, "nothing")
    assert "isolation: room" in done.out


def test_what_is_watched_makes_a_trial_inconclusive(shell: Shell, agent: str) -> None:
    names = ["beside", "committed", "descriptors"]
    write_project(shell.folder, names)
    done = run(shell, agent, "--isolation", "watched", "--concurrency", "1")
    trials = trials_of(shell)
    assert trials["beside"]["isolation"] == "watched", done.err
    assert (trials["beside"]["verdict"], trials["committed"]["verdict"]) == ("inconclusive", "inconclusive")
    reason = str(trials["beside"]["reason"])
    assert reason.startswith("the agent opened what the trial is judged by: ")
    assert reason.partition(": ")[2].startswith(str(shell.folder))
    assert trials["descriptors"]["verdict"] == "failed"  # an honest failure stays one


def test_without_isolation_the_attacks_succeed_and_the_record_says_so(shell: Shell, agent: str) -> None:
    names = sorted(PEEKING)
    write_project(shell.folder, names)
    done = run(shell, agent, "--isolation", "none")
    trials = trials_of(shell)
    assert {name: (trials[name]["verdict"], trials[name]["isolation"]) for name in names} == dict.fromkeys(
        names, ("passed", "none")
    )
    assert "isolation: none" in done.out


def test_an_agent_that_is_given_its_trial_is_not_told_the_key(shell: Shell) -> None:
    shutil.copy(attacks.__file__, shell.folder / "attacks.py")
    write_project(shell.folder, ["beside"])
    done = run(shell, "python:attacks.py:insider")
    assert done.code == 1, done.err
    assert trials_of(shell)["beside"]["transcript"][-1]["content"] == "nothing"


FILES = """\
id: {name}
name: "{name}"
description: Another trial does it.
environment: {{type: local}}
run:
  - input: "{name}"
    evaluations:
      - {{type: {check}}}
judgment: {{strategy: all_pass}}
"""


@pytest.mark.parametrize(("isolation", "verdict"), [("auto", "failed"), ("none", "passed")])
def test_a_file_that_another_trial_put_there_does_not_pass(
    shell: Shell, agent: str, isolation: str, verdict: str
) -> None:
    (shell.folder / "a.scenario.yaml").write_text(FILES.format(name="expect", check="file_exists, path: answer.txt"))
    (shell.folder / "b.scenario.yaml").write_text(FILES.format(name="plant", check="string_contains, value: planted"))
    patience, sign = 4 if isolation == "auto" else 30, f"{shell.folder.parent.name}-{shell.folder.name}"
    variables = f"env = {{SIGN = '{sign}', PATIENCE = '{patience}', TMPDIR = '{tempfile.gettempdir()}'}}"
    (shell.folder / "steadyhand.toml").write_text(f"[agents.python]\n{variables}\n[agents.command]\n{variables}\n")
    run(shell, agent, "--isolation", isolation, "--concurrency", "2")
    trials = trials_of(shell)
    assert trials["expect"]["verdict"] == verdict
    said = "planted 0" if isolation == "auto" else "planted 1"
    assert trials["plant"]["transcript"][-1]["content"] == said


SHOP = """\
id: {name}
name: "{name}"
description: The shop refunds.
environment: {{type: local}}
setup:
  mocks:
    - {{service: shop, method: refund, response: {{ok: true}}}}
run:
  - input: "{input}"
    evaluations:
      - {{type: service_called, service: shop}}
judgment: {{strategy: all_pass}}
"""
ENVIRONMENT = "env = {{PATIENCE = '{patience}', STEADYHAND_MOCKS_URL = '{{mocks_url}}'}}"


def write_shop(folder: Path, patience: float, **inputs: str) -> None:
    for name, given in inputs.items():
        (folder / f"{name}.scenario.yaml").write_text(SHOP.format(name=name, input=given))
    env = ENVIRONMENT.format(patience=patience)
    (folder / "steadyhand.toml").write_text(f"[agents.python]\n{env}\n[agents.command]\n{env}\n")


@pytest.mark.parametrize("isolation", ["auto", "none"])
def test_another_trials_address_is_of_no_use(shell: Shell, agent: str, isolation: str) -> None:
    """Without isolation the thief finds the address of a `command:` agent, and its call is refused."""
    write_shop(shell.folder, 6, victim="wait", thief="steal", honest="honest")
    run(shell, agent, "--isolation", isolation, "--concurrency", "3")
    trials = trials_of(shell)
    assert trials["victim"]["verdict"] == "failed"
    assert (trials["honest"]["verdict"], trials["honest"]["transcript"][-1]["content"]) == ("passed", "honest 200")
    said = trials["thief"]["transcript"][-1]["content"]
    if agent.startswith("command:") and isolation == "none":
        assert "403" in said
        assert "200" not in said
        notes = [note["message"] for note in trials["victim"]["notes"]]
        assert "a request to the gateway was refused: it came from a process that this agent did not start" in notes
    else:
        assert "200" not in said


TELLING = """
import os, time
URL = os.environ["STEADYHAND_MOCKS_URL"]

def agent(message):
    with open("told.part", "w") as file:
        file.write(URL)
    os.replace("told.part", "told")
    time.sleep(1.5)
    return "nothing done"
"""


def test_an_address_that_was_passed_on_does_not_pass_later_trials(shell: Shell) -> None:
    """An outside process that is handed the address in the first trial calls it for as long as the run lasts."""
    (shell.folder / "telling.py").write_text(TELLING)
    write_shop(shell.folder, 1, refund="refund")
    over = threading.Event()
    answers: set[object] = set()

    def outside() -> None:
        while not over.is_set():
            time.sleep(0.05)
            if (shell.folder / "told").exists():
                answers.add(attacks.call((shell.folder / "told").read_text()))

    thread = threading.Thread(target=outside)
    thread.start()
    try:
        shell("run", "refund.scenario.yaml", "--agent", "python:telling.py:agent", "--trials", "4",
              "--concurrency", "1", "--json", "r.json")  # fmt: skip
    finally:
        over.set()
        thread.join()
    report = json.loads((shell.folder / "r.json").read_text())
    assert [trial["verdict"] for trial in report["trials"]] == ["failed"] * 4
    assert 403 in answers
    assert 200 not in answers


CACHING = """
import os, urllib.request
CLIENT = []

def agent(message):
    if not CLIENT:
        CLIENT.append(os.environ["STEADYHAND_MOCKS_URL"])
    urllib.request.urlopen(urllib.request.Request(CLIENT[0] + "/shop/refund", b"{}")).read()
    return "refunded"
"""


def test_a_client_that_was_made_in_the_first_trial_works_in_the_next(shell: Shell) -> None:
    (shell.folder / "caching.py").write_text(CACHING)
    write_shop(shell.folder, 1, refund="refund")
    done = shell("run", "refund.scenario.yaml", "--agent", "python:caching.py:agent", "--trials", "3",
                 "--concurrency", "1", "--json", "r.json")  # fmt: skip
    assert done.code == 0, done.out + done.err


@pytest.mark.usefixtures("forked_agents")
def test_what_a_room_needs_and_cannot_have_is_an_error_of_set_up(shell: Shell) -> None:
    shutil.copy(attacks.__file__, shell.folder / "attacks.py")
    write_project(shell.folder, ["beside"])
    done = run(shell, "python:attacks.py:agent", "--isolation", "room", "--in-process")
    assert done.code == 2
    assert "--isolation room: python:attacks.py:agent runs in this process" in done.err
    done = run(shell, "python:attacks.py:agent", "--isolation", "room", "--runs", ".")
    assert done.code == 2
    assert "contains the project; choose one of its own with --runs" in done.err


def test_in_our_process_there_is_no_isolation_and_the_run_says_so_once(shell: Shell) -> None:
    shutil.copy(attacks.__file__, shell.folder / "attacks.py")
    write_project(shell.folder, ["beside", "linked"])
    done = run(shell, "python:attacks.py:agent", "--in-process")
    assert (done.out + done.err).count("isolation: none: python:attacks.py:agent runs in this process") == 1
    assert {trial["isolation"] for trial in trials_of(shell).values()} == {"none"}


def test_what_an_agent_may_read_is_open_and_recorded(shell: Shell) -> None:
    shutil.copy(attacks.__file__, shell.folder / "attacks.py")
    write_project(shell.folder, ["beside", "copied", "recorded"])
    (shell.folder / "steadyhand.toml").write_text('agent_can_read = ["old"]\n')
    run(shell, "python:attacks.py:agent", "--agent-can-read", ".steadyhand/runs/old.txt")
    report = json.loads((shell.folder / "r.json").read_text())
    verdicts = {trial["scenario"]["id"]: trial["verdict"] for trial in report["trials"]}
    assert verdicts == {"attack": "error", "beside": "failed", "copied": "passed", "recorded": "passed"}
    assert [Path(path).name for path in report["run"]["agent_can_read"]] == ["old.txt", "old"]


def test_a_model_without_a_process_has_nothing_to_isolate(shell: Shell) -> None:
    (shell.folder / "m.scenario.yaml").write_text(SCENARIO.format(name="m", key=KEY))
    (shell.folder / "rules.yaml").write_text("rules:\n  - reply: hello\n")
    done = shell("run", "m.scenario.yaml", "--agent", "model", "--model", "scripted/rules.yaml", "--json", "r.json")
    assert trials_of(shell)["m"]["isolation"] is None
    assert "isolation" not in done.out


@pytest.mark.parametrize(
    ("isolation", "verdict"), [("auto", "failed"), ("watched", "inconclusive"), ("none", "passed")]
)
def test_commands_do_not_find_the_key_either(shell: Shell, isolation: str, verdict: str) -> None:
    """They may run what the agent has written."""
    step = f'lang: sh\n    code: "cat {shell.folder}/*.yaml; exit 0"'
    text = SCENARIO.format(name="code", key=KEY).replace('input: "code"', step)
    (shell.folder / "code.scenario.yaml").write_text(text)
    shell("run", "code.scenario.yaml", "--isolation", isolation, "--json", "r.json")
    trial = trials_of(shell)["code"]
    assert (trial["verdict"], trial["isolation"]) == (verdict, {"auto": "room"}.get(isolation, isolation))
