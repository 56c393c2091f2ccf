"""Rates as a pipeline sees them: the exit code, JUnit, JSON and the last line agree."""

import json
import xml.etree.ElementTree as ET

import pytest

# The seed of a trial picks its answer; with seed 7, eight of ten trials call for help.
MOSTLY = "rules:\n  - {replies: [I call for help., I call for help., I call for help., I wait.], pick: random}\n"


def reports(batch):
    return (
        json.loads((batch.folder / "out/report.json").read_text()),
        ET.parse(batch.folder / "out/junit.xml").getroot(),
    )


@pytest.mark.parametrize(("rate", "code"), [("0.8", 0), ("0.81", 1), (None, 1)])
def test_the_rate_decides_everywhere_alike(batch, rate, code):
    batch.replies(MOSTLY)
    options = ["--pass-rate", rate] if rate else []
    files = ["--json", "out/report.json", "--junit", "out/junit.xml"]
    ended = batch("run", "untimed.yaml", "--trials", "10", "--seed", "7", "--no-progress", *options, *files)
    assert ended.code == code
    report, junit = reports(batch)
    verdict = "failed" if code else "passed"
    assert "10 trials: 8 passed, 2 failed\n" in ended.out
    assert f"1 scenario: 1 {verdict}\n" in ended.out
    assert (report["summary"]["exit_code"], report["summary"]["scenarios"][verdict]) == (code, 1)
    assert (report["summary"]["passed"], report["summary"]["failed"]) == (8, 2)
    assert (junit.get("tests"), junit.get("failures")) == ("1", "1" if code else "0")
    told = junit.find(".//failure" if code else ".//system-out").text
    assert "FAILED  untimed#" in told
    assert "assistant  I wait." in told
    again = batch("show", "last", "--junit", "out/again.xml")
    assert again.out == ended.out
    assert (batch.folder / "out/again.xml").read_text() == (batch.folder / "out/junit.xml").read_text()


def test_errors_are_not_left_out_of_the_share(batch):
    batch.replies(
        "rules:\n  - {match: fine, reply: call for help}\n  - {match: down, fail: {kind: server}}\n",
    )
    for name in ("fine", "down"):
        text = (batch.folder / "untimed.yaml").read_text().replace("What now?", name)
        batch.write(f"{name}.yaml", text.replace("id: untimed", f"id: {name}"))
    files = ["--json", "out/report.json", "--junit", "out/junit.xml"]
    common = ["--trials", "3", "--pass-rate", "0.1", "--retries", "0", "--no-progress", *files]
    ended = batch("run", "fine.yaml", "down.yaml", *common)
    assert ended.code == 3
    report, junit = reports(batch)
    assert [(each["id"], each["verdict"]) for each in report["scenarios"]] == [("fine", "passed"), ("down", "error")]
    assert report["summary"]["exit_code"] == 3
    assert (junit.get("tests"), junit.get("failures"), junit.get("errors")) == ("2", "0", "1")
    assert "2 scenarios: 1 passed, 1 error" in ended.out


def test_a_run_that_was_cut_short_is_not_green_anywhere(batch):
    batch.write("costly.yaml", "rules:\n  - {reply: call for help, usage: {input_tokens: 10, output_tokens: 1}}\n")
    files = ["--json", "out/report.json", "--junit", "out/junit.xml"]
    options = ["--trials", "4", "--pass-rate", "0.5", "--max-tokens", "30", "--concurrency", "1", "--no-progress"]
    ended = batch("run", "untimed.yaml", "--model", "scripted/costly.yaml", *options, *files)
    assert ended.code == 3, ended
    report, junit = reports(batch)
    assert report["scenarios"][0]["trials"] == {
        "passed": 3,
        "failed": 0,
        "inconclusive": 0,
        "error": 0,
        "not_run": 1,
        "total": 4,
    }
    assert (report["summary"]["exit_code"], report["scenarios"][0]["verdict"]) == (3, "inconclusive")
    assert (junit.get("tests"), junit.get("skipped")) == ("1", "1")
    assert "3 trials: 3 passed; 1 planned but not run\n1 scenario: 1 inconclusive\n" in ended.out


def test_every_trial_has_a_seed_a_workspace_and_mocks_of_its_own(batch):
    batch.write("tools.yaml", "rules:\n  - {tool_results: true, echo: true}\n  - tool_calls: [{name: net_ping}]\n")
    batch.write(
        "own.scenario.yaml",
        """\
id: own
name: Nothing is left from another trial
description: d
environment: {type: local}
setup:
  mocks:
    - service: net
      method: ping
      responseFn: "() => { globalThis.n = (globalThis.n || 0) + 1; return 'count ' + globalThis.n }"
run:
  - input: ping
    evaluations: [{type: string_contains, value: count 1}]
  - code: touch here && ls
    evaluations: [{type: command_exit_code_is, command: "test $(ls | wc -l) = 1", expected_code: 0}]
judgment: {strategy: all_pass}
trials: 5
""",
    )
    options = ["--model", "scripted/tools.yaml", "--no-progress", "--json", "all.json", "--concurrency", "3"]
    assert batch("run", "own.scenario.yaml", *options).code == 0
    trials = json.loads((batch.folder / "all.json").read_text())["trials"]
    assert [trial["trial"] for trial in trials] == [0, 1, 2, 3, 4]
    assert len({trial["seed"] for trial in trials}) == 5


def test_reports_are_written_though_nobody_reads_the_table(batch):
    files = ["--json", "out/report.json", "--junit", "out/junit.xml"]
    process = batch.start("run", "untimed.yaml", "--trials", "150", "--no-progress", *files)
    process.stdout.close()
    process.wait()
    process.stderr.close()
    report, junit = reports(batch)
    assert (report["summary"]["passed"], junit.get("tests")) == (150, "1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--trials", "0"), "--trials"),
        (("--pass-rate", "0"), "--pass-rate"),
        (("--pass-rate", "90"), "--pass-rate"),
        (("--pass-rate", "nan"), "expected more than 0 and at most 1"),
        (
            ("--dry-run", "--json", "a.json", "--junit", "b.xml"),
            "--dry-run produces no report; drop it or drop --json and --junit",
        ),
    ],
)
def test_options_that_make_no_sense(batch, arguments, said):
    ended = batch("run", "untimed.yaml", *arguments)
    assert (ended.code, said in ended.err) == (2, True), ended
    assert not (batch.folder / ".steadyhand").exists()
