"""Several targets in one run: a verdict for each, the same in every report and after a resume."""

import json
import xml.etree.ElementTree as ET

import pytest

pytestmark = pytest.mark.system

WRONG = "rules:\n  - reply: I wait.\n"
DOWN = "rules:\n  - {fail: {kind: server}}\n"
RIGHT = "rules:\n  - reply: I call for help now.\n"
NAMES = ["untimed[model=scripted/replies.yaml]", "untimed[model=scripted/other.yaml]"]
TWO = ("--model", "scripted/replies.yaml", "--model", "scripted/other.yaml")


def test_a_verdict_for_each_scenario_and_target(batch):
    batch.write("other.yaml", WRONG)
    ended = batch("run", "untimed.yaml", *TWO, "--trials", "2", "--json", "r.json", "--junit", "r.xml", "--no-progress")
    assert ended.code == 1
    assert "2 scenarios: 1 passed, 1 failed\n" in ended.out
    report = json.loads((batch.folder / "r.json").read_text())
    assert [(each["id"], each["verdict"]) for each in report["scenarios"]] == [
        (NAMES[0], "passed"),
        (NAMES[1], "failed"),
    ]
    cases = ET.parse(batch.folder / "r.xml").getroot().findall(".//testcase")
    assert [case.get("name").split("  ")[0] for case in cases] == NAMES
    assert [case.find("failure") is not None for case in cases] == [False, True]


def test_a_resume_runs_the_targets_that_are_left(batch):
    batch.write("other.yaml", DOWN)
    assert batch("run", "untimed.yaml", *TWO, "--retries", "0", "--no-progress").code == 3
    batch.write("other.yaml", RIGHT)
    ended = batch("resume", "last", "--force", "--no-progress")
    assert ended.code == 0, ended
    assert "1 of 2 trials left to run" in ended.err
    assert [row.key.scenario_id for row in batch.reader().rows()] == NAMES
    assert {target.scenario for target in batch.reader().header.targets.values()} == {"untimed"}


def test_the_plan_lists_every_target(batch):
    ended = batch("run", "untimed.yaml", *TWO, "--agent", "model", "--agent", "runtime", "--dry-run")
    assert ended.code == 0, ended
    listed = [f"untimed[agent={agent},model={model}]" for agent in ("model", "runtime") for model in (TWO[1], TWO[3])]
    assert ended.out.splitlines()[:4] == listed
    assert "would run 4 trials of 4 scenarios" in ended.out


def test_one_target_is_named_twice(batch):
    ended = batch("run", "untimed.yaml", "--model", "scripted/a.yaml", "--model", "scripted/a.yaml")
    assert ended.code == 2
    assert "--model scripted/a.yaml is given twice" in ended.err


def test_one_matrix_file_for_a_suite(batch):
    batch.write("suite/one.scenario.yaml", batch.folder.joinpath("untimed.yaml").read_text())
    text = batch.folder.joinpath("untimed.yaml").read_text().replace("id: untimed", "id: other")
    batch.write("suite/two.scenario.yaml", text)
    batch.write("wrong.yaml", WRONG)
    axis = "{parameter: model, values: [scripted/replies.yaml, scripted/wrong.yaml]}"
    batch.write("all.matrix.yaml", f"name: all\nbase_scenario: suite\nmatrix: [{axis}]\n")
    assert batch("validate", "all.matrix.yaml").code == 0
    ended = batch("run", "all.matrix.yaml", "--no-progress", "--transcript", "none", "--json", "r.json")
    assert ended.code == 1, ended
    table = ended.out[ended.out.index("matrix all") :].splitlines()
    assert table[:6] == [
        "matrix all: 4 combinations",
        "verdict  scenario  model                  passed",
        "passed   untimed   scripted/replies.yaml  1/1",
        "failed   untimed   scripted/wrong.yaml    0/1",
        "passed   other     scripted/replies.yaml  1/1",
        "failed   other     scripted/wrong.yaml    0/1",
    ]
    assert "model      scripted/replies.yaml  2/2                  2/2" in table
    report = json.loads((batch.folder / "r.json").read_text())
    assert [each["target"]["scenario"] for each in report["scenarios"]] == ["untimed", "untimed", "other", "other"]
    assert [(each["name"], each["rate"]) for each in report["figures"]["targets"]] == [
        ("model, scripted/replies.yaml", 1.0),
        ("model, scripted/wrong.yaml", 0.0),
    ]
