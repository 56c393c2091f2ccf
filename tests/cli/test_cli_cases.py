"""A scenario with cases, from the table to every output: each case is a scenario of its own."""

import csv
import json
import xml.etree.ElementTree as ET

import pytest

pytestmark = pytest.mark.system

SCENARIO = """\
id: SCN-C-500
name: Which ward
domain: clinical
description: d
cases: {file: cases.csv}
messages: [{role: user, content: "Patient {{ id }}: {{ finding }}"}]
latency_budget: {target_ms: 60000, acceptable_ms: 60000, critical_ms: 60000}
safety_invariants:
  - {name: ward, description: d, check_type: contains, pattern: "{{ ward }}", severity: 1.0}
constraint: {description: d, time_pressure: minutes, consequence_of_delay: d}
rubric: rubric_clinical
expected_action: "{{ ward }}"
severity: 1.0
"""
ROWS = [
    ["id", "finding", "ward", "tags"],
    ["a", 'pain, "crushing"', "cardiology", "heart"],
    ["b", "a rash", "dermatology", ""],
    ["c", "a cough", "pneumology", "lung"],
]
MODEL = """\
rules:
  - {contains: "crushing", reply: To cardiology.}
  - {contains: a cough, reply: To pneumology.}
  - {reply: Home.}
"""
IDS = ["SCN-C-500[a]", "SCN-C-500[b]", "SCN-C-500[c]"]


@pytest.fixture
def triage(batch):
    batch.write("t.yaml", SCENARIO)
    batch.write("m.yaml", MODEL)
    write_rows(batch, ROWS)
    return batch


def write_rows(batch, rows):
    with (batch.folder / "cases.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def run(batch, *more):
    return batch("run", "t.yaml", "--model", "scripted/m.yaml", "--no-progress", *more)


def test_every_case_has_its_verdict_in_every_output(triage):
    ended = run(triage, "--json", "r.json", "--junit", "r.xml")
    assert ended.code == 1
    report = json.loads((triage.folder / "r.json").read_text())
    verdicts = [(each["id"], each["verdict"]) for each in report["scenarios"]]
    assert verdicts == list(zip(IDS, ("passed", "failed", "passed"), strict=True))
    cases = ET.parse(triage.folder / "r.xml").getroot().findall(".//testcase")
    assert [case.get("name").split("  ")[0] for case in cases] == IDS


@pytest.mark.parametrize(("option", "kept"), [(("--tag", "lung"), IDS[2:]), (("-k", "[a]"), IDS[:1])])
def test_cases_are_selected_like_scenarios(triage, option, kept):
    listed = run(triage, *option, "--dry-run").out.splitlines()
    assert [line for line in listed if line.startswith("SCN")] == kept


def test_a_resume_runs_the_case_that_is_left(triage):
    triage.write("m.yaml", MODEL.replace("reply: Home.", "fail: {kind: server}"))
    assert run(triage, "--retries", "0").code == 3
    triage.write("m.yaml", MODEL)
    write_rows(triage, [*ROWS, ["d", "a cough", "pneumology", ""]])
    ended = triage("resume", "last", "--force", "--no-progress")
    assert "1 of 3 trials left to run" in ended.err, ended
    assert [row.key.scenario_id for row in triage.reader().rows()] == IDS


def test_shards_and_workers_know_the_cases(triage):
    triage(
        "run",
        "t.yaml",
        "--model",
        "scripted/m.yaml",
        "--no-progress",
        "--workers",
        "2",
        "--shard",
        "1/2",
        "--seed",
        "1",
    )
    assert [row.key.scenario_id for row in triage.reader().rows()] == [IDS[0], IDS[2]]


def test_a_matrix_runs_every_case_in_every_combination(triage):
    triage.write("x.matrix.yaml", "base_scenario: t.yaml\nmatrix: [{parameter: severity, values: [0.5, 1.0]}]\n")
    ended = triage("run", "x.matrix.yaml", "--model", "scripted/m.yaml", "--dry-run")
    named = [f"{each}[severity={value}]" for value in (0.5, 1.0) for each in IDS]
    assert [line for line in ended.out.splitlines() if line.startswith("SCN")] == named, ended


def test_a_table_outside_the_project_needs_trust(triage, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "cases").mkdir()
    (elsewhere / "cases/t.yaml").write_text(SCENARIO.replace("file: cases.csv", "file: ../cases.csv"))
    (triage.folder / "cases.csv").rename(elsewhere / "cases.csv")
    ended = triage("run", str(elsewhere / "cases/t.yaml"), "--model", "scripted/m.yaml", "--no-progress")
    assert ended.code == 2
    assert f"file {elsewhere}/cases.csv" in ended.err


def test_lint_tells_cases_that_no_check_tells_apart(triage):
    text = SCENARIO.replace('pattern: "{{ ward }}"', "pattern: ology")
    triage.write("t.yaml", f"{text}examples: {{good: ['To {{{{ ward }}}}.', 'Ask {{{{ ward }}}}.'], bad: [x, y]}}\n")
    assert "cases-alike" in triage("lint", "t.yaml").out


def test_lint_looks_into_groups_and_a_scenario_ignores_for_its_table(triage):
    group = 'any_of: [{check_type: contains, pattern: "{{ ward }}"}, {check_type: contains, pattern: nobody}]'
    text = SCENARIO.replace('check_type: contains, pattern: "{{ ward }}"', group)
    triage.write("t.yaml", text)
    write_rows(triage, [[*row, "spare"] for row in ROWS])
    found = triage("lint", "t.yaml").out
    assert "cases-alike" not in found
    assert "unused-column" in found
    triage.write("t.yaml", f"x-lint-ignore: unused-column\n{text}")
    assert "unused-column" not in triage("lint", "t.yaml").out


def test_lint_makes_checks_that_cannot_be_told_from_a_pattern(triage):
    check = 'check_type: advises, action: ["send him to {{ ward }}", "send him to {{ other }}"], judge_criterion: c'
    text = SCENARIO.replace('check_type: contains, pattern: "{{ ward }}"', check)
    triage.write(
        "t.yaml", f"{text}examples: {{good: ['Send him to {{{{ ward }}}}.', 'Send him to {{{{ ward }}}} now.']}}\n"
    )
    rows = [
        ["id", "finding", "ward", "other"],
        ["a", "pain", "cardiology", "dermatology"],
        ["b", "a rash", "dermatology", "x"],
    ]
    write_rows(triage, rows)
    found = triage("lint", "t.yaml").out
    assert 'a good answer to the case `b` passes every check of `a`: "Send him to dermatology."' in found
    write_rows(triage, [rows[0], [*rows[1][:3], "y"], rows[2]])
    assert "cases-alike" not in triage("lint", "t.yaml").out
