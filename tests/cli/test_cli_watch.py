"""`run --watch`: a real process, real saves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.system


def saved(file, text):
    """Write a file so that its time differs, whatever the resolution of the file system."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    file.write_text(text)
    os.utime(file, ns=(before + 1_000_000_000,) * 2)


def ended_by_ctrl_c(process):
    """As a terminal sends it: to everything in the foreground."""
    os.killpg(process.pid, signal.SIGINT)
    process.communicate()
    return process.returncode


def until(process, words):
    """The lines up to one with these words; the test's own time limit ends a wait in vain."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return "".join(lines)
    pytest.fail(f"it ended with {process.wait()}: {''.join(lines)}")
    return ""


@pytest.fixture
def desk(shell):
    for number in range(3):
        shell.decision(f"scenarios/{number}.yaml", id=f"SCN-C-00{number}")
    shell.replies("rules: [{reply: I call for help now.}]\n")
    return shell


def watching(desk, *options):
    """In a session of its own, as a terminal's foreground job."""
    command = [sys.executable, "-m", "steadyhand", "run", "scenarios", "--watch", "--no-progress", *options]
    environment = desk.environment()
    return subprocess.Popen(
        command, cwd=desk.folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def test_a_save_runs_what_it_affects_with_failures_first(desk):
    process = watching(desk)
    assert "watching 5 files (nothing ran yet)" in until(process, "watching")
    scenario, replies = desk.folder / "scenarios/1.yaml", desk.folder / "replies.yaml"
    text = scenario.read_text()
    saved(scenario, text.replace("SCN-C-001", "SCN-C-009"))
    shown = until(process, "watching")
    assert ("1 trial: 1 passed" in shown, "SCN-C-009" in shown) == (True, True)
    saved(scenario, text.replace("call for help", "wait and see"))
    assert "1 file with failures" in until(process, "watching")
    saved(replies, replies.read_text() + "# all of them\n")
    shown = until(process, "watching")
    assert "3 trials: 2 passed, 1 failed" in shown
    assert ended_by_ctrl_c(process) == 130


def test_a_file_that_is_broken_while_it_is_edited_ends_nothing(desk):
    process = watching(desk)
    until(process, "watching")
    scenario = desk.folder / "scenarios/0.yaml"
    text = scenario.read_text()
    saved(scenario, "id: [\n")
    until(process, "watching")
    saved(scenario, text)
    assert "1 trial: 1 passed" in until(process, "watching")
    assert ended_by_ctrl_c(process) == 130


def test_ctrl_c_once_ends_it_during_a_run(desk):
    desk.replies("rules: [{reply: I call for help now., delay_ms: 60000}]\n")
    process = watching(desk)
    until(process, "watching")
    saved(desk.folder / "scenarios/0.yaml", (desk.folder / "scenarios/0.yaml").read_text() + "\n")
    until(process, "saved")
    time.sleep(1)  # its child is starting or running; either must end
    assert ended_by_ctrl_c(process) == 130


def test_a_model_that_costs_money_needs_a_limit(desk):
    ended = desk("run", "scenarios", "--watch", "--model", "openai/gpt-4o", OPENAI_API_KEY="sk-1234567890")
    assert (ended.code, "openai/gpt-4o costs money or has no known price: add --max-cost" in ended.err) == (2, True)
