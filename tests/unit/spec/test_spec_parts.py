"""Scenarios that extend another file: what the result is, and where each mistake is."""

import pytest

from steadyhand.records.scenario import evaluation_specs
from steadyhand.spec.load import load, resolved_files

BASE = """\
domain: clinical
description: d
latency_budget: {target_ms: 500, acceptable_ms: 1000, critical_ms: 2000}
safety_invariants:
  - {name: a, description: d, check_type: contains, pattern: call, severity: 1.0}
constraint: {description: d, time_pressure: immediate, consequence_of_delay: d}
rubric: r
severity: 1.0
"""
OWN = """\
extends: base.yaml
id: SCN-C-001
name: n
messages: [{role: user, content: hi}]
expected_action: Call
"""
MORE = "  - {name: b, description: d, check_type: contains, pattern: now, severity: 1.0}\n"


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(own, base=BASE, path="."):
        (tmp_path / "base.yaml").write_text(base)
        (tmp_path / "own.yaml").write_text(own)
        return load([path], catalogue={})

    return read


def patterns(scenario):
    return [spec.params["pattern"] for spec in evaluation_specs(scenario) if "pattern" in spec.params]


def test_keys_replace_within_mappings_and_lists_are_added_to(read):
    loaded = read(f"{OWN}latency_budget: {{target_ms: 50}}\n+safety_invariants:\n{MORE}")
    assert not loaded.problems
    (found,) = loaded.scenarios
    assert patterns(found) == ["call", "now"]
    assert [spec.params for spec in evaluation_specs(found)][-1]["target_ms"] == 50
    assert [str(spec.place) for spec in evaluation_specs(found)][:2] == ["base.yaml:5:5", "own.yaml:8:5"]
    assert (found.place.file, found.sources) == ("own.yaml", ("base.yaml",))


def test_the_digest_changes_with_either_file(read):
    digests = {read(OWN, base).scenarios[0].digest for base in (BASE, BASE.replace("call", "ring"))}
    assert len(digests) == 2


def test_checks_that_are_replaced_are_a_warning(read):
    loaded = read(f"{OWN}safety_invariants:\n{MORE}")
    assert [(str(each.place), each.code) for each in loaded.warnings] == [("own.yaml:6:1", "replaces-checks")]
    assert patterns(loaded.scenarios[0]) == ["now"]


@pytest.mark.parametrize(
    ("own", "base", "expected"),
    [
        (
            OWN,
            BASE.replace("pattern: call", "pattern: 7"),
            "base.yaml:5:62: safety_invariants[0].pattern: expected text",
        ),
        (
            f"{OWN}+safety_invariants:\n{MORE.replace('now', '7')}",
            BASE,
            "own.yaml:7:62: safety_invariants[1].pattern: ",
        ),
        (f"{OWN}latency_budget: {{target_ms: 5000}}\n", BASE, "base.yaml:3:49: latency_budget.acceptable_ms: expected"),
        (f"{OWN}+safety_invariant:\n{MORE}", BASE, "own.yaml:6:1: ['+safety_invariant']: adds to a list of base.yaml"),
        (OWN, f"extends: x.yaml\n{BASE}", "own.yaml:1:10: extends: `base.yaml` extends another file itself"),
        (OWN.replace("base.yaml", "none.yaml"), BASE, "none.yaml: cannot be read: No such file or directory"),
        (OWN, "- a\n", "own.yaml:1:10: extends: expected a scenario in `base.yaml`, found a list"),
        (OWN.replace("base.yaml", ""), BASE, "own.yaml:1:9: extends: expected the name of a file, found null"),
        (OWN.replace("extends: base.yaml", "extends: 5"), BASE, "own.yaml:1:10: extends: expected the name of a file"),
    ],
)
def test_a_mistake_is_told_where_it_is_written(read, own, base, expected):
    loaded = read(own, base, "own.yaml")
    assert not loaded.scenarios
    assert str(loaded.errors[0]).startswith(expected), loaded.errors
    assert read(own, base).errors, "nor is it lost in a folder"


def test_cases_may_be_in_either_file(read):
    loaded = read(OWN.replace("hi", "'{{ word }}'"), f"{BASE}cases: [{{id: a, word: x}}, {{id: b, word: y}}]\n")
    assert [each.id for each in loaded.scenarios] == ["SCN-C-001[a]", "SCN-C-001[b]"]
    assert loaded.scenarios[1].sources == ("base.yaml",)


def test_a_matrix_varies_what_the_other_file_sets(read, tmp_path):
    from steadyhand.spec.agent import Vocabulary
    from steadyhand.spec.matrix import expand

    read(OWN)
    (tmp_path / "m.yaml").write_text("base_scenario: own.yaml\nmatrix: [{parameter: severity, values: [0.5]}]\n")
    (matrix,) = load(["m.yaml"], catalogue={}).matrices
    expanded = expand(matrix, Vocabulary({}, ()))
    assert not expanded.problems
    assert [(each.severity, each.sources) for each in expanded.scenarios] == [(0.5, ("base.yaml",))]


def test_every_line_of_the_result_has_its_place(read):
    read(f"{OWN}+safety_invariants:\n{MORE}")
    lines = {line: f"{place.file}:{place.line}" for line, place in resolved_files(["own.yaml"])}
    assert lines['rubric: "r"'] == "base.yaml:7"
    assert lines['    pattern: "call"'] == "base.yaml:5"
    assert lines['    pattern: "now"'] == "own.yaml:7"


def test_other_tools_files_are_left_alone(read, tmp_path):
    (tmp_path / "docker-compose.yaml").write_text("extends: none.yaml\nservices: {}\n")
    assert not read(OWN).problems
