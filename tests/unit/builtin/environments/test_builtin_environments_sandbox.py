"""What a sandboxed command can reach, and that nothing runs without the sandbox that was requested."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.environments.process import Command
from steadyhand.builtin.environments.sandbox import (
    Confinement,
    bubblewrap,
    run_confined,
    sandbox_available,
    search_path,
)
from steadyhand.errors import SetupError, WorkspaceError
from steadyhand.plugins.plugin import EnvironmentSettings

REFUSAL = sandbox_available()
needs_sandbox = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))


def _content(path: str) -> bytes | None:
    return Path(path).read_bytes() if Path(path).exists() else None


@pytest.fixture
async def sandbox(tmp_path):
    made = LocalEnvironment(EnvironmentSettings(root=tmp_path / "root", trial_id="t", options={"sandbox": True}))
    yield made
    await made.teardown()


@needs_sandbox
async def test_it_says_what_it_is(sandbox, tmp_path):
    assert sandbox.sandboxed
    assert not LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t")).sandboxed


@needs_sandbox
async def test_there_is_no_network(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ran = await sandbox.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
    assert "connected" not in ran.stdout
    assert ran.exit_code != 0


@needs_sandbox
async def test_the_files_of_the_host_are_not_there(sandbox, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    other = tmp_path / "root" / "other-trial"
    other.mkdir(parents=True)
    hidden = [secret, other, "/etc/shadow", "/etc/ssh", "/home", "/var", "/run", "/srv", Path.home() / ".ssh"]
    for path in hidden:
        assert (await sandbox.run(["test", "-e", str(path)])).exit_code == 1, path
    assert (await sandbox.run(["test", "-e", "/etc/passwd"])).exit_code == 0


@needs_sandbox
@pytest.mark.parametrize("path", ["/usr/bin/new", "/etc/passwd", "/etc/new/x", sys.prefix + "/new"])
async def test_the_system_cannot_be_changed(sandbox, path):
    before = _content(path)
    ran = await sandbox.run(f"echo x >> {path}")
    assert ran.exit_code != 0
    assert _content(path) == before


@needs_sandbox
async def test_it_has_a_tmp_of_its_own_that_lasts_for_the_trial(sandbox, tmp_path):
    name = f"steadyhand-{os.getpid()}-{tmp_path.name}"
    assert (await sandbox.run(f"echo kept > /tmp/{name}; echo $TMPDIR")).stdout == "/tmp\n"
    assert (await sandbox.run(f"cat /tmp/{name}")).stdout == "kept\n"
    assert _content(f"/tmp/{name}") is None
    assert await sandbox.list_files() == []


@needs_sandbox
async def test_the_processes_of_the_host_are_not_there(sandbox):
    ran = await sandbox.run(f"kill -0 {os.getpid()} 2>&1; ls -d /proc/[0-9]* | wc -l")
    assert int(ran.stdout.split()[-1]) < 10


@needs_sandbox
async def test_it_has_no_privileges(sandbox):
    ran = await sandbox.run("grep -E 'Cap(Eff|Bnd|Prm)' /proc/self/status | awk '{print $2}' | sort -u")
    assert ran.stdout.split() == ["0" * 16]
    assert (await sandbox.run("mount -t tmpfs none /usr")).exit_code != 0


@needs_sandbox
async def test_what_a_command_leaves_running_ends_with_it(sandbox):
    await sandbox.run("setsid sh -c 'while :; do date +%N > alive; sleep 0.01; done' >/dev/null 2>&1 & sleep 0.1")
    first = await sandbox.read("alive")
    assert first is not None
    await sandbox.run("sleep 0.2")
    assert await sandbox.read("alive") == first


@needs_sandbox
async def test_python_runs_in_it(sandbox):
    ran = await sandbox.run([sys.executable, "-c", "import ssl, sqlite3, json; print(json.dumps({'a': 1}))"])
    assert (ran.stdout, ran.stderr) == ('{"a": 1}\n', "")


@needs_sandbox
async def test_a_command_cannot_pass_its_failure_off_as_the_sandboxes(sandbox):
    ran = await sandbox.run("echo 'bwrap: Creating new namespace failed' >&2; exit 1")
    assert ran.exit_code == 1


@needs_sandbox
async def test_a_sandbox_that_cannot_be_made_is_an_error_and_not_a_result(tmp_path):
    program = bubblewrap()
    assert program is not None
    confinement = Confinement(program=program, workspace=tmp_path / "gone", scratch=tmp_path)
    command = Command(argv=["true"], folder=tmp_path, env={}, timeout_s=20, output_limit=1000)
    with pytest.raises(WorkspaceError, match=r"sandbox could not be set up: bwrap: .*gone"):
        await run_confined(command, confinement, lambda _: None)


def test_without_the_program_it_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install bubblewrap" in str(sandbox_available())
    with pytest.raises(SetupError, match=r"cannot be sandboxed.*apt install bubblewrap"):
        LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t", options={"sandbox": True}))


def test_a_system_that_refuses_is_a_set_up_error_with_its_words(tmp_path, monkeypatch):
    refusing = tmp_path / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SetupError, match=r"No permissions to create new namespace.*allow it to create namespaces"):
        LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t", options={"sandbox": True}))


def test_the_option_must_be_a_truth_value(tmp_path):
    with pytest.raises(SetupError, match='expected true or false, found "no"'):
        LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t", options={"sandbox": "no"}))


def test_folders_with_a_home_or_launchers_are_not_searched(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    given = ":".join(["/home", "/home/somebody", "/home/somebody/.aws", "/x/shims", "relative", "/usr/bin", "/opt/bin"])
    assert search_path(given) == [Path("/usr/bin"), Path("/opt/bin"), Path(sys.base_prefix) / "bin"]
