"""A run that is killed leaves no process and no workspace behind; what SIGKILL leaves, the next run removes."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from support.room_numbers import number_outside
from support.shell import AGENT

pytestmark = [pytest.mark.system, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]

STEP = """\
  - code: |
      echo x > left.txt
      (setsid sleep 300 &)
      sleep 300 &
      sleep {seconds}
      echo hello"""
MOCKS = """\
setup:
  mocks:
    - {service: s, method: m, when: {matcher: 'true'}, response: 1}
run:"""
CODE = AGENT.replace('  - input: "Hello"', STEP)
MOCKED = AGENT.replace("run:", MOCKS)


def processes(mark: str) -> list[str]:
    """The processes with `mark` in their environment: everything that a run with that TMPDIR has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


def workspaces(temporary: Path) -> list[Path]:
    return [left for root in temporary.glob("steadyhand-*/workspaces") for left in root.iterdir()]


def wait_until_gone(mark: str) -> list[str]:
    """What is left after the system has had time to reap it."""
    for _ in range(100):
        left = processes(mark)
        if not left:
            return []
        time.sleep(0.05)
    return processes(mark)


def kill_once(shell, number: int, how: str) -> None:
    draw = random.Random(number)
    temporary = shell.folder / f"tmp{number}"
    temporary.mkdir()
    for index in range(4):
        shell.write(f"s{number}/{index}.scenario.yaml", CODE.replace("{seconds}", str(draw.uniform(0.05, 1.0))))
    shell.write(f"s{number}/mocked.scenario.yaml", MOCKED)
    shell.write(f"s{number}/replies.yaml", "rules:\n  - {reply: hello, delay_ms: 500}\n")
    shell.write(f"s{number}/steadyhand.toml", 'model = "scripted/replies.yaml"\n')
    mark = str(temporary)
    process = shell.start("run", f"s{number}", "--trials", "3", "--concurrency", "3", TMPDIR=mark)
    time.sleep(draw.uniform(0.2, 2.0))
    process.send_signal(getattr(signal, how))
    if how == "SIGINT":
        time.sleep(draw.uniform(0.0, 0.2))
        process.send_signal(signal.SIGINT)
    process.communicate()
    if how == "SIGKILL":
        shell.decision(f"next{number}.yaml")
        shell("run", f"next{number}.yaml", "--model", f"scripted/s{number}/replies.yaml", TMPDIR=mark)
    assert wait_until_gone(mark) == []
    assert workspaces(temporary) == []


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL", "SIGHUP"])
@pytest.mark.parametrize("number", range(3))
def test_nothing_is_left_behind(shell, number, how):
    kill_once(shell, number, how)


DAEMON = """
import subprocess, sys

def answer(message):
    subprocess.Popen(["sleep", "300"], start_new_session=True)
    return "hello"
"""


def test_what_a_python_agent_leaves_running_in_a_session_of_its_own_ends_with_its_process(shell):
    shell.write("agent.py", DAEMON)
    shell.write("one.scenario.yaml", AGENT.replace("run:", "agent: python:./agent.py:answer\nrun:"))
    mark = str(shell.folder / "tmp")
    (shell.folder / "tmp").mkdir()
    ended = shell("run", "one.scenario.yaml", "--trials", "3", TMPDIR=mark)
    assert ended.code == 0, ended
    assert wait_until_gone(mark) == []


WIPED = """
import os, time

def answer(message):
    tell = os.environ["TELL"]
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.closerange(0, 64)
            os.execve("/bin/sh", ["sh", "-c", f"echo $$ > {tell}.part; mv {tell}.part {tell}; exec sleep 600"], {})
        os._exit(0)
    os.wait()
    time.sleep(600)
"""


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize(
    ("how", "way"),
    [
        ("SIGHUP", ()),
        ("SIGTERM", ()),
        ("SIGKILL", ()),
        ("SIGTERM", ("--workers", "2", "--concurrency", "1")),  # one worker
        ("SIGKILL", ("--workers", "2", "--concurrency", "1")),
    ],
)
def test_a_python_agents_daemon_ends_with_a_run_that_is_ended(shell, how, way):
    """The daemon has wiped its environment, left its group and session, and lost its parent."""
    shell.write("agent.py", WIPED)
    shell.write("one.scenario.yaml", AGENT.replace("run:", "agent: python:./agent.py:answer\nrun:"))
    tell = shell.folder / "daemon.pid"
    (shell.folder / "tmp").mkdir()
    given = {"TMPDIR": str(shell.folder / "tmp"), "TELL": str(tell)}
    process = shell.start("run", "one.scenario.yaml", *way, **given)
    while not tell.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    daemon = number_outside(int(tell.read_text()), below=process.pid)
    assert lives(daemon)
    for _ in range(1 if how == "SIGHUP" else 2):  # the first signal lets trials finish, which this one never does
        if process.poll() is None:
            process.send_signal(getattr(signal, how))
            time.sleep(0.2)
    process.communicate()
    if how == "SIGKILL":
        shell.replies("rules:\n  - {reply: hello}\n")
        shell.write("two.scenario.yaml", AGENT)
        assert shell("run", "two.scenario.yaml", **given).code == 0
    while lives(daemon):
        time.sleep(0.02)
    assert workspaces(shell.folder / "tmp") == []


@pytest.mark.slow
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_nothing_is_left_behind_at_25_random_moments(shell, how):
    for number in range(100, 125):
        kill_once(shell, number, how)
