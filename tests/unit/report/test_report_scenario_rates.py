"""Reports on scenarios that were run several times, and on matrices."""

import itertools
import json
import xml.etree.ElementTree as ET
from functools import cache

import jsonschema
import msgspec
import pytest

from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunAxis, RunMatrix, TrialKey
from steadyhand.report.json import to_json
from steadyhand.report.json_shapes import report_schema
from steadyhand.report.junit import to_junit
from steadyhand.report.table import Page
from steadyhand.report.terminal import View, render_run
from support.sample_run import HEADER, reading_of
from support.sample_trials import typical

P, F, I, E = Verdict  # noqa: E741
MATRIX = RunMatrix(
    name="Which is best?",
    file="best.matrix.yaml",
    axes=(
        RunAxis(parameter="model", values=("openai/a", "openai/b")),
        RunAxis(parameter="run[0].conversation.max_turns", values=(3, 6)),
        RunAxis(parameter="judge", values=("openai/j",)),
    ),
    combinations={f"s[{m}{t}]": (m, t, 0) for m in (0, 1) for t in (0, 1)},
)


def trials_of(verdicts, scenario_id="SCN-C-001"):
    return [
        msgspec.structs.replace(typical(index, verdict), key=TrialKey(scenario_id=scenario_id, index=index))
        for index, verdict in enumerate(verdicts)
    ]


def in_matrix(verdicts):
    """The trials of each combination in turn."""
    return [trial for each, own in zip(MATRIX.combinations, verdicts, strict=True) for trial in trials_of(own, each)]


def in_json(reading):
    found = json.loads(b"".join(to_json(reading)))
    for trial in found["trials"]:
        check_trial(json.dumps(trial))
    validator().validate({**found, "trials": []})
    return found


@cache
def check_trial(written):
    """Many reports share a trial, which takes far longer to validate than the rest."""
    trial = {"$ref": "#/$defs/JsonTrial", "$defs": validator().schema["$defs"]}
    assert validator().schema["properties"]["trials"]["items"] == {"$ref": trial["$ref"]}
    jsonschema.Draft202012Validator(trial).validate(json.loads(written))


@cache
def validator():
    return jsonschema.Draft202012Validator(report_schema())


def in_terminal(reading):
    return list(render_run(reading, Page(width=110), view=View(transcripts="none")))


@pytest.mark.parametrize(("required", "missing"), [(None, 0), (0.5, 0), (0.75, 0), (0.5, 1), (None, 2)])
@pytest.mark.no_cover
def test_all_reports_and_the_exit_code_agree_on_every_outcome(required, missing):
    header = msgspec.structs.replace(HEADER, pass_rate=required)
    for size in (1, 2, 3):
        for verdicts in itertools.combinations_with_replacement(Verdict, size):
            trials = trials_of(verdicts)
            reading = reading_of(trials, header, {"SCN-C-001": size + missing})
            code = reading.exit_code
            root = ET.fromstring(to_junit(reading))
            assert root.get("tests") == "1"
            counts = {name: int(root.get(name)) for name in ("failures", "errors", "skipped")}
            tags = {name: len(root.findall(f".//{name}")) for name in ("failure", "error", "skipped")}
            assert list(counts.values()) == list(tags.values())
            told = (bool(counts["failures"]), bool(counts["errors"] or counts["skipped"]))
            assert not missing or code == 3, "trials were lost, whatever the others say"
            assert missing or told == {0: (False, False), 1: (True, False), 3: (False, True)}[code]
            report = in_json(reading)
            assert report["summary"]["exit_code"] == code
            verdict = report["scenarios"][0]["verdict"]
            assert report["summary"]["scenarios"] == {**dict.fromkeys([*Verdict], 0), verdict: 1, "total": 1}


def test_a_rate_that_is_reached_shows_the_failed_trial_and_no_failure():
    header = msgspec.structs.replace(HEADER, planned=10, pass_rate=0.9)
    trials = trials_of([*[P] * 4, F, *[P] * 5])
    reading = reading_of(trials, header)
    (case,) = ET.fromstring(to_junit(reading)).iter("testcase")
    assert [child.tag for child in case] == ["properties", "system-out"]
    assert case.get("name") == "SCN-C-001  ST-Elevation MI"
    assert case.find("system-out").text.startswith("FAILED  SCN-C-001#4  ST-Elevation MI\n")
    found = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert (found["verdict"], found["trials_passed"], found["trials_total"]) == ("passed", "9", "10")
    assert found["pass_rate"] == "90%"
    lines = in_terminal(reading)
    at = lines.index("10 trials: 9 passed, 1 failed")
    assert lines[at + 1] == "1 scenario: 1 passed"
    told = ["passed", "SCN-C-001", "ST-Elevation", "MI", "9/10", "90%", "60%", "to", "98%", "k=5:", "50%"]
    assert lines[1].split()[: len(told)] == told


def test_a_rate_that_is_missed_is_a_failure_with_every_failed_trial():
    header = msgspec.structs.replace(HEADER, planned=10, pass_rate=0.9)
    trials = trials_of([P, F, *[P] * 7, F])
    reading = reading_of(trials, header)
    (case,) = ET.fromstring(to_junit(reading)).iter("testcase")
    failure = case.find("failure")
    assert failure.get("message").startswith("8 of 10 trials passed, 90% required; 2 failed; #1: ")
    assert failure.text.count("FAILED  SCN-C-001#") == 2
    assert "1 scenario: 1 failed" in in_terminal(reading)
    scenario = in_json(reading)["scenarios"][0]
    assert (scenario["verdict"], scenario["required"], scenario["share"]) == ("failed", 0.9, 0.8)
    assert scenario["reason"] == "8 of 10 trials passed, 90% required; 2 failed"
    assert scenario["pass_hat_k"]["1"] == 0.8


def test_what_was_planned_and_never_begun_is_in_every_report():
    trials = trials_of([P])
    reading = reading_of(trials, planned={"SCN-C-001": 1, "later": 1})
    root = ET.fromstring(to_junit(reading))
    assert [suite.get("name") for suite in root] == ["scenarios/clinical/stemi.yaml", "not run"]
    assert root.find("testsuite[2]/testcase").get("name") == "later"
    assert root.find("testsuite[2]/testcase/skipped").get("message") == "0 of 1 trial passed, all required; 1 not run"
    assert [each["verdict"] for each in in_json(reading)["scenarios"]] == ["passed", "inconclusive"]


def test_many_failures_do_not_make_a_huge_test_case():
    trials = trials_of([F] * 50)
    (case,) = ET.fromstring(to_junit(reading_of(trials))).iter("testcase")
    assert case.find("failure").text.count("FAILED  ") == 20
    assert case.find("failure").text.endswith("30 more trials did not pass; details are in the run record")


def test_a_share_is_never_rounded_up_to_all():
    header = msgspec.structs.replace(HEADER, pass_rate=0.999)
    trials = trials_of([P, P])
    assert any(" 99.9% " in line for line in in_terminal(reading_of(trials, header)))


def test_a_matrix_is_grouped_by_combination_and_by_value():
    header = msgspec.structs.replace(HEADER, planned=8, pass_rate=0.5, matrices=(MATRIX,))
    trials = in_matrix([[P, P], [P, F], [F, F], [E, P]])
    lines = in_terminal(reading_of(trials, header))
    at = lines.index("matrix Which is best?: 4 combinations, all with judge=openai/j")
    assert lines[at + 1 :][:12] == [
        "verdict  model     max_turns  passed  required  95% interval  pass^k     undecided",
        "passed   openai/a  3          2/2     50%       34% to 100%   k=1: 100%",
        "passed   openai/a  6          1/2     50%       9% to 91%     k=1: 50%",
        "failed   openai/b  3          0/2     50%       0% to 66%     k=1: 0%",
        "passed   openai/b  6          1/2     50%       21% to 100%              1",
        "",
        "parameter                      value     combinations passed  trials passed",
        "model                          openai/a  2/2                  3/4",
        "model                          openai/b  1/2                  1/4",
        "run[0].conversation.max_turns  3         1/2                  2/4",
        "run[0].conversation.max_turns  6         2/2                  2/4",
        "",
    ]
    assert "4 combinations: 3 passed, 1 failed" in lines


def test_a_matrix_in_json_and_junit():
    header = msgspec.structs.replace(HEADER, planned=4, matrices=(MATRIX,))
    trials = in_matrix([[P], [P], [F], [P]])
    reading = reading_of(trials, header)
    report = in_json(reading)
    assert report["scenarios"][1]["matrix"] == {
        "name": "Which is best?",
        "file": "best.matrix.yaml",
        "parameters": {"model": "openai/a", "run[0].conversation.max_turns": 6, "judge": "openai/j"},
    }
    (matrix,) = report["matrices"]
    assert matrix["combinations"] == list(MATRIX.combinations)
    assert [axis["parameter"] for axis in matrix["axes"]] == [axis.parameter for axis in MATRIX.axes]
    turns = {each["value"]: each["combinations"] for each in matrix["axes"][1]["values"]}
    assert turns == {
        3: {"passed": 1, "failed": 1, "inconclusive": 0, "error": 0, "total": 2},
        6: {"passed": 2, "failed": 0, "inconclusive": 0, "error": 0, "total": 2},
    }
    assert "matrices" not in report["run"]
    last = list(ET.fromstring(to_junit(reading)).iter("testcase"))[-1]
    found = {each.get("name"): each.get("value") for each in last.iter("property")}
    assert (found["matrix.model"], found["matrix.run[0].conversation.max_turns"]) == ("openai/b", "6")
