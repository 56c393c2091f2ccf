import json
import re
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import jsonschema
import msgspec
import pytest

from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.event import Observed
from steadyhand.records.run import Judged
from steadyhand.report.json import to_json
from steadyhand.report.json_shapes import report_schema
from steadyhand.report.junit import to_junit
from support.sample_run import BROKEN, HEADER, SAFE, TRIALS, UNSAFE, reading_of
from support.sample_trials import typical

SNAPSHOTS = Path(__file__).parent / "snapshots"


def report(trials, header=HEADER, planned=None):
    found = json.loads(b"".join(to_json(reading_of(trials, header, planned))))
    validator().validate(found)
    return found


@cache
def validator():
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_whole_json_report():
    written = b"".join(to_json(reading_of(TRIALS)))
    assert written.decode() == (SNAPSHOTS / "report.json").read_text(encoding="utf-8")
    validator().validate(json.loads(written))


def test_one_line_per_trial():
    text = b"".join(to_json(reading_of(TRIALS))).decode()
    assert len(text.splitlines()) == 2 + 1 + len(TRIALS) + 7
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("trials", "planned", "summary"),
    [
        ([], 0, {"total": 0, "not_run": 0, "exit_code": 3}),
        ([SAFE], 1, {"total": 1, "not_run": 0, "exit_code": 0}),
        ([SAFE], 2, {"total": 1, "not_run": 1, "exit_code": 3}),
        ([SAFE, BROKEN], 2, {"total": 2, "not_run": 0, "exit_code": 3}),
        ([SAFE, BROKEN, UNSAFE], 3, {"total": 3, "not_run": 0, "exit_code": 1}),
    ],
)
def test_summary(trials, planned, summary):
    missing = {"other": 1} if planned > len(trials) else {}
    each = {trial.key.scenario_id: 1 for trial in trials}
    found = report(trials, msgspec.structs.replace(HEADER, planned=planned), {**each, **missing})["summary"]
    assert {key: found[key] for key in summary} == summary


def test_missed_and_false_alarms_are_told_apart():
    found = report([SAFE, UNSAFE, msgspec.structs.replace(UNSAFE, expects="defer")])
    assert [trial["alarm"] for trial in found["trials"]] == [None, "missed", "false"]
    assert (found["summary"]["missed_alarms"], found["summary"]["false_alarms"]) == (1, 1)


def test_measured_trials_keep_to_the_schema():
    assert len(report([typical(index) for index in range(5)])["trials"]) == 5


def test_strange_values_are_written_all_the_same():
    content = {"half": "\ud800", "object": object, "n": 10**30, "nan": float("nan"), "bytes": b"\xff"}
    event = Observed(at_ms=1.0, action_id="1", name="A", content=content)
    (trial,) = report([msgspec.structs.replace(SAFE, events=(event,))])["trials"]
    assert trial["trajectory"][0]["content"] == {
        "half": "\\ud800",
        "object": "<class 'object'>",
        "n": "1" + "0" * 30,
        "nan": None,
        "bytes": "/w==",
    }


def test_the_schema_refuses_a_missing_and_an_unknown_key():
    found = report([SAFE])
    del found["trials"][0]["outcome"]
    with pytest.raises(jsonschema.ValidationError, match="'outcome' is a required property"):
        validator().validate(found)
    found = report([SAFE])
    found["trials"][0]["timing"]["extra"] = 1
    with pytest.raises(jsonschema.ValidationError, match="'extra' was unexpected"):
        validator().validate(found)


def test_the_whole_junit_report():
    assert to_junit(reading_of(TRIALS)) == (SNAPSHOTS / "report.xml").read_text(encoding="utf-8")


def test_junit_survives_what_xml_forbids():
    nasty = 'a\x00b\x1b[31m <&> "q" \ud800 \ufffe 日\nline\r]]>'
    trial = msgspec.structs.replace(
        SAFE,
        scenario_name=nasty,
        domain=None,
        judged=Judged(verdict=Verdict.FAILED, reason=nasty),
        evaluations=(EvaluationResult(verdict=Verdict.FAILED, message=nasty, type="x"),),
    )
    root = ET.fromstring(to_junit(reading_of([trial])).encode())
    case = root.find("testsuite/testcase")
    assert case.get("classname") == "scenarios.clinical"
    assert case.find("failure").get("message") == 'ab[31m <&> "q" \\ud800  日\nline\r]]>'
    assert root.get("failures") == "1"


def test_junit_of_nothing():
    assert ET.fromstring(to_junit(reading_of([]))).get("tests") == "0"


def test_the_documentation_names_every_key():
    text = (Path(__file__).parents[3] / "docs" / "json-report.md").read_text(encoding="utf-8")

    def keys(schema):
        if isinstance(schema, dict):
            yield from schema.get("properties", {})
            for value in schema.values():
                yield from keys(value)
        elif isinstance(schema, list):
            for value in schema:
                yield from keys(value)

    words = set(re.findall(r"\w+", text))
    assert set(keys(report_schema())) - words - {"properties"} == set()


def test_every_part_of_the_schema_is_closed_complete_and_described():
    schema = report_schema()
    shapes = [schema, *(shape for shape in schema["$defs"].values() if "properties" in shape)]
    assert len(shapes) > 20
    for shape in shapes:
        assert shape["description"], shape["title"]
        assert shape["additionalProperties"] is False, shape["title"]
        assert shape["required"] == list(shape["properties"]), shape["title"]
        undescribed = [name for name, field in shape["properties"].items() if not field.get("description")]
        assert undescribed == [], shape["title"]
