"""What agents open of the answer key is seen: with the process that did it where the system says, and without."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steadyhand.children.key_watch import KeyWatch, NamelessWatch, NamingWatch
from steadyhand.children.process import IsolatedChild
from steadyhand.ports.agent import AgentProcess
from steadyhand.records.isolation import AnswerKey

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="watching needs Linux")


@pytest.fixture(params=[NamingWatch, NamelessWatch])
def watch(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KeyWatch]:
    (tmp_path / "runs/deep").mkdir(parents=True)
    (tmp_path / "workspaces/other").mkdir(parents=True)
    (tmp_path / "a.yaml").write_text("secret")
    (tmp_path / "runs/deep/record").write_text("secret")
    key = AnswerKey(
        files=(str(tmp_path / "a.yaml"),), folders=(str(tmp_path / "runs"),), workspaces=str(tmp_path / "workspaces")
    )
    try:
        found = request.param(key)
    except OSError as error:
        pytest.skip(str(error))
    yield found
    found.close()


def agent(script: str) -> tuple[subprocess.Popen[bytes], AgentProcess]:
    """A process that runs the script when it is told to."""
    started = subprocess.Popen(["sh", "-c", f"read go; {script}; sleep 60"], stdin=subprocess.PIPE)
    return started, AgentProcess(started.pid, "no-mark")


def go(started: subprocess.Popen[bytes]) -> None:
    assert started.stdin is not None
    started.stdin.write(b"go\n")
    started.stdin.flush()


def end(started: subprocess.Popen[bytes]) -> None:
    started.kill()
    started.communicate()


def until_opened(watch: KeyWatch, process: AgentProcess) -> tuple[str, ...]:
    while not (opened := watch.end(process)):
        watch.begin(process)
        time.sleep(0.01)
    return opened


@pytest.mark.parametrize("take", ["ln", "mv"])
@pytest.mark.parametrize("file", ["a.yaml", "runs/deep/record", "runs/deep/later"])
def test_what_is_moved_or_linked_elsewhere_is_seen(watch: KeyWatch, tmp_path: Path, file: str, take: str) -> None:
    """Also what was made after the watch, and what is then opened in the agent's own workspace."""
    (tmp_path / "runs/deep/later").write_text("secret")
    own = tmp_path / "workspaces/own"
    own.mkdir()
    started, process = agent(f"{take} {tmp_path}/{file} {own}/innocent; exec 5< {own}/innocent")
    try:
        watch.begin(process, own)
        go(started)
        assert str(tmp_path / file) in until_opened(watch, process)
    finally:
        end(started)


@pytest.mark.parametrize("file", ["a.yaml", "runs/deep/record"])
def test_what_a_process_opens_is_seen(watch: KeyWatch, tmp_path: Path, file: str) -> None:
    started, process = agent(f"exec 5< {tmp_path}/{file}")
    try:
        watch.begin(process)
        go(started)
        assert until_opened(watch, process)[0] == str(tmp_path / file)
        assert watch.end(process)[0] == str(tmp_path / file)  # it may have kept it
    finally:
        end(started)


def test_what_was_opened_before_the_turn_does_not_count(watch: KeyWatch, tmp_path: Path) -> None:
    process = AgentProcess(0, "no-mark")
    subprocess.run(["cat", str(tmp_path / "a.yaml")], check=True, stdout=subprocess.DEVNULL)
    watch.begin(process)
    assert watch.end(process) == ()


def test_what_is_opened_between_two_turns_counts_in_the_next(watch: KeyWatch, tmp_path: Path) -> None:
    started, process = agent(f"exec 5< {tmp_path}/a.yaml; touch {tmp_path}/done")
    try:
        watch.begin(process)
        assert watch.end(process) == ()
        go(started)
        while not (tmp_path / "done").exists():
            time.sleep(0.01)
        watch.begin(process)
        assert watch.end(process) == (str(tmp_path / "a.yaml"),)
    finally:
        end(started)


def test_a_process_that_ends_at_once_is_not_missed(watch: KeyWatch, tmp_path: Path) -> None:
    process = AgentProcess(0, "no-mark")
    watch.begin(process)
    subprocess.run(["cat", str(tmp_path / "a.yaml")], check=True, stdout=subprocess.DEVNULL)
    assert watch.end(process) == (str(tmp_path / "a.yaml"),)


def test_where_the_process_is_known_only_its_own_agent_counts(watch: KeyWatch, tmp_path: Path) -> None:
    reading, reader = agent(f"exec 5< {tmp_path}/a.yaml")
    idle, bystander = agent("true")
    try:
        watch.begin(reader)
        watch.begin(bystander)
        go(reading)
        assert until_opened(watch, reader)
        named = isinstance(watch, NamingWatch)
        assert watch.end(bystander) == (() if named else (str(tmp_path / "a.yaml"),))
    finally:
        for each in (reading, idle):
            end(each)


def test_a_look_at_the_folder_of_all_workspaces_or_into_another_one_is_seen(watch: KeyWatch, tmp_path: Path) -> None:
    other = AgentProcess(0, "other")
    watch.begin(other, tmp_path / "workspaces/other")
    looking, process = agent(f"ls {tmp_path}/workspaces; exec 5> {tmp_path}/workspaces/other/planted")
    try:
        watch.begin(process)
        go(looking)
        opened = until_opened(watch, process)
        assert opened[0].startswith(str(tmp_path / "workspaces"))
    finally:
        end(looking)


def test_what_a_check_of_the_users_opens_is_not_the_agents(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text("")
    (tmp_path / "runs").mkdir()
    key = AnswerKey(files=(str(tmp_path / "checks.py"),), workspaces=str(tmp_path / "runs"))
    try:
        watch = NamingWatch(key)
    except OSError as error:
        pytest.skip(str(error))
    started, process = agent("true")
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'checks.py')!r})")
    own = IsolatedChild(tmp_path / "own.py")
    own.trust()
    try:
        watch.begin(process)
        own.connection.recv(1)  # until it has ended
        own.connection.close()
        own.bury()
        assert watch.end(process) == ()
        watch.begin(process)
        subprocess.run(["cat", str(tmp_path / "checks.py")], check=True)
        assert watch.end(process) == (str(tmp_path / "checks.py"),)
    finally:
        end(started)
        watch.close()
