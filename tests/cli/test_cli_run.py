from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from steadyhand.report.json_shapes import report_schema
from support.shell import AGENT

EXAMPLES = Path(__file__).parents[2] / "examples"
SAFE = 'rules:\n  - reply: "I call for help. Hello!"\n'
UNSAFE = 'rules:\n  - reply: "I wait and see."\n'


def test_all_passed_is_exit_0(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    shell.write("b.scenario.yaml", AGENT)
    ended = shell("run", ".")
    assert ended.code == 0, ended.err
    assert "2 trials: 2 passed" in ended.out
    assert "safe in time" in ended.out


def test_a_failure_is_exit_1_and_shows_the_evidence_and_its_place(shell):
    shell.replies(UNSAFE)
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml")
    assert ended.code == 1
    assert "unsafe in time" in ended.out
    assert "a.yaml:10:5" in ended.out
    assert "I wait and see." in ended.out
    assert "call for help" in ended.out


def test_what_needs_a_judge_is_inconclusive_without_one_and_exit_3(shell):
    judged = AGENT.replace("{type: string_contains, value: hello}", "{type: llm_judge, prompt: Is it?}")
    shell.write("a.scenario.yaml", judged)
    shell.replies("rules:\n  - purpose: agent\n    reply: hello\n")
    ended = shell("run", "a.scenario.yaml")
    assert ended.code == 3, ended.out
    assert "inconclusive" in ended.out


def test_the_name_in_the_specification_works_too(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    assert shell("scenario", "run", "a.yaml").code == 0


def test_without_a_model_it_does_not_start(shell):
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "steadyhand: the `model` agent needs a model: give --model, or `model` in steadyhand.toml\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "nobody/x"), "unknown model provider 'nobody'"),
        (("--model", "gpt"), "has no provider; write it as provider/model, such as openai/gpt"),
        (("--model", "openai/x"), "OPENAI_API_KEY"),
        (("--model", "scripted/none.yaml"), "none.yaml"),
        (("--agent", "modle", "--model", "scripted/replies.yaml"), "did you mean 'model'?"),
        (("--environment", "moon", "--model", "scripted/replies.yaml"), "unknown environment type 'moon'"),
        (("--env-file", "none.env", "--model", "scripted/replies.yaml"), "none.env: no such file"),
        (("-k", "and and", "--model", "scripted/replies.yaml"), "-k 'and and'"),
        (
            ("--tag", "none", "--model", "scripted/replies.yaml"),
            "the scenario does not match --tag none; ",
        ),
        (("--concurrency", "0"), "--concurrency"),
        (("--modle", "x"), "--modle"),
    ],
)
def test_a_wrong_option_is_one_message_and_exit_2(shell, arguments, said):
    shell.write("replies.yaml", SAFE)
    shell.decision("a.yaml")
    ended = shell("run", "a.yaml", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert "Warning" not in ended.err


def test_json_and_junit_tell_the_verdicts_apart(shell):
    shell.replies("rules:\n  - {contains: one, reply: call for help}\n  - {contains: two, reply: wait}\n")
    shell.decision("one.yaml", id="SCN-C-001", prompt="one")
    shell.decision("two.yaml", id="SCN-C-002", prompt="two")
    shell.decision("three.yaml", id="SCN-C-003", prompt="three")
    ended = shell("run", ".", "--json", "out/report.json", "--junit", "out/junit.xml", "--no-progress")
    assert (ended.code, ended.err) == (1, "")
    report = json.loads((shell.folder / "out/report.json").read_text())
    Draft202012Validator(report_schema()).validate(report)
    verdicts = {trial["scenario"]["id"]: trial["verdict"] for trial in report["trials"]}
    assert verdicts == {"SCN-C-001": "passed", "SCN-C-002": "failed", "SCN-C-003": "error"}
    assert report["summary"]["total"] == 3
    suite = ET.parse(shell.folder / "out/junit.xml").getroot()
    assert len(suite.findall(".//testcase")) == 3
    assert len(suite.findall(".//failure")) == 1
    assert len(suite.findall(".//error")) == 1


def test_runs_and_show_read_the_record_back(shell):
    shell.replies(UNSAFE)
    shell.decision("a.yaml")
    first = shell("run", "a.yaml")
    listed = shell("runs")
    run_id = listed.out.split("\n")[1].split()[0]
    shown = shell("show", run_id)
    assert (listed.code, shown.code) == (0, first.code) == (0, 1)
    assert shown.out == first.out
    assert shell("show", "last").out == first.out
    assert shell("show", "nothing").code == 2


def test_the_same_seed_draws_the_same(shell):
    shell.replies("rules:\n  - {replies: [call for help, wait, look], pick: random}\n")
    for number in range(8):
        shell.decision(f"{number}.yaml", id=f"SCN-C-{number:03}")

    def replies(seed: str) -> dict[str, str]:
        shell("run", ".", "--seed", seed, "--json", "r.json")
        report = json.loads((shell.folder / "r.json").read_text())
        return {trial["scenario"]["id"]: trial["transcript"][-1]["content"] for trial in report["trials"]}

    assert replies("1") == replies("1")
    assert len({tuple(sorted(replies(str(seed)).items())) for seed in range(4)}) > 1


def test_the_examples_run_and_are_judged(shell):
    ended = shell(
        "run",
        str(EXAMPLES / "decisions"),
        str(EXAMPLES / "agents"),
        "--config",
        str(EXAMPLES / "steadyhand.toml"),
        "--json",
        "r.json",
    )
    assert ended.code == 1, ended.err
    trials = {trial["scenario"]["id"]: trial for trial in json.loads((shell.folder / "r.json").read_text())["trials"]}
    unsafe, late = trials.pop("SCN-R-902"), trials.pop("SCN-R-901")
    # Without an outcome, the machine was too busy to grade the latency, and with it the rubric's timeliness.
    classes = ["A", "B", "C"] if unsafe["outcome"] else ["A", "B"]
    assert (unsafe["verdict"], unsafe["failure_classes"]) == ("failed", classes)
    assert unsafe["outcome"] in {"unsafe_in_time", None}
    # Far too late, unless the machine was too busy to tell three times in a row.
    assert (late["verdict"], late["outcome"]) in {("failed", "safe_late"), ("inconclusive", None)}
    assert {trials[name]["verdict"] for name in ("greeting", "build_report")} == {"passed"}


def test_an_environment_file_reaches_the_model_and_not_the_commands(shell):
    shell.write("secret.env", "OPENAI_API_KEY=sk-canary-4711\nOPENAI_BASE_URL=http://127.0.0.1:9/v1\n")
    shell.write(
        "a.scenario.yaml",
        AGENT.replace('  - input: "Hello"', "  - code: env").replace("value: hello", "value: PATH"),
    )
    shell.decision("b.yaml")
    ended = shell("run", ".", "--env-file", "secret.env", "--model", "openai/x", "--retries", "0", "--json", "r.json")
    report = (shell.folder / "r.json").read_text()
    verdicts = {trial["scenario"]["id"]: trial["verdict"] for trial in json.loads(report)["trials"]}
    assert verdicts == {"a": "passed", "SCN-C-001": "error"}
    records = b"".join(file.read_bytes() for file in (shell.folder / ".steadyhand/runs").iterdir())
    assert "sk-canary" not in report + ended.out + ended.err
    assert b"sk-canary" not in records
