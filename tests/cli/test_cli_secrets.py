"""Planted canaries come out of no end of the command: record, JSON, JUnit, terminal, stderr, recording."""

import json
import subprocess
import sys

import pytest

from steadyhand.store.reader import RunReader
from support.shell import AGENT

KEY = "canary-Zq7f93kd02mmx81"
SHAPED = "sk-proj-shaped0123456789"


@pytest.fixture
def server(shell):
    """A model that gives away the key it was called with, and another."""
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand.testing.model_server", "--text", f"My key is {KEY}, his is {SHAPED}."],
        stdout=subprocess.PIPE,
        env=shell.environment(),
    )
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["base_url"]
    process.kill()
    process.wait()
    process.stdout.close()


def outputs(shell, ended) -> dict[str, str]:
    """Everything the command left behind, unpacked where it is packed."""
    runs = [RunReader.open(file) for file in (shell.folder / ".steadyhand/runs").glob("*.sqlite")]
    assert runs
    return {
        "stdout": ended.out,
        "stderr": ended.err,
        "json": (shell.folder / "r.json").read_text(),
        "junit": (shell.folder / "r.xml").read_text(),
        "record": "".join(repr(reader.header) + repr(list(reader.trials())) for reader in runs),
        "files": "".join(reader.path.read_bytes().decode("latin-1") for reader in runs),
    }


def test_what_looks_like_a_key_is_in_no_report(shell):
    shell.replies(f"rules:\n  - reply: Take {SHAPED} and run.\n")
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", "--json", "r.json", "--junit", "r.xml")
    assert ended.code == 1
    found = outputs(shell, ended)
    assert [name for name, text in found.items() if SHAPED in text] == []
    assert "Take " + "*" * len(SHAPED) in found["json"]


@pytest.mark.parametrize("by", ["environment", "file"])
def test_the_key_a_model_gives_away_is_in_no_output(shell, server, by):
    shell.decision("a.yaml")
    shell.write("b.scenario.yaml", AGENT.replace('  - input: "Hello"', f"  - code: echo {KEY}; echo {KEY} >&2; exit 1"))
    shell.write("secret.env", f"OPENAI_API_KEY={KEY}\n")
    common = ("--model", "openai/m", "--json", "r.json", "--junit", "r.xml", "--record", "tape")
    given = {"OPENAI_BASE_URL": server}
    if by == "file":
        ended = shell("run", ".", *common, "--env-file", "secret.env", **given)
    else:
        ended = shell("run", ".", *common, **given, OPENAI_API_KEY=KEY)
    assert ended.code == 1, ended.err
    found = outputs(shell, ended)
    found["cassette"] = (shell.folder / "tape/cassette.jsonl").read_text()
    for secret in (KEY, SHAPED, KEY[:11], KEY[-11:]):
        assert [name for name, text in found.items() if secret in text] == []
    assert "My key is " + "*" * len(KEY) in found["json"]
    assert "My key is " + "*" * len(KEY) in found["cassette"]


def test_a_key_in_a_message_of_ours_is_blotted_out(shell):
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", "--model", f"scripted/{KEY}.yaml", SERVICE_TOKEN=KEY)
    assert ended.code == 2
    assert KEY not in ended.err
    assert "*" * len(KEY) in ended.err
