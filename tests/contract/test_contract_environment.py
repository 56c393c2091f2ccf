"""What every environment provider must do.

To apply it to another one, add a generator to `PROVIDERS` that yields its factory and cleans up after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from steadyhand.builtin.environments.e2b import E2BEnvironment
from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.environments.sandbox import sandbox_available
from steadyhand.errors import WorkspaceError
from steadyhand.plugins.plugin import EnvironmentSettings
from steadyhand.ports.agent import closes_at_once
from steadyhand.ports.environment import EnvironmentProvider
from steadyhand.records.result import FileSystemOperation
from support.e2b_server import E2BServer
from support.patience import with_enough_time

Provider = Callable[[EnvironmentSettings], EnvironmentProvider]


async def _local() -> AsyncIterator[Provider]:
    yield LocalEnvironment


async def _sandbox() -> AsyncIterator[Provider]:
    refusal = sandbox_available()
    if refusal is not None:
        pytest.skip(refusal)
    yield lambda settings: LocalEnvironment(msgspec.structs.replace(settings, options={"sandbox": True}))


async def _e2b() -> AsyncIterator[Provider]:
    pytest.importorskip("e2b", reason="the package e2b is not installed")
    async with E2BServer() as server:
        yield lambda settings: E2BEnvironment(msgspec.structs.replace(settings, variables=server.variables))


PROVIDERS: dict[str, Callable[[], AsyncIterator[Provider]]] = {
    "local": _local,
    "sandbox": _sandbox,
    "e2b": _e2b,
}


@pytest.fixture(params=PROVIDERS)
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    async for made in PROVIDERS[request.param]():
        yield made


@pytest.fixture
async def environment(provider: Provider, tmp_path: Path) -> AsyncIterator[EnvironmentProvider]:
    made = provider(EnvironmentSettings(root=tmp_path / "workspaces", trial_id="SCN-1#0"))
    yield made
    await made.teardown()


def _file(path: str, content: bytes) -> FileSystemOperation:
    return FileSystemOperation(path=path, content=content)


async def test_has_a_name(environment):
    assert environment.name


async def test_setup_writes_files_and_their_folders(environment):
    await environment.setup([_file("a.txt", b"A"), _file("/deep/er/b.bin", b"\x00\xff")])
    assert await environment.list_files() == ["a.txt", "deep/er/b.bin"]
    assert await environment.read("deep/er/b.bin") == b"\x00\xff"


@pytest.mark.parametrize("written", ["out.txt", "./out.txt", "/out.txt"])
@pytest.mark.parametrize("asked", ["out.txt", "./out.txt", "/out.txt", "//out.txt", "sub/../out.txt"])
async def test_spellings_of_a_path_are_one_file(environment, written, asked):
    await environment.setup([])
    await environment.write(written, b"here")
    assert await environment.read(asked) == b"here"
    assert await environment.list_files() == ["out.txt"]


async def test_no_such_file_is_none(environment):
    await environment.setup([_file("folder/a.txt", b"")])
    assert await environment.read("b.txt") is None
    assert await environment.read("folder") is None
    assert await environment.read("folder/a.txt/b") is None
    assert await environment.read("folder/a.txt") == b""


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/../x", "..", "", "/", ".", "a\0b"])
async def test_no_path_leads_out(environment, path):
    await environment.setup([_file("a/b.txt", b"")])
    assert await environment.read(path) is None
    with pytest.raises(WorkspaceError):
        await environment.write(path, b"!")
    assert await environment.list_files() == ["a/b.txt"]


async def test_write_replaces_the_whole_content(environment):
    await environment.setup([_file("a.txt", b"long content")])
    await environment.write("a.txt", b"short")
    assert await environment.read("a.txt") == b"short"


async def test_commands_see_the_files_and_their_files_are_seen(environment):
    await environment.setup([_file("in.txt", b"abc")])
    ran = await environment.run("tr a-z A-Z < in.txt > out.txt && ls")
    assert (ran.exit_code, ran.stdout.split(), ran.stderr) == (0, ["in.txt", "out.txt"], "")
    assert await environment.read("/out.txt") == b"ABC"
    assert not ran.timed_out
    assert ran.duration_ms > 0


async def test_a_list_is_run_without_a_shell(environment):
    await environment.setup([])
    ran = await environment.run(["printf", "%s|", "a b", "$HOME", "*"])
    assert ran.stdout == "a b|$HOME|*|"


async def test_output_and_exit_code_are_kept_apart(environment):
    await environment.setup([])
    ran = await environment.run("echo out; echo err >&2; exit 3")
    assert (ran.exit_code, ran.stdout, ran.stderr) == (3, "out\n", "err\n")


async def test_death_by_signal_is_128_and_more(environment):
    await environment.setup([])
    assert (await environment.run("kill -TERM $$")).exit_code == 128 + 15


async def test_an_unknown_program_is_a_result(environment):
    await environment.setup([])
    assert (await environment.run(["no-such-program-here"])).exit_code == 127
    assert (await environment.run("no-such-program-here")).exit_code == 127


async def test_stdin_and_variables_reach_the_command(environment):
    await environment.setup([])
    ran = await environment.run('cat; echo "$GREETING"', stdin=b"piped ", env={"GREETING": "hello"})
    assert ran.stdout == "piped hello\n"


async def test_exported_variables_reach_every_command_until_it_is_given_others(environment):
    await environment.setup([])
    environment.export({"GREETING": "hello", "OTHER": "kept"})
    assert (await environment.run('echo "$GREETING $OTHER"')).stdout == "hello kept\n"
    assert (await environment.run('echo "$GREETING $OTHER"', env={"GREETING": "hi"})).stdout == "hi kept\n"


async def test_without_stdin_there_is_nothing_to_wait_for(environment):
    await environment.setup([])
    assert (await environment.run("cat", timeout_s=20)).exit_code == 0


async def test_secrets_of_the_harness_are_not_passed_on(environment, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    await environment.setup([])
    ran = await environment.run("env")
    assert "OPENAI_API_KEY" not in ran.stdout
    assert "sk-secret" not in ran.stdout


async def test_a_timeout_is_a_result(environment):
    await environment.setup([])
    command = "echo begun; trap '' TERM INT HUP; sleep 1000"
    ran = await with_enough_time(
        lambda seconds: environment.run(command, timeout_s=3 * seconds), lambda ran: bool(ran.stdout)
    )
    assert ran.timed_out
    assert ran.exit_code != 0
    assert ran.stdout == "begun\n"


async def test_what_is_not_utf8_is_replaced(environment):
    await environment.setup([])
    assert (await environment.run(r"printf 'a\377b'")).stdout == "a\ufffdb"


async def test_capture_has_names_sizes_and_bytes(environment):
    await environment.setup([_file("a.txt", b"abc"), _file("d/b.bin", bytes(range(256)))])
    captured = await environment.capture()
    assert {path: (file.size, file.content) for path, file in captured.items()} == {
        "a.txt": (3, b"abc"),
        "d/b.bin": (256, bytes(range(256))),
    }


async def test_two_trials_do_not_share_files(provider, tmp_path):
    settings = EnvironmentSettings(root=tmp_path, trial_id="same")
    first, second = provider(settings), provider(settings)
    try:
        await first.setup([_file("a.txt", b"1")])
        await second.setup([_file("b.txt", b"2")])
        assert await first.list_files() == ["a.txt"]
        assert await second.list_files() == ["b.txt"]
    finally:
        await first.teardown()
        await second.teardown()


async def test_commands_run_side_by_side(environment):
    await environment.setup([])
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(environment.run("until test -e go; do sleep 0.02; done; echo done", timeout_s=20))
        quick = group.create_task(environment.run("echo quick; touch go"))
    assert quick.result().stdout == "quick\n"
    assert slow.result().stdout == "done\n"


async def test_teardown_may_be_repeated_and_comes_after_anything(provider, tmp_path):
    untouched = provider(EnvironmentSettings(root=tmp_path, trial_id="never-set-up"))
    await untouched.teardown()
    broken = provider(EnvironmentSettings(root=tmp_path, trial_id="broken"))
    with pytest.raises(WorkspaceError):
        await broken.setup([_file("a.txt", b"1"), _file("../b.txt", b"2")])
    await broken.teardown()
    await broken.teardown()
    assert await broken.list_files() == []


@pytest.mark.parametrize("used", ["nothing", "files", "commands"])
async def test_one_that_declares_to_close_at_once_waits_for_nothing(provider, tmp_path, used):
    environment = provider(EnvironmentSettings(root=tmp_path / "workspaces", trial_id="SCN-1#0"))
    if used != "nothing":
        await environment.setup([_file("a.txt", b"a")])
    if used == "commands":
        await environment.run("true")
    if not closes_at_once(environment):
        await environment.teardown()
        return
    with pytest.raises(StopIteration):
        environment.teardown().send(None)


async def test_whether_commands_are_kept_from_the_host_is_declared(environment):
    assert isinstance(environment.sandboxed, bool)
