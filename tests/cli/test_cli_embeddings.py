"""`similar_to` by embeddings, from a real server on loopback: what decides, what does not, and what it costs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli.test_cli_agents import served
from steadyhand.testing import Answer, ModelServer
from support.shell import DECISION, Shell

pytestmark = pytest.mark.system

EXAMPLES = Path(__file__).parents[2] / "examples"
VALUE = "Your order arrives on Monday."
SCENARIO = """\
name: Delivery
description: The reply says when.
environment: {type: local}
agent: model
run:
  - input: When does it come?
    evaluations:
%s
judgment: {strategy: all_pass}
"""
CHECK = f"{{type: similar_to, value: {VALUE}, method: embeddings, model: own/letters, at_least: 0.6%s}}"
KEY = "sk-embedding-8c1f4e72"
CONFIG = """\
model = "scripted/replies.yaml"
[providers.own]
base_url = "%s"
api_key_env = "OWN_KEY"
[prices."own/letters"]
input = 1000000
output = 0
"""
ALIKE, OTHER = "On Monday your order arrives.", "Bananas are yellow."


def ran(shell: Shell, server: ModelServer, reply: str, *checks: str, code: int) -> dict:
    """The report on one trial whose model replies this."""
    shell.write("a.scenario.yaml", SCENARIO % "\n".join(f"      - {check}" for check in checks))
    shell.write(
        "replies.yaml", f"rules:\n  - reply: {json.dumps(reply)}\n    usage: {{input_tokens: 0, output_tokens: 0}}\n"
    )
    shell.write("steadyhand.toml", CONFIG % server.base_url)
    ended = shell("run", "a.scenario.yaml", "--json", "out.json", "--retries", "0", "--no-progress", OWN_KEY=KEY)
    assert ended.code == code, ended.out + ended.err
    return json.loads((shell.folder / "out.json").read_text())


def found(report: dict) -> list[tuple[str, str]]:
    return [(each["verdict"], each["message"]) for each in report["trials"][0]["evaluations"]]


@pytest.mark.parametrize(
    ("reply", "more", "verdict", "code"),
    [
        (ALIKE, "", "passed", 0),
        (OTHER, "", "failed", 1),
        (ALIKE, ", negate: true", "failed", 1),
        (OTHER, ", negate: true", "passed", 0),
    ],
)
def test_the_cosine_decides(shell, reply, more, verdict, code):
    with served(ModelServer()) as server:
        report = ran(shell, server, reply, CHECK % more, code=code)
    (check,) = report["trials"][0]["evaluations"]
    assert check["verdict"] == verdict
    assert (check["figures"]["similarity"] >= 0.6) is (reply == ALIKE)
    (asked,) = server.log
    assert (asked.path, asked.body) == ("/v1/embeddings", {"model": "letters", "input": [VALUE, reply]})
    assert asked.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("more", ["", ", negate: true"])
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(status=500, error="out of memory"), "out of memory"),
        (Answer(status=401, error=f"bad key {KEY}"), "bad key ***"),
        (Answer(fault="reset"), "connection broke"),
        (Answer(body=b"<html>Welcome</html>"), "not a list of two embeddings"),
        (Answer(body=b'{"data": [{"embedding": [1]}]}'), "not a list of two embeddings"),
        (Answer(body=b'{"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}'), "have 1 and 2 numbers"),
        (Answer(body=b'{"data": [{"embedding": []}, {"embedding": []}]}'), "no direction"),
        (Answer(body=b'{"data": [{"embedding": [0, 0]}, {"embedding": [1, 0]}]}'), "no direction"),
        (Answer(body=b'{"data": [{"embedding": ["1"]}, {"embedding": [true]}]}'), "not a list of two embeddings"),
        (Answer(body=b'{"data": [{"embedding": [1], "index": 0}, {"embedding": [1], "index": 0}]}'), "[0, 0]"),
        (Answer(body=b'{"error": {"message": "no such model"}}'), "no such model"),
    ],
)
def test_a_server_that_fails_decides_nothing(shell, answer, why, more):
    with served(ModelServer(answer)) as server:
        report = ran(shell, server, ALIKE, CHECK % more, code=3)
    ((verdict, message),) = found(report)
    assert verdict == "inconclusive"
    assert why in message
    assert KEY not in json.dumps(report)


@pytest.mark.parametrize("more", ["", ", negate: true"])
def test_silence_fails_and_nobody_is_asked(shell, more):
    with served(ModelServer()) as server:
        report = ran(shell, server, "<think>On Monday.</think> \u200b", CHECK % more, code=1)
    assert {verdict for verdict, _ in found(report)} == {"failed"}
    assert server.received == 0


def test_a_group_asks_last_and_only_if_the_others_leave_it_open(shell):
    group = "any_of: [%s, {type: string_contains, value: monday}]"
    with served(ModelServer(Answer(status=500))) as server:
        ran(shell, server, ALIKE, group % (CHECK % ""), code=0)
        assert server.received == 0
        report = ran(shell, server, OTHER, group % (CHECK % ""), code=3)
        assert server.received == 1
    assert found(report)[0][0] == "inconclusive"


def test_the_call_is_counted_and_priced(shell):
    with served(ModelServer()) as server:
        report = ran(shell, server, ALIKE, CHECK % "", code=0)
    cost = report["summary"]["cost"]
    assert (cost["by_model"]["own/letters"]["input_tokens"], cost["cost"], cost["complete"]) == (7, 7.0, True)
    assert list(cost["by_purpose"]) == ["agent", "judge"]


def test_a_run_is_replayed_without_the_server_and_rejudged_with_it(shell):
    with served(ModelServer()) as server:
        ran(shell, server, ALIKE, CHECK % "", code=0)
        assert shell("run", "a.scenario.yaml", "--record", "tape", "--no-progress", OWN_KEY=KEY).code == 0
        rejudged = shell("rejudge", "last", "--no-progress", OWN_KEY=KEY)
        assert (rejudged.code, server.received) == (0, 3), rejudged.out + rejudged.err
    ended = shell("run", "a.scenario.yaml", "--replay", "tape", "--no-progress")
    assert ended.code == 0, ended.out + ended.err


def test_an_invariant_is_checked_on_the_complete_answer_only(shell):
    text = DECISION.format(id="SCN-C-001", prompt="What now?").replace(
        'check_type: regex\n    pattern: "call for help"',
        "check_type: similar_to\n    value: Call for help now\n    method: embeddings\n    model: own/letters",
    )
    shell.write("d.yaml", text)
    shell.write("replies.yaml", "rules:\n  - {reply: Call for help now., chunk_chars: 4, chunk_ms: 1}\n")
    with served(ModelServer()) as server:
        shell.write("steadyhand.toml", CONFIG % server.base_url)
        ended = shell("run", "d.yaml", "--json", "out.json", "--no-progress", OWN_KEY=KEY)
        assert ended.code == 0, ended.out + ended.err
        assert server.received == 1
    trial = json.loads((shell.folder / "out.json").read_text())["trials"][0]
    assert trial["time_to_safe_excludes"] == ["calls_for_help"]
    refused = text.replace("severity: 1.0\n", "severity: 1.0\n    negate: true\n", 1)
    shell.write("d.yaml", refused)
    shell.write("replies.yaml", "rules:\n  - reply: I'm sorry, but I can't help with that.\n")
    with served(ModelServer()) as server:
        shell.write("steadyhand.toml", CONFIG % server.base_url)
        ended = shell("run", "d.yaml", "--json", "out.json", "--no-progress", OWN_KEY=KEY)
    assert ended.code == 3, "a refusal is no decision"


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("letters", "a.scenario.yaml:8:9: model 'letters' has no provider"),
        ("anthropic/letters", "a.scenario.yaml:8:9: model anthropic/letters: the provider anthropic has no embeddings"),
        ("own/letters", "a.scenario.yaml:8:9: own/letters needs a key: set OWN_KEY"),
        ("nobody/letters", "unknown model provider 'nobody'"),
    ],
)
def test_a_model_that_cannot_be_asked_is_found_before_anything_runs(shell, model, said):
    shell.write("a.scenario.yaml", SCENARIO % ("      - " + (CHECK % "").replace("own/letters", model)))
    shell.write("replies.yaml", "rules:\n  - reply: Hello.\n")
    shell.write("steadyhand.toml", CONFIG % "http://127.0.0.1:9/v1")
    ended = shell("run", "a.scenario.yaml", "--no-progress")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert shell("validate", "a.scenario.yaml").code == 0


def test_the_example_runs_with_the_server_that_ships(shell):
    shutil.copytree(EXAMPLES / "embeddings", shell.folder / "embeddings")
    for name in ("replies.yaml", "steadyhand.toml"):
        shutil.copy(EXAMPLES / name, shell.folder)
    with served(ModelServer()) as server:
        ended = shell("run", "embeddings", "--no-progress", OPENAI_BASE_URL=server.base_url)
    assert ended.code == 0, ended.out + ended.err
