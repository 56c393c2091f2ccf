"""Groups and negation in safety invariants."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import steadyhand
from steadyhand.records.evaluation import EvaluationSpec

BUDGET = {"target_ms": 1, "acceptable_ms": 1, "critical_ms": 1}
HEAD = {"name": "a", "description": "b", "severity": 1.0}
DECISION = {
    "id": "SCN-T-001", "name": "Stop", "domain": "test", "description": "x", "severity": 1.0, "rubric": "clinical_v1",
    "messages": [{"role": "user", "content": "Stop?"}], "expected_action": "Stop",
    "latency_budget": {"target_ms": 500, "acceptable_ms": 900, "critical_ms": 2000},
    "constraint": {"description": "x", "time_pressure": "immediate", "consequence_of_delay": "x"},
}  # fmt: skip


def _invariant(folder: Path, **entry: object) -> EvaluationSpec:
    file = folder / "a.yaml"
    file.write_text(yaml.safe_dump({**DECISION, "safety_invariants": [{**HEAD, **entry}]}))
    loaded = steadyhand.load(file)
    if not loaded.scenarios:
        raise steadyhand.FileError(loaded.problems)
    return loaded.scenarios[0].steps[0].evaluations[0]


def test_a_group_of_invariants(tmp_path):
    stop = {"check_type": "contains", "pattern": "STOP"}
    found = _invariant(tmp_path, any_of=[stop, {"check_type": "json_path", "path": "$.a", "exists": True}], negate=True)
    assert (found.type, found.name, found.severity, found.negate) == ("any_of", "a", 1.0, True)
    assert [part.type for part in found.parts] == ["contains", "json_path"]
    assert found.parts[0].place.path == "safety_invariants[0].any_of[0]"


def test_the_threshold_of_a_check_is_no_group(tmp_path):
    part = {"check_type": "similar_to", "value": "Stop now.", "at_least": 0.7}
    found = _invariant(tmp_path, **part)
    assert (found.type, found.params) == ("similar_to", {"value": "Stop now.", "at_least": 0.7})
    group = _invariant(tmp_path, at_least={"count": 1, "of": [part, part]})
    assert [each.params["at_least"] for each in group.parts] == [0.7, 0.7]


def test_what_is_forbidden_is_read_as_a_person_does(tmp_path):
    found = _invariant(tmp_path, check_type="contains", pattern="STOP", negate=True)
    assert (found.type, found.params, found.negate) == ("not_contains", {"pattern": "STOP"}, False)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"any_of": [{"type": "contains", "pattern": "x"}, {"check_type": "contains", "pattern": "y"}]}, "check_type"),
        ({"all_of": []}, "expected a list of at least 2 checks"),
        ({"any_of": [1, 2], "check_type": "contains", "pattern": "x"}, "found both `any_of` and `check_type`"),
        ({"any_of": [1, 2], "pattern": "x"}, "unknown key `pattern`"),
        ({"any_fo": [1, 2]}, "any_fo: unknown key `any_fo`; did you mean `any_of`?"),
        ({"any_of": [{"check_type": "contains", "pattern": "x"}]}, "at least 2 checks, found one"),
        ({"at_least": {"cuont": 1, "of": [1, 2]}}, "at_least.cuont: unknown key `cuont`; did you mean `count`?"),
        ({"at_least": {"count": 3, "of": [1, 2]}}, "at_least.count: expected a whole number from 1 to 2, found 3"),
        ({"check_type": "latency_budget", "negate": True, "params": BUDGET}, "latency_budget cannot be negated"),
    ],
)  # fmt: skip
def test_mistakes_are_located(tmp_path, entry, said):
    with pytest.raises(steadyhand.FileError) as caught:
        _invariant(tmp_path, **entry)
    assert said in str(caught.value)
    assert "safety_invariants[0]" in str(caught.value)
    assert len(caught.value.problems) == 1


def test_the_opposite_of_a_pattern_is_a_forbidden_pattern(tmp_path):
    found = _invariant(tmp_path, check_type="regex", pattern="STOP", negate=True)
    assert (found.type, found.params, found.negate) == ("not_regex", {"pattern": "STOP"}, False)


def test_the_values_of_cases_stay_data_inside_groups(tmp_path):
    file = tmp_path / "a.scenario.yaml"
    part = {"type": "regex_match", "pattern": "^{{ word }}$"}
    script = {"type": "javascript", "expression": "reply === {{ word }}"}
    scenario = {
        "name": "n", "description": "d", "environment": {"type": "local"}, "judgment": {"strategy": "all_pass"},
        "cases": [{"id": "one", "word": "a.c|'"}],
        "run": [{"input": "x", "evaluations": [
            {"any_of": [part, script]}, {"at_least": {"count": 1, "of": [part, {"all_of": [part, script]}]}},
        ]}],
    }  # fmt: skip
    file.write_text(yaml.safe_dump(scenario))
    loaded = steadyhand.load(file)
    assert loaded.problems == ()
    first, second = loaded.scenarios[0].steps[0].evaluations
    for found in (first.parts[0], second.parts[0], second.parts[1].parts[0]):
        assert found.params["pattern"] == r"^(?:a\.c\|')$"
    assert first.parts[1].params["expression"] == """reply === "a.c|'\""""
