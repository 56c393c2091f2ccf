"""What the local environment promises beyond the contract: hostile paths, hostile processes, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvloop

from steadyhand.builtin.environments.files import LocalLimits
from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.errors import WorkspaceError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.records.result import FileSystemOperation
from support.patience import with_enough_time

linux_only = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strays are found through /proc")


@pytest.fixture
async def local(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    made = LocalEnvironment(EnvironmentSettings(root=tmp_path / "root", trial_id="a trial/of#1"))
    yield made
    await made.teardown()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def pid_in(local: LocalEnvironment, path: str) -> int:
    for _ in range(500):
        if text := await local.read(path):
            return int(text)
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was never written")


async def test_a_trial_without_files_costs_nothing(local, tmp_path):
    await local.setup([])
    assert await local.read("x") is None
    assert await local.list_files() == []
    assert await local.capture() == {}
    await local.teardown()
    assert not (tmp_path / "root").exists()


async def test_teardown_leaves_the_root_empty(local, tmp_path):
    await local.setup([FileSystemOperation(path="a", content=b"")])
    await local.run("mktemp; mkdir -p x/y; ln -s / x/root")
    assert {path.name.rpartition(".")[2] for path in (tmp_path / "root").iterdir()} >= {"owner", "tmp"}
    await local.teardown()
    assert list((tmp_path / "root").iterdir()) == []
    with pytest.raises(WorkspaceError, match="torn down"):
        await local.write("late", b"")


async def test_temporary_files_are_not_output(local):
    ran = await local.run("mktemp")
    assert ran.exit_code == 0
    assert await local.list_files() == []


async def test_only_harmless_variables_are_passed_on(local, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    monkeypatch.setenv("LC_TIME", "C")
    ran = await local.run(["env"], env={"MINE": "1"})
    names = {line.partition("=")[0] for line in ran.stdout.splitlines()}
    allowed = {"PATH", "HOME", "PWD", "TERM", "TMPDIR", "LANG", "TZ", "MINE", "STEADYHAND_TRIAL", "STEADYHAND_COMMAND"}
    assert {name for name in names if not name.startswith("LC_")} <= allowed
    assert {"PATH", "HOME", "TMPDIR", "LC_TIME", "MINE"} <= names


async def test_a_link_that_leads_out_is_not_a_file(local, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    await local.run(
        f"ln -s {secret} file; ln -s {tmp_path} folder; ln -s ../../secret.txt up; ln -s loop loop;"
        "ln -s folder chain; mkdir d; ln -s ../../../secret.txt d/up"
    )
    for path in ("file", "folder/secret.txt", "up", "loop", "chain/secret.txt", "d/up"):
        assert await local.read(path) is None, path
        with pytest.raises(WorkspaceError):
            await local.write(path, b"overwritten")
    with pytest.raises(WorkspaceError):
        await local.write("folder/new.txt", b"new")
    assert secret.read_text() == "secret"
    assert not (tmp_path / "new.txt").exists()
    assert await local.list_files() == []
    assert await local.capture() == {}


async def test_links_inside_are_followed(local):
    await local.write("d/real.txt", b"real")
    await local.run('ln -s d/real.txt near; ln -s "$PWD/d" far; ln -s ../d/./real.txt d/up')
    for path in ("near", "far/real.txt", "d/up"):
        assert await local.read(path) == b"real", path
    await local.write("far/new.txt", b"new")
    assert await local.read("d/new.txt") == b"new"
    assert await local.list_files() == ["d/new.txt", "d/real.txt"]


async def test_the_workspaces_own_host_path_is_understood(local):
    ran = await local.run("echo hi > f; echo $PWD/f")
    assert await local.read(ran.stdout.strip()) == b"hi\n"


async def test_pipes_and_sockets_do_not_hang_a_read(local):
    await local.run("mkfifo pipe")
    assert await local.read("pipe") is None
    with pytest.raises(WorkspaceError):
        await local.write("pipe", b"x")
    assert await local.capture() == {}


async def test_a_replaced_workspace_is_not_trusted(local, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("theirs")
    await local.run(f'cd /; rm -rf "$HOME"; ln -s {outside} "$HOME"')
    assert await local.read("f") is None
    with pytest.raises(WorkspaceError):
        await local.write("f", b"ours")
    await local.teardown()
    assert (outside / "f").read_text() == "theirs"


async def test_a_removed_workspace_is_made_again(local):
    await local.run('cd /; rm -rf "$HOME"')
    assert (await local.run("pwd")).stdout.strip() == str(local.workspace)


async def test_a_flood_of_output_keeps_head_and_tail(local):
    ran = await local.run("echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert ran.exit_code == 0
    assert ran.truncated
    assert ran.stdout.startswith("first\nxxx")
    assert ran.stdout.endswith("xxx\nlast\n")
    assert len(ran.stdout) < 1024 * 1024 + 100
    assert "98951436 bytes left out" in ran.stdout


async def test_endless_output_ends_with_the_timeout(local):
    ran = await with_enough_time(lambda seconds: local.run("yes", timeout_s=3 * seconds), lambda ran: ran.truncated)
    assert ran.timed_out
    assert ran.truncated


async def test_a_background_child_that_holds_the_output_open_does_not_hang(local):
    ran = await local.run("sleep 1000 & echo $! > pid; echo done")
    assert ran.stdout == "done\n"
    assert not ran.timed_out
    assert not alive(await pid_in(local, "pid"))


DAEMONS = {
    "new session": "setsid sh -c 'echo $$ > pid; exec sleep 1000' & until test -s pid; do sleep 0.01; done",
    "double fork": f"""{sys.executable} -c '
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("pid.new", "w").write(str(os.getpid())); os.rename("pid.new", "pid")
        time.sleep(1000)
    os._exit(0)
os.wait()
'; until test -s pid; do sleep 0.01; done""",
    "silent": "setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 </dev/null & "
    "until test -s pid; do sleep 0.01; done",
    "without a trace": (
        "here=$PWD; cd /; env -i setsid sh -c '(setsid sh -c \"echo \\$\\$ > $0/pid; exec sleep 1000\" &)' $here"
        " > /dev/null 2>&1 < /dev/null; until test -s $here/pid; do sleep 0.01; done"
    ),
}


@linux_only
@pytest.mark.parametrize("script", DAEMONS.values(), ids=DAEMONS.keys())
async def test_a_daemon_does_not_outlive_its_command(local, script):
    ran = await local.run(script, timeout_s=20)
    assert (ran.exit_code, ran.timed_out) == (0, False)
    assert not alive(await pid_in(local, "pid"))


@linux_only
async def test_a_daemon_that_wiped_its_environment_does_not_outlive_the_trial(local):
    await local.run("env -i setsid sh -c 'echo $$ > pid; sleep 1000' & until test -s pid; do sleep 0.01; done")
    pid = await pid_in(local, "pid")
    await local.teardown()
    assert not alive(pid)


@linux_only
async def test_a_timeout_kills_the_daemons_too(local):
    command = (
        "setsid sh -c 'echo $$ > pid; exec sleep 1000' & until test -s pid; do sleep 0.01; done; echo begun; sleep 1000"
    )
    ran = await with_enough_time(
        lambda seconds: local.run(command, timeout_s=5 * seconds), lambda ran: bool(ran.stdout)
    )
    assert (ran.timed_out, ran.stdout) == (True, "begun\n")
    assert not alive(await pid_in(local, "pid"))


async def test_cancelling_at_the_start_leaves_nothing_running(local):
    """At any moment of the start, even if the program is already running and nobody has been told."""
    for rounds in range(6):
        running = asyncio.create_task(local.run("echo $$ > pid; sleep 60; true"))
        for _ in range(rounds):
            await asyncio.sleep(0)
        time.sleep(0.05)  # noqa: ASYNC251 - the program gets on, and our loop does not hear of it
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        if text := await local.read("pid"):
            assert not alive(int(text)), rounds
        assert not running_in(local), rounds


def running_in(local: LocalEnvironment) -> list[str]:
    folder = str(local.workspace)
    found: list[str] = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and str((process / "cwd").readlink()).startswith(folder):
                found.append((process / "cmdline").read_text())
    return found


async def test_cancelling_kills_the_command(local):
    running = asyncio.create_task(local.run("trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"))
    pid = await pid_in(local, "pid")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not alive(pid)


async def test_a_running_command_survives_the_end_of_another(local):
    running = asyncio.create_task(local.run("echo $$ > up; until test -e go; do sleep 0.02; done; echo survived"))
    await pid_in(local, "up")
    await local.run("setsid sleep 1000 & true")
    await local.write("go", b"")
    assert (await running).stdout == "survived\n"


async def test_the_event_loop_turns_while_a_command_floods(local):
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.001)
            turns += 1

    counting = asyncio.create_task(count())
    await with_enough_time(lambda seconds: local.run("yes", timeout_s=5 * seconds), lambda _: turns > 50)
    counting.cancel()
    assert turns > 50


async def test_capture_keeps_sizes_past_its_limits(tmp_path):
    limits = LocalLimits(captured_file=10, captured_total=25, captured_files=4)
    local = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"), limits)
    await local.setup(
        [
            FileSystemOperation(path=name, content=b"x" * size)
            for name, size in (("a", 10), ("b", 11), ("c", 10), ("d", 6), ("e", 1))
        ]
    )
    captured = await local.capture()
    await local.teardown()
    kept = {path: (file.size, file.content is not None) for path, file in captured.items()}
    assert kept == {"a": (10, True), "b": (11, False), "c": (10, True), "d": (6, False), "e": (1, False)}


async def test_a_file_too_large_to_read_is_said_to_be(tmp_path):
    local = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"), LocalLimits(read=3))
    await local.write("three", b"123")
    await local.write("four", b"1234")
    assert await local.read("three") == b"123"
    with pytest.raises(WorkspaceError, match="larger than 3 bytes"):
        await local.read("four")
    await local.teardown()


async def test_what_cannot_be_run_at_all_is_a_workspace_error(local):
    for command in ([], "echo \0", ["echo", "a\0b"], "x" * 3_000_000):
        with pytest.raises(WorkspaceError):
            await local.run(command)
    with pytest.raises(WorkspaceError, match="NUL"):
        await local.run("env", env={"A": "b\0c"})


async def test_a_file_that_is_not_a_program_cannot_be_run(local):
    await local.write("data", b"not a program")
    assert (await local.run(["./data"])).exit_code == 126
    await local.run("chmod +x data")
    assert (await local.run(["./data"])).exit_code == 126


async def test_a_stopped_program_is_killed_on_timeout(local):
    ran = await local.run("echo $$ > pid; kill -STOP $$", timeout_s=0.3)
    assert (ran.timed_out, ran.exit_code) == (True, 128 + signal.SIGKILL)


async def test_duration_is_the_commands_own(local):
    began = time.perf_counter()
    ran = await local.run("sleep 0.2")
    assert 200 <= ran.duration_ms <= (time.perf_counter() - began) * 1000


async def test_read_only_and_deep_folders_are_removed(local):
    await local.run("mkdir -p a/b/c; touch a/b/c/f; chmod -R a-w a; chmod 000 a/b/c; chmod 500 .")
    deep = "import os\nfor _ in range(1500):\n    os.mkdir('deep'); os.chdir('deep')"
    assert (await local.run([sys.executable, "-c", deep])).exit_code in ((0,) if os.getuid() == 0 else (0, 1))
    await local.teardown()
    assert not local.workspace.exists()


@linux_only
@pytest.mark.parametrize(
    "check",
    [
        test_a_flood_of_output_keeps_head_and_tail,
        test_endless_output_ends_with_the_timeout,
        test_a_background_child_that_holds_the_output_open_does_not_hang,
        test_a_timeout_kills_the_daemons_too,
        test_cancelling_kills_the_command,
        test_cancelling_at_the_start_leaves_nothing_running,
        test_what_cannot_be_run_at_all_is_a_workspace_error,
        test_a_stopped_program_is_killed_on_timeout,
    ],
)
def test_it_is_the_same_on_uvloop(check, tmp_path):
    async def run() -> None:
        local = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"))
        try:
            await check(local)
        finally:
            await local.teardown()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
