"""Rooms by each means that this machine has: the key is closed, and everything else is as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from steadyhand.children.room import Means, Room, find_room
from steadyhand.records.isolation import AnswerKey

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="rooms need Linux")

LOOK = """
import json, os, subprocess, sys

def tried(work):
    try:
        return work()
    except OSError as error:
        return type(error).__name__

def write(path, text="changed"):
    with open(path, "a") as file:
        file.write(text)
    return "written"

top = sys.argv[1]
print(json.dumps({
    "scenario": tried(lambda: open(f"{top}/project/a.yaml").read()),
    "written scenario": tried(lambda: write(f"{top}/project/a.yaml")),
    "removed scenario": tried(lambda: os.unlink(f"{top}/project/a.yaml")),
    "git": tried(lambda: open(f"{top}/project/.git/objects/ab").read()),
    "new record": tried(lambda: write(f"{top}/runs/new")),
    "other workspace": tried(lambda: open(f"{top}/workspaces/other/file").read()),
    "planted": tried(lambda: write(f"{top}/workspaces/other/planted")),
    "program": tried(lambda: open(f"{top}/judge/program.py").read()),
    "written program": tried(lambda: write(f"{top}/judge/program.py")),
    "new in the program": tried(lambda: write(f"{top}/judge/inner/new.py")),
    "removed program": tried(lambda: os.unlink(f"{top}/judge/program.py")),
    "renamed program": tried(lambda: os.rename(f"{top}/judge", f"{top}/other")),
    "renamed project": tried(lambda: os.rename(f"{top}/project", f"{top}/other")),
    "own workspace": tried(lambda: write(f"{top}/workspaces/own/file")),
    "code": tried(lambda: open(f"{top}/project/agent.py").read()),
    "written code": tried(lambda: write(f"{top}/project/agent.py", "")),
    "new in a folder": tried(lambda: write(f"{top}/project/data/new")),
    "environment of others": tried(lambda: open(f"/proc/{sys.argv[2]}/environ", "rb").read() and "read"),
    "variable": os.environ.get("GIVEN"),
    "unmounted": subprocess.run(["umount", f"{top}/project/a.yaml"], capture_output=True).returncode == 0,
    "started": subprocess.run(["true"]).returncode,
}))
"""
CLOSED = {"FileNotFoundError", "PermissionError", "OSError", ""}
OPEN = {
    "program": "code",
    "own workspace": "written",
    "code": "code",
    "written code": "written",
    "new in a folder": "written",
    "variable": "given",
    "unmounted": False,
    "started": 0,
}


@pytest.fixture
def key(tmp_path: Path) -> AnswerKey:
    top = tmp_path.resolve()
    for folder in ("workspaces/own", "workspaces/other", "project/.git/objects", "project/data", "runs"):
        (top / folder).mkdir(parents=True)
    (top / "project/a.yaml").write_text("secret")
    (top / "project/.git/objects/ab").write_text("secret")
    (top / "project/agent.py").write_text("code")
    (top / "workspaces/other/file").write_text("secret")
    (top / "empty").touch(0o444)
    (top / "judge/inner").mkdir(parents=True)
    (top / "judge/program.py").write_text("code")
    return AnswerKey(
        files=(str(top / "project/a.yaml"),),
        folders=(str(top / "project/.git"), str(top / "runs")),
        workspaces=str(top / "workspaces"),
        fixed=(str(top / "judge"),),
    )


def room(key: AnswerKey, means: Means) -> Room:
    found = Room(key, means)
    if (refusal := found.refusal()) is not None:
        pytest.skip(refusal)
    return found


MEANS = pytest.mark.parametrize("means", ["bubblewrap", "namespaces", "landlock"])


@MEANS
def test_the_key_is_closed_and_everything_else_is_open(key: AnswerKey, means: Means, tmp_path: Path) -> None:
    top = tmp_path.resolve()
    command = room(key, means).command(
        [sys.executable, "-c", LOOK, str(top), str(os.getpid())], [top / "workspaces/own"]
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "GIVEN": "given"})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    closed = {name: found[name] for name in found if name not in OPEN}
    assert set(closed.values()) <= CLOSED, closed
    assert {name: found[name] for name in OPEN} == OPEN
    assert (top / "project/a.yaml").read_text() == "secret"
    assert (top / "judge/program.py").read_text() == "code"
    assert list((top / "judge/inner").iterdir()) == []
    assert sorted(path.name for path in (top / "workspaces/other").iterdir()) == ["file"]
    assert (top / "workspaces/own/file").read_text() == "changed"
    assert list((top / "runs").iterdir()) == []


def test_what_covers_the_key_is_not_put_in_its_place(key: AnswerKey, tmp_path: Path) -> None:
    """bubblewrap mounts an empty file over each file of the key, in every room that is made after this one."""
    top = tmp_path.resolve()
    made = room(key, "bubblewrap")
    (top / "moved").mkdir()
    for attack in (
        f"rm -f {top}/empty; ln -s {top}/project/a.yaml {top}/empty",
        f"chmod u+w {top}/empty; echo other > {top}/empty",
        f"mv {top} {top}-moved; mkdir {top}; ln -s {top}-moved/project/a.yaml {top}/empty",
        f"mv {top}/empty {top}/moved/empty; ln -s {top}/project/a.yaml {top}/empty",
    ):
        subprocess.run(made.command(["sh", "-c", attack], ()), stderr=subprocess.DEVNULL, check=False)
        seen = subprocess.run(made.command(["cat", f"{top}/project/a.yaml"], ()), capture_output=True, check=True)
        assert seen.stdout == b"", attack


def test_whatever_is_in_the_place_of_what_covers_the_key_is_replaced(key: AnswerKey, tmp_path: Path) -> None:
    blank = tmp_path.resolve() / "empty"
    for put in (lambda: blank.symlink_to(key.files[0]), lambda: blank.write_text("other"), lambda: None):
        blank.unlink(missing_ok=True)
        put()
        if isinstance(found := find_room(key), str):
            pytest.skip(found)
        assert (blank.is_symlink(), blank.read_bytes()) == (False, b"")
    assert Path(key.files[0]).read_text() == "secret"


@MEANS
def test_a_program_that_closes_its_output_is_seen_to_have_done_so(key: AnswerKey, means: Means) -> None:
    program = "import os, sys, time; os.write(1, b'said'); os.close(1); sys.stdin.read()"
    command = room(key, means).command([sys.executable, "-c", program], ())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.read() == b"said"
        assert started.poll() is None


@MEANS
def test_exit_code_and_signal_are_passed_on(key: AnswerKey, means: Means) -> None:
    made = room(key, means)
    assert subprocess.run(made.command(["sh", "-c", "exit 7"], ()), check=False).returncode == 7
    killed = subprocess.run(made.command(["sh", "-c", "kill -9 $$"], ()), check=False).returncode
    assert killed in (-signal.SIGKILL, 128 + signal.SIGKILL)


@MEANS
def test_nothing_outlives_the_room(key: AnswerKey, means: Means, tmp_path: Path) -> None:
    if means == "landlock":
        pytest.skip("what is left running is found by its marks")
    own = tmp_path.resolve() / "workspaces/own"
    script = f"(while true; do sleep 0.05; done) & echo $! > {own}/pid; exit 0"
    subprocess.run(room(key, means).command(["sh", "-c", script], [own]), check=True)
    # The kernel ends what is in the room when its first process has ended; the command may return a moment before.
    for _ in range(1000):
        if not (left := _command_lines_naming(str(own))):
            break
        time.sleep(0.01)
    assert not left


def _command_lines_naming(text: str) -> list[bytes]:
    found: list[bytes] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return [each for each in found if text.encode() in each]


def test_the_first_means_that_works_is_taken(key: AnswerKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    found = find_room(key)
    if isinstance(found, str):
        pytest.skip(found)
    assert found.means in ("namespaces", "landlock")
