"""Leftovers of a killed run are found and removed; the workspaces of a running one are not touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from steadyhand.builtin.environments.cleanup import owner_file, remove_tree, sweep
from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.children.daemons import write_owner
from steadyhand.plugins.plugin import EnvironmentSettings

HARNESS = """
import asyncio, sys
from pathlib import Path
from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.plugins.plugin import EnvironmentSettings

async def main():
    local = LocalEnvironment(EnvironmentSettings(root=Path(sys.argv[1]), trial_id="victim"))
    await local.run("setsid sh -c 'echo $$; exec sleep 1000' & echo $$; exec sleep 1000", timeout_s=1000)

asyncio.run(main())
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def sleepers_of(workspace: str) -> list[int]:
    mark = f"STEADYHAND_TRIAL={workspace}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            marked = entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0")
            if marked and (entry / "comm").read_text() == "sleep\n":
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_there_may_be_no_root_yet(tmp_path):
    assert sweep(tmp_path / "none") == []


async def test_a_living_owner_keeps_its_workspace(tmp_path):
    local = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="mine"))
    await local.write("a", b"1")
    assert sweep(tmp_path) == []
    assert await local.read("a") == b"1"
    await local.teardown()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strays are found through /proc")
def test_after_a_kill_the_workspace_and_its_processes_go(tmp_path):
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(tmp_path)], env={**os.environ})
    try:
        names: list[str] = []
        while not names or len(sleepers_of(names[0])) < 2:
            assert harness.poll() is None
            names = [path.name.removesuffix(".owner") for path in tmp_path.glob("*.owner")]
        left = sleepers_of(names[0])
        assert sweep(tmp_path) == []
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    assert all(alive(pid) for pid in left)
    assert sweep(tmp_path) == names
    assert list(tmp_path.iterdir()) == []
    assert not any(alive(pid) for pid in left)


def test_another_process_with_the_same_number_is_not_the_owner(tmp_path):
    workspace = tmp_path / "w"
    workspace.mkdir()
    write_owner(owner_file(workspace))
    file = owner_file(workspace)
    text = file.read_text()
    started = text.partition('"started":"')[2].partition('"')[0]
    file.write_text(text.replace(f'"started":"{started}"', '"started":"1"'))
    assert sweep(tmp_path) == ["w"]
    assert list(tmp_path.iterdir()) == []


def test_another_machines_workspace_is_left_alone(tmp_path):
    workspace = tmp_path / "w"
    workspace.mkdir()
    write_owner(owner_file(workspace))
    file = owner_file(workspace)
    node = file.read_text().partition('"node":"')[2].partition('"')[0]
    file.write_text(file.read_text().replace(f'"node":"{node}"', '"node":"elsewhere"').replace('"pid":', '"pid":9'))
    assert sweep(tmp_path) == []
    assert workspace.is_dir()


def test_an_unreadable_owner_is_left_alone(tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w.owner").write_text("half a rec")
    assert sweep(tmp_path) == []
    assert (tmp_path / "w").is_dir()


def test_removing_what_is_not_there_is_fine(tmp_path):
    remove_tree(tmp_path / "nothing")


def test_removing_a_link_spares_its_target(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "f").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "target" / "f").read_text() == "kept"
    assert not (tmp_path / "link").is_symlink()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody whom permissions bind")
def test_read_only_folders_do_not_stop_an_ordinary_user(tmp_path):
    tree = Path("/tmp") / f"steadyhand-test-{os.getpid()}"  # the test's own folder is closed to other users
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "f").write_text("x")
    try:
        for path in (tree / "a" / "b" / "f", tree / "a" / "b", tree / "a", tree):
            os.chown(path, 65534, 65534)
            path.chmod(0o500)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                remove_tree(tree)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert not tree.exists()
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def test_an_owners_file_that_was_never_finished_is_removed_once_its_writer_is_gone(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    left = tmp_path / f"w.owner.{int(ended.stdout)}.part"
    kept = tmp_path / f"w.owner.{os.getpid()}.part"
    left.touch()
    kept.touch()
    sweep(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [kept.name]
