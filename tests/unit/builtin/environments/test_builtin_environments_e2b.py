"""The e2b environment against a stand-in for the service: what goes wrong, and what must not leak."""

from __future__ import annotations

import asyncio
import importlib.util
import sys

import pytest

from steadyhand.builtin.environments.e2b import E2BEnvironment
from steadyhand.builtin.environments.files import LocalLimits
from steadyhand.errors import SetupError, WorkspaceError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.records.result import FileSystemOperation
from support.e2b_server import E2BServer
from support.patience import with_enough_time

pytestmark = pytest.mark.skipif(importlib.util.find_spec("e2b") is None, reason="the package e2b is not installed")


@pytest.fixture
async def server():
    async with E2BServer() as running:
        yield running


@pytest.fixture
async def environment(server, tmp_path):
    made = E2BEnvironment(EnvironmentSettings(root=tmp_path, trial_id="SCN-1#0", variables=server.variables))
    await made.setup([])
    yield made
    await made.teardown()


def _settings(tmp_path, *, options=None, **variables):
    return EnvironmentSettings(root=tmp_path, trial_id="t", variables=variables, options=options or {})


def test_without_a_key_it_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv("E2B_API_KEY", "of the process, which the settings do not name")
    for variables in ({}, {"E2B_API_KEY": " "}):
        with pytest.raises(SetupError, match="set E2B_API_KEY in the environment or the --env-file"):
            E2BEnvironment(_settings(tmp_path, **variables))


def test_without_the_package_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "e2b", None)
    with pytest.raises(SetupError, match=r"pip install 'steadyhand\[e2b\]'"):
        E2BEnvironment(_settings(tmp_path, E2B_API_KEY="k"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"template": 3}, "option template: expected text, found 3"),
        ({"timeout_s": "long"}, 'option timeout_s: expected a whole number, found "long"'),
        ({"timeout_s": True}, "expected a whole number, found true"),
        ({"timeout_s": 0}, "expected a number more than 0"),
        ({"internet": "no"}, 'expected true or false, found "no"'),
        ({"workspace": "here"}, "must be an absolute path"),
    ],
)
def test_a_wrong_option_is_a_set_up_error(tmp_path, options, message):
    with pytest.raises(SetupError, match=message):
        E2BEnvironment(_settings(tmp_path, options=options, E2B_API_KEY="k"))


async def test_options_reach_the_service(server, tmp_path):
    options = {"template": "mine", "timeout_s": 77, "internet": False}
    environment = E2BEnvironment(_settings(tmp_path, options=options, **server.variables))
    assert environment.sandboxed
    await environment.setup([])
    await environment.teardown()
    asked = server.requests[0]
    assert (asked["templateID"], asked["timeout"], asked["allow_internet_access"]) == ("mine", 77, False)
    assert asked["metadata"] == {"steadyhand_trial": "t"}


async def test_a_refused_key_is_an_error_of_the_trial(server, tmp_path):
    environment = E2BEnvironment(_settings(tmp_path, **{**server.variables, "E2B_API_KEY": "wrong"}))
    with pytest.raises(WorkspaceError, match="e2b could not create a sandbox: AuthenticationException"):
        await environment.setup([])
    with pytest.raises(WorkspaceError, match="is not set up"):
        await environment.run("true")
    await environment.teardown()


async def test_no_service_there_is_an_error_of_the_trial(tmp_path, unused_tcp_port):
    url = f"http://127.0.0.1:{unused_tcp_port}"
    environment = E2BEnvironment(_settings(tmp_path, E2B_API_KEY="k", E2B_API_URL=url, E2B_SANDBOX_URL=url))
    with pytest.raises(WorkspaceError, match="e2b could not create a sandbox"):
        await environment.setup([])
    await environment.teardown()


async def test_our_variables_reach_neither_the_sandbox_nor_its_commands(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-process")
    variables = {**server.variables, "ANTHROPIC_API_KEY": "sk-file"}
    environment = E2BEnvironment(_settings(tmp_path, **variables))
    await environment.setup([])
    seen = (await environment.run("env; cat /proc/$PPID/environ | tr '\\0' '\\n'")).stdout
    await environment.teardown()
    assert not {"sk-process", "sk-file", server.api_key} & {line.partition("=")[2] for line in seen.splitlines()}
    assert "sk-" not in str(server.requests)
    assert server.api_key not in str(server.requests)


async def test_teardown_ends_the_sandbox_and_what_runs_in_it(server, environment):
    assert len(server.machines) == 1
    root = next(iter(server.machines.values())).root
    await environment.teardown()
    assert server.machines == {}
    assert not root.exists()
    with pytest.raises(WorkspaceError, match="has been torn down"):
        await environment.write("a", b"")


async def test_a_sandbox_that_died_is_an_error_and_not_an_empty_workspace(server, environment):
    await environment.write("a.txt", b"A")
    await server.machines.popitem()[1].close()
    for work in (environment.read("a.txt"), environment.list_files(), environment.capture(), environment.run("true")):
        with pytest.raises(WorkspaceError, match="e2b could not"):
            await work


async def test_a_sandbox_that_dies_under_a_command_is_an_error(server, environment):
    running = asyncio.create_task(environment.run("echo on > begun; sleep 1000"))
    while await environment.read("begun") != b"on\n":
        assert not running.done()
    await server.machines.popitem()[1].close()
    with pytest.raises(WorkspaceError, match="e2b could not"):
        await running


async def test_links_out_of_the_workspace_are_not_followed(environment):
    await environment.run(
        "ln -s /etc/passwd out; ln -s /etc etc; echo in > real; ln -s real alias; mkdir d; ln -s .. d/up"
    )
    assert await environment.read("out") is None
    assert await environment.read("etc/passwd") is None
    assert await environment.read("alias") == b"in\n"
    assert await environment.read("d/up/real") == b"in\n"
    assert await environment.list_files() == ["real"]


async def test_a_command_that_is_timed_out_dies_with_its_children(environment):
    script = (
        "(setsid sh -c 'while :; do date +%N > alive; sleep 0.01; done' &); "
        "until test -s alive; do sleep 0.01; done; echo begun; sleep 1000"
    )
    ran = await with_enough_time(
        lambda seconds: environment.run(script, timeout_s=5 * seconds), lambda ran: bool(ran.stdout)
    )
    assert (ran.timed_out, ran.stdout) == (True, "begun\n")
    first = await environment.read("alive")
    await environment.run("sleep 0.1")
    assert await environment.read("alive") == first


async def test_what_a_command_leaves_running_ends_with_it(environment):
    ran = await environment.run("sh -c 'while :; do date +%N > alive; sleep 0.01; done' >/dev/null 2>&1 & sleep 0.1")
    assert (ran.exit_code, ran.timed_out) == (0, False)
    first = await environment.read("alive")
    assert first is not None
    await environment.run("sleep 0.1")
    assert await environment.read("alive") == first


async def test_a_command_that_kills_the_shell_around_it_has_failed(environment):
    ran = await environment.run("kill -KILL $PPID; exit 0")
    assert (ran.exit_code, ran.timed_out) == (137, False)


async def test_cancelling_kills_the_command(environment):
    running = asyncio.create_task(environment.run("while :; do date +%N > alive; sleep 0.01; done"))
    while await environment.read("alive") is None:
        assert not running.done()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    first = await environment.read("alive")
    await environment.run("sleep 0.1")
    assert await environment.read("alive") == first


async def test_much_input_and_much_output(environment):
    sent = bytes(range(256)) * 1024
    ran = await environment.run("cat > got; wc -c < got", stdin=sent)
    assert ran.stdout.strip() == str(len(sent))
    assert await environment.read("got") == sent
    assert (await environment.run("exit 3", stdin=sent)).exit_code == 3


async def test_output_past_the_limit_is_cut_in_the_middle(server, tmp_path):
    limits = LocalLimits(output=100, read=10, captured_file=3, captured_total=4)
    environment = E2BEnvironment(_settings(tmp_path, **server.variables), limits)
    files = {"a": b"123", "b": b"12", "c": b"1", "d": b"1234", "e": b"x" * 11}
    await environment.setup([FileSystemOperation(path=name, content=content) for name, content in files.items()])
    ran = await environment.run("seq 1000")
    assert ran.truncated
    assert ran.stdout.startswith("1\n2\n")
    assert ran.stdout.endswith("1000\n")
    captured = await environment.capture()
    assert {name: file.content for name, file in captured.items()} == {
        "a": b"123",
        "b": None,
        "c": b"1",
        "d": None,
        "e": None,
    }
    with pytest.raises(WorkspaceError, match="larger than 10 bytes"):
        await environment.read("e")
    await environment.teardown()


async def test_variables_of_a_command_hold_whatever_the_login_shell_says(environment):
    ran = await environment.run('echo "$PATH|$QUOTED"', env={"PATH": "/usr/bin:/bin:/mine", "QUOTED": "a 'b' \"$c\""})
    assert ran.stdout == "/usr/bin:/bin:/mine|a 'b' \"$c\"\n"
    assert (await environment.run("env | grep MARK")).exit_code == 1


@pytest.mark.parametrize(
    ("command", "env"), [([], {}), ("a\0b", {}), ("true", {"A": "\0"}), ("true", {"": "x"}), ("true", {"A=B": "x"})]
)
async def test_what_cannot_be_passed_on_is_refused(environment, command, env):
    with pytest.raises(WorkspaceError):
        await environment.run(command, env=env)
