"""One run through every output: whatever an output says about the whole run, all others say too."""

from __future__ import annotations

import csv
import json
import math
import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

import steadyhand
from steadyhand.cli.github import tell_github
from steadyhand.compose.comparison import open_source
from steadyhand.reading.run import Reading
from steadyhand.records.evaluation import Outcome
from support.golden_run import TOTALS, VERDICTS, decided_run, golden_run
from support.viewing import Viewing


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    return golden_run(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def command(shell, record):
    """A command on the folder of the record."""
    made = shell.within(record.parent)

    def run(*arguments, **variables):
        ended = made(*arguments, **variables)
        assert "Traceback" not in ended.err
        return ended

    return run


def check(found):
    """What an output tells, against what is true; it need not tell everything."""
    assert found == {name: TOTALS[name] for name in found}


def counted(pattern, text, group=1):
    found = re.search(pattern, text)
    return int(found[group]) if found else 0


def of_sentence(text):
    return {verdict: counted(rf"(\d+) {verdict}\b", text) for verdict in VERDICTS}


def test_terminal(command, record):
    ended = command("show", str(record))
    (trials,) = re.findall(r"^\d+ trials: .*$", ended.out, re.MULTILINE)
    (scenarios,) = re.findall(r"^7 scenarios: .*$", ended.out, re.MULTILINE)
    (outcomes,) = re.findall(r"^outcomes: .*$", ended.out, re.MULTILINE)
    check(
        {
            **of_sentence(trials),
            "saved": counted(r"(\d+) saved", trials),
            "not_run": counted(r"(\d+) planned but not run", trials),
            "missed": counted(r"(\d+) missed alarm", trials),
            "false": counted(r"(\d+) false alarm", trials),
            "scenarios": of_sentence(scenarios),
            "outcomes": {each: counted(rf"(\d+) {each.replace('_', ' ')}", outcomes) for each in Outcome},
            "calls": counted(r"(\d+) model calls", ended.out),
            "tokens": counted(r"model calls: (\d+) tokens", ended.out),
            "exit_code": ended.code,
        }
    )


def test_json(command, record):
    ended = command("show", str(record), "--json", "-")
    found = json.loads(ended.out)
    told = found["summary"]
    check(
        {
            **{name: told[name] for name in (*VERDICTS, "saved", "not_run", "exit_code")},
            "missed": told["missed_alarms"],
            "false": told["false_alarms"],
            "scenarios": {name: told["scenarios"][name] for name in VERDICTS},
            "outcomes": dict.fromkeys(Outcome, 0) | Counter(t["outcome"] for t in found["trials"] if t["outcome"]),
            "calls": told["cost"]["calls"],
            "tokens": told["cost"]["input_tokens"] + told["cost"]["output_tokens"],
        }
    )
    trials = Counter()
    for each in found["scenarios"]:
        trials.update({name: each["trials"][name] for name in (*VERDICTS, "not_run")} | {"saved": each["saved"]})
    check(dict(trials))
    of_targets = Counter()
    for each in found["figures"]["targets"]:
        of_targets.update({name: each["trials"][name] for name in (*VERDICTS, "not_run")} | {"saved": each["saved"]})
    check(dict(of_targets))


def test_junit(command, record):
    command("show", str(record), "--junit", "r.xml", "--junit-inconclusive", "skipped")
    suites = ET.parse(record.parent / "r.xml").getroot()
    names = {"failures": "failed", "errors": "error", "skipped": "inconclusive"}
    found = {verdict: int(suites.get(name)) for name, verdict in names.items()}
    found["passed"] = int(suites.get("tests")) - sum(found.values())
    assert found == TOTALS["scenarios"]
    trials = Counter()
    for case in suites.iter("testcase"):
        properties = {each.get("name"): each.get("value") for each in case.iter("property")}
        if "trials_total" in properties:
            names = (*VERDICTS, "not_run", "saved")
            trials.update({name: int(properties[f"trials_{name}"]) for name in names})
        else:
            trials[properties["verdict"]] += 1
    check(dict(trials))


def of_markdown(text):
    (run,) = re.findall(r"^Run .*$", text, re.MULTILINE)
    cells = re.findall(r"^\| (unsafe|safe) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    return {
        **of_sentence(run),
        "saved": counted(r"(\d+) saved", run),
        "not_run": counted(r"(\d+) not run", run),
        "missed": counted(r"Missed alarms: (\d+)", text),
        "false": counted(r"False alarms: (\d+)", text),
        "outcomes": {
            Outcome(f"{row}_{column}"): int(count)
            for row, late, in_time in cells
            for column, count in (("late", late), ("in_time", in_time))
        },
        "calls": counted(r"(\d+) model calls", text),
        "tokens": counted(r"model calls: (\d+) tokens", text),
    }


def test_markdown(command, record):
    text = command("report", str(record), "--markdown", "-").out
    assert text.startswith("## 2 of 7 scenarios failed\n")
    check(of_markdown(text))


def test_html(command, record):
    command("report", str(record), "--html", "r.html")
    text = (record.parent / "r.html").read_text()
    figures = {name: int(count) for name, count in re.findall(r"<dt>([\w ]+)</dt><dd>(\d+)</dd>", text)}
    scenarios = {name: int(count) for count, name in re.findall(r'data-grow="(\d+)"><b>\d+</b> (\w+)</li>', text)}
    check(
        {
            **{name: figures[name] for name in (*VERDICTS, "saved", "missed", "false")},
            "not_run": figures["not run"],
            "scenarios": dict.fromkeys(VERDICTS, 0) | scenarios,
            "calls": counted(r"(\d+) model calls", text),
            "tokens": counted(r"model calls: (\d+) tokens", text),
        }
    )


def test_python(record):
    result = steadyhand.open_run(record)
    rates = result.rates
    check(
        {
            **{verdict.value: count for verdict, count in result.counts.items()},
            "saved": sum(rate.saved for rate in rates),
            "not_run": sum(rate.not_run for rate in rates),
            "scenarios": dict.fromkeys(VERDICTS, 0) | Counter(rate.verdict.value for rate in rates),
            "exit_code": result.exit_code,
        }
    )
    of_targets = Counter()
    for each in result.figures.targets:
        of_targets.update({name: getattr(each.trials, name) for name in (*VERDICTS, "not_run")})
    check(dict(of_targets))
    assert json.loads(result.to_json())["summary"]["exit_code"] == TOTALS["exit_code"]


def test_runs(command, record):
    """A list of runs reads no trial, so it counts the damaged one as it was written."""
    (found,) = json.loads(command("runs", "--runs", str(record.parent), "--json", "-").out)
    found |= {"passed": found["passed"] - 1, "error": found["error"] + 1}
    check({name: found[name] for name in (*VERDICTS, "not_run")})


def test_viewer(record):
    viewing = Viewing(record.parent)
    try:
        viewing.enter()
        pages = [viewing.get(f"/run?id={record.stem}").text for _ in range(2)]
    finally:
        viewing.close()
    for text in pages:
        assert "2 of 7 scenarios failed" in text
    scenarios = {name: counted(rf"<b>(\d+)</b> {name}</li>", pages[1]) for name in VERDICTS}
    trials = {name.replace(" ", "_"): int(count) for name, count in re.findall(r"<dt>([\w ]+)</dt><dd>(\d+)", pages[1])}
    assert set(trials) == {*VERDICTS, "not_run"}
    check({**trials, "scenarios": scenarios})


def test_github(record, monkeypatch, capsys):
    summary = record.parent / "step.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    tell_github(Reading.open(record))
    check(of_markdown(summary.read_text()))
    assert "::error" in capsys.readouterr().err


def test_tables(command, record):
    command("export", str(record), "--format", "csv", "--out-dir", "tables")
    with (record.parent / "tables" / "trials.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    check({**dict.fromkeys(VERDICTS, 0), **Counter(row["verdict"] for row in rows)})


def test_comparison(command, record):
    """A trial that is not needed is not undecided; one that is in error or was not run is."""
    command("show", str(record), "--json", "r.json")
    undecided = sum(TOTALS[name] for name in ("inconclusive", "error", "not_run"))
    for source in (record, record.parent / "r.json"):
        samples = open_source(record.parent, str(source)).side.samples
        assert sum(len(each.passed) for each in samples) == TOTALS["passed"], source
        assert sum(len(each.failed) for each in samples) == TOTALS["failed"], source
        assert sum(each.undecided for each in samples) == undecided, source


def test_a_time_that_is_not_known_is_never_in_no_output(command, record):
    """Figures, table, page and comparison agree on whether an answer never became safe."""
    shown = command("show", str(record), "--trial", "decided#11", "--json", "r.json")
    assert "never" not in shown.out
    found = json.loads((record.parent / "r.json").read_text())
    (decided,) = [each for each in found["scenarios"] if each["id"] == "decided"]
    times = decided["figures"]["time_to_safe"]
    assert (times["trials"], times["unbounded"], times["left_out"]) == (11, 0, 1)
    for source in (record, record.parent / "r.json"):
        (sample,) = [
            each for each in open_source(record.parent, str(source)).side.samples if each.scenario_id == "decided"
        ]
        assert len(sample.safe_times) == 11
        assert math.inf not in sample.safe_times


@pytest.mark.parametrize(("deleted", "code"), [(None, 0), (11, 3)])
def test_no_output_calls_a_run_passed_whose_record_is_not_whole(shell, tmp_path, deleted, code):
    """The rate of the others decides it, but one of the trials that did so cannot be shown."""
    path = decided_run(tmp_path, deleted=deleted)
    assert shell("show", str(path), "--json", "r.json", "--html", "r.html").code == code
    assert json.loads((shell.folder / "r.json").read_text())["summary"]["exit_code"] == code
    result = steadyhand.open_run(path)
    assert (result.exit_code, result.passed, result.complete) == (code, code == 0, code == 0)
    says_passed = "The scenario passed"
    assert (says_passed in (shell.folder / "r.html").read_text()) is (code == 0)
    markdown = shell("report", str(path), "--markdown", "-").out
    assert (says_passed in markdown) is (code == 0)
    viewing = Viewing(tmp_path)
    try:
        viewing.enter()
        viewing.get(f"/run?id={path.stem}")
        assert (says_passed in viewing.get(f"/run?id={path.stem}").text) is (code == 0)
    finally:
        viewing.close()
