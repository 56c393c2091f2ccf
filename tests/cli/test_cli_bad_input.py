"""Whatever is wrong: one clear message, the right exit code, no traceback, and what finished is in the record."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import click
import pytest

from steadyhand.cli.main import cli
from steadyhand.testing import Answer
from support.loopback import Loopback

SAFE = 'rules:\n  - reply: "I call for help."\n'


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.yaml", None, "missing.yaml"),
        ("empty.yaml", b"", "empty"),
        ("binary.yaml", bytes(range(256)) * 8, "binary.yaml"),
        ("latin.yaml", "name: caf\xe9".encode("latin-1"), "UTF-8"),
        ("nested.yaml", b"[" * 5_000_000, "1 MiB"),
        ("deep.yaml", b"[" * 100_000, "deep.yaml"),
        ("bomb.yaml", b"a: &a [1,1,1,1,1,1,1,1]\n" + b"".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n".encode() for i in range(9)
        ), "bomb.yaml"),
        ("list.yaml", b"- 1\n- 2\n", "list.yaml"),
        ("other.yaml", b"colour: red\n", "other.yaml"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read(shell, name, content, said):
    if content is not None:
        shell.write(name, content)
    for command in ("run", "validate"):
        ended = shell(command, name)
        text = ended.out + ended.err
        assert ended.code == 2
        assert said in text
        assert "Traceback" not in text
        assert len([line for line in text.splitlines() if name in line]) == 1


def test_a_folder_without_scenarios(shell):
    (shell.folder / "folder").mkdir()
    shell.write("folder/notes.txt", "nothing")
    ended = shell("run", "folder")
    assert ended.code == 2
    assert "folder" in ended.err
    assert len(ended.err.splitlines()) == 1


def test_one_bad_file_does_not_hide_the_others(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    shell.write("b.yaml", "id: x\nmessages: 5\n")
    shell.write("c.yaml", "a: [")
    ended = shell("validate", ".", "--format", "json")
    report = json.loads(ended.out)
    assert ended.code == 2
    assert report["scenarios"] == 1
    assert {problem["file"] for problem in report["problems"]} == {"b.yaml", "c.yaml"}


def _behaviour(trouble: Answer):
    def answer(served):
        return trouble if "trouble" in str(served.body) else Answer(text="I call for help.")

    return answer


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (Answer(fault="hang"), "0.5 s"),
        (Answer(fault="reset"), "connection"),
        (Answer(status=500, error="broken"), "500"),
        (Answer(status=401, error="who are you"), "401"),
        (Answer(text="I call for help and more", cut_after=1), "in the middle of the answer"),
        (Answer(body=b"<html>Welcome</html>"), "<html>"),
    ],
    ids=["hang", "reset", "500", "401", "half a stream", "html"],
)
def test_a_model_in_trouble_is_an_error_of_that_trial_alone(shell, trouble, said):
    shell.decision("good.yaml", id="SCN-C-001", prompt="fine")
    shell.decision("bad.yaml", id="SCN-C-002", prompt="trouble")
    with Loopback(_behaviour(trouble)) as server:
        ended = shell(
            "run", ".", "--model", "openai/x", "--timeout", "0.5", "--retries", "0", "--json", "r.json",
            OPENAI_BASE_URL=server.url,
        )  # fmt: skip
    assert ended.code == 3, ended.out + ended.err
    assert "Traceback" not in ended.out + ended.err
    trials = {trial["scenario"]["id"]: trial for trial in json.loads((shell.folder / "r.json").read_text())["trials"]}
    assert trials["SCN-C-001"]["verdict"] == "passed"
    assert trials["SCN-C-002"]["verdict"] == "error"
    assert said in trials["SCN-C-002"]["reason"]


def test_an_unreachable_model(shell):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    shell.decision("a.yaml")
    url = f"http://127.0.0.1:{port}/v1"
    ended = shell("run", "a.yaml", "--model", "openai/x", "--retries", "1", OPENAI_BASE_URL=url)
    assert ended.code == 3
    assert f"127.0.0.1:{port}" in ended.out
    assert "1 trial: 1 error" in ended.out


def test_an_out_folder_that_cannot_be_written(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    shell.write("file", "in the way")
    ended = shell("run", "a.yaml", "--out", "file/runs")
    assert ended.code == 2
    assert "file/runs" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("command", "values"),
    [
        (["run", "."], ("--user-model", "a", "b")),
        (["matrix", "."], ("--judge", "a", "a")),
        (["scenario", "run", "."], ("--seed", "1", "2")),
        (["list", "."], ("-k", "a", "b")),
        (["validate", "."], ("--format", "text", "json")),
        (["import", "lostbench", "."], ("--out", "a", "b")),
    ],
)
def test_an_option_for_one_value_given_twice(shell, command, values):
    shell.decision("a.yaml")
    option, first, second = values
    ended = shell(*command, option, first, option, second)
    assert (ended.code, ended.out) == (2, "")
    assert f"Error: {option} takes one value, found 2: {first!r}, {second!r}\n" in ended.err
    assert "Commands:" not in ended.err


def _commands(group: click.Group, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    ctx = click.Context(group)
    for each in group.list_commands(ctx):
        command = group.get_command(ctx, each)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, (*name, each))
        else:
            yield (*name, each), command


@pytest.mark.parametrize(
    ("command", "option"),
    [
        pytest.param(name, option.opts[0], id=" ".join((*name, option.opts[0])))
        for name, command in _commands(cli)
        for option in command.params
        if isinstance(option, click.Option) and not (option.multiple or option.count or option.is_flag)
    ],
)
def test_every_option_of_every_command_is_given_once(command, option):
    with pytest.raises(click.UsageError, match=f"{option} takes one value, found 3: '1', '2', '3'"):
        cli.main([*command, "x", option, "1", f"{option}", "2", option, "3"], standalone_mode=False)


def test_what_may_be_repeated(shell):
    shell.decision("a.yaml")
    shell.replies("rules: [{reply: call for help}]\n")
    ended = shell("run", ".", "--tag", "a", "--tag", "b", "--live", "--live")
    assert (ended.code, ended.err) == (2, "steadyhand: none of the 1 scenarios matches --tag a --tag b\n")
