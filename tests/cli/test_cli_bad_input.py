"""Whatever is wrong: one clear message, the right exit code, no traceback, and everything that finished is in the
record."""

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
    ended = shell("run", "a.yaml", "--runs", "file/runs")
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
        (["import", "lostbench", "."], ("--out-dir", "a", "b")),
    ],
)
def test_an_option_for_one_value_given_twice(shell, command, values):
    shell.decision("a.yaml")
    option, first, second = values
    ended = shell(*command, option, first, option, second)
    assert (ended.code, ended.out) == (2, "")
    assert f"steadyhand: {option} takes one value, found 2: {first!r}, {second!r}; see `steadyhand " in ended.err
    assert ended.err.count("\n") == 1
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
    told = "steadyhand: the scenario does not match --tag a --tag b; `steadyhand list` shows names and tags\n"
    assert (ended.code, ended.err) == (2, told)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["zzz"], "no such command 'zzz'. Commands: init, validate, "),
        (["rnu"], "no such command 'rnu'; did you mean 'run'? Commands: init, validate, "),
        (["scenario", "vaildate"], "no such command 'vaildate'; did you mean 'validate'? Commands: run, "),
        (["run", "a.yaml", "--modle", "x"], "no such option '--modle'; did you mean '--model'? See `"),
        (
            ["run", "a.yaml", "--trails", "3"],
            "no such option '--trails'; did you mean '--trials'? See `steadyhand run",
        ),
        (["run", "a.yaml", "--qqq"], "no such option '--qqq'; see `"),
        (["run", "a.yaml", "--trials", "x"], "invalid value for '--trials': 'x' is not a whole number; see"),
        (["run", "a.yaml", "--trials"], "option '--trials' requires an argument; see `steadyhand run --help`"),
        (["scenario", "run", "--trials"], "requires an argument; see `steadyhand scenario run --help`"),
        (["import", "lostbensh"], "no such command 'lostbensh'; did you mean 'lostbench'? Commands: lostbench; see"),
        (
            ["export", "last"],
            "missing option '--format'. Choose from: jsonl, csv, parquet, inspect; see `steadyhand",
        ),
        (["show"], "missing argument 'RUN'; see `steadyhand show --help`"),
        (["run", "a.yaml", "--config", "none.toml"], "invalid value for '--config': File 'none.toml' does not exist"),
        (["run", "b.yaml"], "b.yaml: no such file or folder; did you mean a.yaml?"),
        (["run", "a.yaml", "-k", "zzz"], "the scenario does not match -k 'zzz'; `steadyhand list` shows"),
    ],
)
def test_a_slip_is_one_line_with_the_next_step(shell, command, told):
    shell.decision("a.yaml")
    ended = shell(*command)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("group", [[], ["scenario"], ["import"]])
def test_a_group_without_a_command_shows_its_help(shell, group):
    ended = shell(*group)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == shell(*group, "--help").out


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["run", "a.yaml", "--runs", "-"], "folder"),
        (["run", "a.yaml", "--record", "-"], "folder"),
        (["export", "last", "--format", "csv", "--out-dir", "-"], "folder"),
        (["schema", "--out-dir", "-"], "folder"),
        (["init", "-"], "folder"),
        (["import", "lostbench", "a.yaml", "--out-dir", "-"], "folder"),
        (["labels", "last", "--out", "-"], "file"),
        (["calibrate", "labels.csv", "--out", "-"], "file"),
    ],
)
def test_what_cannot_go_to_stdout_says_so(shell, command, what):
    shell.decision("a.yaml")
    ended = shell(*command)
    assert (ended.code, ended.out) == (2, "")
    assert f"this cannot be written to stdout; name a {what}; see `steadyhand {command[0]}" in ended.err
    assert not (shell.folder / "-").exists()


def test_what_goes_to_stdout_is_alone_there(shell):
    shell.decision("a.yaml")
    shell.replies("rules: [{reply: Give aspirin.}]\n")
    shell("run", "a.yaml", "--no-progress")
    assert json.loads(shell("baseline", "last", "--out", "-").out)["baseline"] == 1
    page = shell("report", "last", "--html", "-").out
    assert page.startswith("<!DOCTYPE html>")
    assert page.rstrip().endswith("</html>")
    for command in (["report", "last", "--html", "-"], ["run", "a.yaml", "--html", "-"]):
        ended = shell(*command, CI="true")
        assert (ended.code, ended.out) == (2, "")
        assert "to the CI log" in ended.err
