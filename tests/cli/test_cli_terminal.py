"""Output to the terminal: nothing in a file can control it, and losing it loses no verdict."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SAFE = 'rules:\n  - reply: "Please call for help now."\n'
UNSAFE = 'rules:\n  - reply: "Wait and see."\n'
EVIL = "evil\\e[31mred\\e]0;title\\a \\u202Ertl\\u009b2J"


FRESH = f"{sys.executable} -m steadyhand"


def through_sh(shell, command: str, program: str | None = None) -> subprocess.CompletedProcess[str]:
    """Our program has the files as `sh` has opened or closed them, but not its limits or a folder that is gone."""
    return subprocess.run(
        ["sh", "-c", command.replace("steadyhand", program or str(shell.program("steadyhand")), 1)],
        cwd=shell.folder,
        env=shell.environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("reply", [SAFE, UNSAFE], ids=["passed", "failed"])
@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_leaves_the_verdict(shell, reply, stdout):
    shell.replies(reply)
    shell.decision("a.yaml")
    ended = through_sh(shell, f"steadyhand run a.yaml --no-progress {stdout}")
    assert ended.returncode == (3 if reply == SAFE else 1)
    (line,) = ended.stderr.splitlines()
    assert line.startswith("steadyhand: the output could not be written: ")
    assert "finished" in shell("runs").out


@pytest.mark.parametrize("reply", [SAFE, UNSAFE], ids=["passed", "failed"])
def test_a_reader_that_has_seen_enough_changes_nothing(shell, reply):
    shell.replies(reply)
    shell.decision("a.yaml")
    ended = through_sh(shell, "{ steadyhand run a.yaml --no-progress --trials 300; echo $? >&2; } | head -1")
    assert ended.stderr.splitlines() == ["0" if reply == SAFE else "1"]


def test_messages_that_nobody_can_read_stop_no_run(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    assert through_sh(shell, "steadyhand run a.yaml 2>/dev/full").returncode == 0


@pytest.mark.parametrize("option", ["--json", "--junit"])
def test_a_report_that_cannot_be_written_leaves_the_verdict(shell, option):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", "--no-progress", option, "/dev/full")
    assert (ended.code, ended.err) == (
        3,
        "steadyhand: cannot write the report /dev/full: No space left on device\n",
    )


def test_a_report_is_there_as_a_whole_or_not_at_all(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    shell.write("r.json", "the report before")
    shell("run", "a.yaml", "--no-progress", "--trials", "40")
    ended = through_sh(
        shell, "export PYTHONDONTWRITEBYTECODE=1; ulimit -f 24; steadyhand show last --json r.json", FRESH
    )
    assert (ended.returncode, ended.stderr) == (
        3,
        "steadyhand: cannot write the report r.json: File too large\n",
    )
    assert (shell.folder / "r.json").read_text() == "the report before"
    assert not list(shell.folder.glob(".*part"))


def test_a_terminal_without_the_characters_gets_escapes(shell):
    shell.replies(SAFE)
    shell.write("a.yaml", shell.decision("a.yaml").read_text().replace("A decision", "漢字"))
    ended = shell("run", "a.yaml", "--no-progress", PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    assert ended.code == 0
    assert "\\u6f22\\u5b57" in ended.out


def test_names_and_keys_of_a_file_do_not_steer_the_terminal(shell):
    shell.replies(SAFE)
    text = shell.decision("a.yaml").read_text().replace("name: A decision", f'name: "{EVIL}"')
    shell.write("a.yaml", text)
    shell.write("b.yaml", text.replace("SCN-C-001", "SCN-C-002") + f'"{EVIL}": 1\n')
    outputs = [
        shell(*command)
        for command in (("validate", "."), ("list", "a.yaml"), ("lint", "a.yaml"), ("selftest", "a.yaml"))
    ]
    outputs += [
        shell("run", "a.yaml"),
        shell("run", "a.yaml", "--dry-run"),
        shell("run", "b.yaml"),
        shell("show", "last"),
    ]
    for ended in outputs:
        assert not set(ended.out + ended.err) & set("\x1b\x07\x9b\u202e"), ended
    assert json.loads(shell("validate", "b.yaml", "--format", "json").out)["valid"] is False


def test_a_folder_that_is_gone_is_one_message(shell):
    ended = through_sh(shell, "mkdir x; cd x; rmdir ../x; exec steadyhand runs", FRESH)
    assert ended.returncode == 2
    assert ended.stderr == "steadyhand: the current folder no longer exists; change to another one\n"
