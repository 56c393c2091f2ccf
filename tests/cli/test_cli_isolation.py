"""What an agent, a model or a bug of ours can do to a run, and what the exit code then says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from steadyhand.batch.local import Batch, InProcess, trial_runner
from steadyhand.batch.plan import Plan
from steadyhand.cli.main import explain
from steadyhand.cli.run import Reports, carry_out
from steadyhand.compose.run import Run
from steadyhand.engine.limits import SpendingLimit
from steadyhand.errors import ExitCode
from steadyhand.judging.cost import Prices
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialRecord
from support.shell import Shell
from support.trial import a_scenario

pytestmark = pytest.mark.system


@pytest.fixture
def shell(either_shell: Shell) -> Shell:
    """Agents attack as the user who runs the tests, and as an ordinary user."""
    return either_shell


AGENT = """
import asyncio, os, sys

async def agent(message, action):
    if message == "exit": os._exit(0)
    if message == "folder": os.chdir("/")
    if message == "cancel": asyncio.current_task().cancel(); await asyncio.sleep(30)
    if message == "print": print("on stdout")
    if message == "none": action("X", {None: 1})
    if message == "pair": action("X", {(1, 2): 3})
    if message == "true": action("X", {True: 1}, {None: {None: float("nan")}})
    if message == "endless":
        endless = {}
        endless["self"] = endless
        action("X", endless, endless)
    if message == "deep":
        deep = []
        for _ in range(100_000): deep = [deep]
        action("X", {"deep": deep}, deep)
    return "hello"
"""
SCENARIO = """\
name: "{word}"
description: It answers.
environment: {{type: local}}
run:
  - input: "{word}"
    evaluations:
      - {{type: string_contains, value: hello}}
judgment: {{strategy: all_pass}}
"""


def write(folder: Path, *words: str) -> None:
    (folder / "mine.py").write_text(AGENT)
    for word in words:
        (folder / f"{word}.scenario.yaml").write_text(SCENARIO.format(word=word))


def verdicts(folder: Path) -> dict[str, str]:
    trials = json.loads((folder / "r.json").read_text())["trials"]
    return {trial["scenario"]["name"]: trial["verdict"] for trial in trials}


RUN = ("run", ".", "--agent", "python:./mine.py:agent", "--json", "r.json", "--concurrency", "2")


def test_an_agent_that_ends_its_process_fails_nobody_else_and_never_the_exit_code(shell):
    words = ("a", "b", "cancel", "exit", "folder", "print", "z")
    write(shell.folder, *words)
    ended = shell(*RUN)
    assert ended.code == ExitCode.UNDECIDED
    expected = {word: "error" if word in ("cancel", "exit") else "passed" for word in words}
    assert verdicts(shell.folder) == expected
    assert "its process ended with exit code 0" in ended.out
    assert "on stdout" not in ended.out.replace("the agent printed: on stdout", "")


def test_in_one_process_a_cancelled_trial_is_an_error_and_eats_no_other(shell):
    words = ("a", "b", "cancel", "y", "z")
    write(shell.folder, *words)
    ended = shell(*RUN, "--in-process")
    assert ended.code == ExitCode.UNDECIDED
    assert verdicts(shell.folder) == {word: "error" if word == "cancel" else "passed" for word in words}


STUCK = """
import asyncio, os, pathlib
async def agent(workspace):
    pathlib.Path(os.environ["TELL"]).write_text(str(os.getpid()))
    while True:
        try: await asyncio.sleep(30)
        except asyncio.CancelledError: pass
"""


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


def _agents(folder: Path) -> list[str]:
    """The processes of agents that were started in the folder. The number that an agent gives is that of its room."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            here = (process / "cwd").readlink() == folder.resolve()
            if here and b"python_child:main" in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    "signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM), (signal.SIGKILL,)]
)
def test_a_run_with_a_stuck_agent_is_stopped_and_leaves_no_process(shell, signals):
    write(shell.folder, "a")
    (shell.folder / "mine.py").write_text(STUCK)
    tell = shell.folder / "pid"
    running = shell.start("run", ".", "--agent", "python:./mine.py:agent", TELL=str(tell))
    _until(lambda: running.poll() is not None or (tell.is_file() and bool(tell.read_text())))
    assert running.poll() is not None or _agents(shell.folder)
    for each in signals:
        running.send_signal(each)
        time.sleep(0.3)
    out, err = running.communicate()
    assert running.returncode == (-signal.SIGKILL if signals == (signal.SIGKILL,) else ExitCode.INTERRUPTED), out + err
    _until(lambda: not _agents(shell.folder))


@pytest.mark.usefixtures("forked_agents")
@pytest.mark.parametrize("way", [(), ("--in-process",)])
def test_no_value_makes_a_record_unreadable(shell, way):
    write(shell.folder, "a", "none", "pair", "true", "endless", "deep", "z")
    ended = shell(*RUN, *way)
    assert ended.code == 0, ended.out + ended.err
    assert Counter(verdicts(shell.folder).values()) == {"passed": 7}
    assert shell("show", "last", "--json", "again.json").code == 0
    again = json.loads((shell.folder / "again.json").read_text())
    params = {
        trial["scenario"]["name"]: trial["trajectory"][0]["params"] for trial in again["trials"] if trial["trajectory"]
    }
    assert params["none"] == {"null": 1}
    assert params["pair"] == {"(1, 2)": 3}
    assert params["true"] == {"true": 1}
    assert params["endless"] == {"self": "[contains itself]"}
    assert shell("resume", "last").code == 0
    assert "7" in shell("runs").out


@pytest.mark.usefixtures("forked_agents")
def test_one_unreadable_trial_hides_no_other_and_is_done_again(shell):
    write(shell.folder, "a", "b", "c")
    assert shell(*RUN).code == 0
    (record,) = (shell.folder / ".steadyhand/runs").glob("*.sqlite")
    connection = sqlite3.connect(record)
    connection.execute("UPDATE trial SET body=x'00' WHERE name='b'")
    connection.commit()
    connection.close()
    shown = shell("show", "last", "--json", "r.json")
    assert verdicts(shell.folder) == {"a": "passed", "b": "error", "c": "passed"}
    assert "a trial of the run record is damaged" in shown.out
    ended = shell("resume", "last", "--json", "r.json")
    assert (ended.code, verdicts(shell.folder)) == (0, dict.fromkeys("abc", "passed"))
    assert "1 of 3 trials left to run" in ended.err


def test_a_bug_is_one_line_a_file_and_three(capsys):
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018 - on purpose
    assert explain(raised.value) == ExitCode.UNDECIDED
    (line,) = capsys.readouterr().err.splitlines()
    path = Path(line.rpartition(" ")[2])
    assert "unexpected ZeroDivisionError" in line
    assert "ZeroDivisionError: division by zero" in path.read_text()
    path.unlink()


class CrashingLimit(SpendingLimit):
    """Raises an unexpected exception, once, when the trials are done."""

    crashed: bool = False

    def may_start(self) -> bool:
        return True

    @property
    def exhausted(self) -> str | None:
        if not self.crashed:
            self.crashed = True
            raise ZeroDivisionError("ours")
        return None


def test_a_run_that_crashes_is_reported_as_far_as_it_came(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a", "b")
    run = Run(Selection(paths=(".",)), RunOptions(agent="python:./mine.py:agent", in_process=True))
    monkeypatch.setattr("steadyhand.compose.execution.budget_of", lambda _: CrashingLimit(Prices()))
    assert carry_out(run, Reports(), silent=True) == ExitCode.UNDECIDED
    told = capsys.readouterr()
    assert "2 passed" in told.out
    assert "unexpected ZeroDivisionError" in told.err
    assert "steadyhand resume" in told.err


@pytest.mark.parametrize("raised", [ValueError("ours"), RecursionError(), GeneratorExit(), SystemExit(0)])
def test_what_a_trial_raises_is_its_own_error(raised):
    kept: list[TrialRecord] = []

    def build(planned):
        raise raised

    def keep(record: TrialRecord) -> TrialRecord:
        kept.append(record)
        return record

    batch = Batch(InProcess(trial_runner(build), places=2), keep=keep)
    asyncio.run(batch.run(Plan([a_scenario()], seed=1, trials=5)))
    assert [record.judged.verdict for record in kept] == [Verdict.ERROR] * 5
    assert type(raised).__name__ in kept[0].judged.reason
