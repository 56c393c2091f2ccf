"""An agent behind the Agent2Agent protocol, as a user runs it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopback import free_port

pytestmark = pytest.mark.system

EXAMPLE = Path(__file__).parents[2] / "examples" / "a2a"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, str(EXAMPLE / "agent.py"), str(port)])
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()


def test_the_example_asks_back_answers_and_hands_over_a_file(shell, url):
    shutil.copy(EXAMPLE / "order_status.scenario.yaml", shell.folder)
    ended = shell("run", "order_status.scenario.yaml", "--agent", f"a2a:{url}", "--json", "out.json")
    assert ended.code == 0, ended.out + ended.err
    (trial,) = json.loads((shell.folder / "out.json").read_text())["trials"]
    assert [each["content"] for each in trial["transcript"] if each["role"] == "assistant"] == [
        "What is the number of your order?",
        "Order A-1042 was delivered on Monday.",
    ]
    assert (trial["shows"]["files"], trial["shows"]["actions"]) == ("self_reported", "not_seen")


def test_what_it_did_is_not_seen(shell, url):
    shell.write(
        "a.scenario.yaml",
        "name: A\ndescription: B\nenvironment: {type: local}\nrun:\n  - input: Where is A-1042?\n    evaluations:\n"
        "      - {type: trajectory_contains_action, action: refund, max_count: 0}\njudgment: {strategy: all_pass}\n",
    )
    ended = shell("run", "a.scenario.yaml", "--agent", f"a2a:{url}")
    assert ended.code == 3, ended.out + ended.err
    assert "inconclusive" in ended.out
    assert "--otlp-port" in ended.out


def test_nobody_there_is_an_error_of_the_trial(shell):
    shutil.copy(EXAMPLE / "order_status.scenario.yaml", shell.folder)
    ended = shell("run", "order_status.scenario.yaml", "--agent", f"a2a:http://127.0.0.1:{free_port()}")
    assert ended.code == 3
    assert "its agent card cannot be read" in ended.out
