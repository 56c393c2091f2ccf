"""Scenarios that are put together from other files: what the result is, and where each mistake is."""

import pytest

from steadyhand.ports.evaluator import EvaluationParams
from steadyhand.records.scenario import evaluation_specs
from steadyhand.spec.agent import Vocabulary
from steadyhand.spec.config import read_config, read_defaults
from steadyhand.spec.load import load, resolved_files
from steadyhand.spec.matrix import expand

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
            "own.yaml:7:62: +safety_invariants[0].pattern: ",
        ),
        (f"{OWN}latency_budget: {{target_ms: 5000}}\n", BASE, "base.yaml:3:49: latency_budget.acceptable_ms: expected"),
        (f"{OWN}+safety_invariant:\n{MORE}", BASE, "own.yaml:6:1: +safety_invariant: adds to a list of base.yaml"),
        (OWN, f"extends: x.yaml\n{BASE}", "own.yaml:1:10: extends: `base.yaml` extends another file itself"),
        (
            OWN.replace("base.yaml", "none.yaml"),
            BASE,
            "own.yaml:1:10: extends: expected a file, found none at `none.yaml`",
        ),
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


@pytest.mark.parametrize("extended", ["none.yaml", "[base.yaml]", "5", "own.yaml", "."])
def test_a_file_that_cannot_be_extended_is_the_one_mistake(read, extended):
    """What kind of file it is cannot be told then, and is no second mistake."""
    loaded = read(f"extends: {extended}\nid: SCN-C-001\n", BASE, "own.yaml")
    assert len(loaded.errors) == 1, loaded.errors


def test_an_id_that_two_scenarios_inherit_is_told_with_both(read, tmp_path):
    (tmp_path / "other.yaml").write_text(OWN.replace("id: SCN-C-001\n", ""))
    loaded = read(OWN.replace("id: SCN-C-001\n", ""), f"id: SCN-C-007\n{BASE}")
    (error,) = loaded.errors
    assert "id `SCN-C-007` is already used by other.yaml, as own.yaml has it too" in str(error)


def test_cases_may_be_in_either_file(read):
    loaded = read(OWN.replace("hi", "'{{ word }}'"), f"{BASE}cases: [{{id: a, word: x}}, {{id: b, word: y}}]\n")
    assert [each.id for each in loaded.scenarios] == ["SCN-C-001[a]", "SCN-C-001[b]"]
    assert loaded.scenarios[1].sources == ("base.yaml",)


def test_a_matrix_varies_what_the_other_file_sets(read, tmp_path):
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


PARTS = """\
invariants:
  calls: {name: a, description: d, check_type: contains, pattern: call, severity: 1.0}
evaluations:
  polite: {type: said, value: please}
mocks:
  found: {service: orders, method: get, response: {status: open}}
personas:
  angry: {persona: p, objective: o, style: rude}
rubrics:
  own: {name: own, dimensions: [{name: a, weight: 1.0, description: d}]}
"""
USING = BASE.replace(
    "  - {name: a, description: d, check_type: contains, pattern: call, severity: 1.0}\n",
    "  - use: parts.yaml#calls\n  - {use: parts.yaml#calls, name: b, pattern: now}\n",
) + OWN.replace("extends: base.yaml\n", "")
TALK = """\
name: n
description: d
environment: {type: local}
setup:
  mocks: [{use: parts.yaml#found, response: {items: 2}}]
run:
  - conversation:
      max_turns: 3
      user_simulator: {use: parts.yaml#angry, style: calm}
      final_evaluations: [{all_of: [{use: parts.yaml#polite}, {type: said, value: x}]}]
judgment: {strategy: all_pass}
"""


class Said(EvaluationParams):
    value: str


class Words(EvaluationParams):
    pattern: str


@pytest.fixture
def using(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def using(own, parts=PARTS, path="own.yaml", defaults=None):
        (tmp_path / "parts.yaml").write_text(parts)
        (tmp_path / "own.yaml").write_text(own)
        config = None
        if defaults is not None:
            (tmp_path / "steadyhand.toml").write_text(defaults)
            config = read_defaults(read_config(tmp_path / "steadyhand.toml"))
        return load([path], catalogue={"said": Said, "contains": Words}, defaults=config)

    return using


def told(loaded):
    return [str(each) for each in loaded.problems]


def test_a_shared_check_stands_where_it_is_used_with_what_is_said_beside_it(using):
    loaded = using(USING)
    assert told(loaded) == []
    (found,) = loaded.scenarios
    assert [(each.name, each.params.get("pattern")) for each in evaluation_specs(found)][:2] == [
        ("a", "call"),
        ("b", "now"),
    ]
    assert str(next(evaluation_specs(found)).place) == "parts.yaml:2:3"
    assert found.sources == ("parts.yaml",)


def test_mocks_personas_and_checks_in_groups_are_shared_too(using):
    (found,) = using(TALK).scenarios
    (mock,) = found.setup.mocks
    config = found.steps[0].task.config
    assert (mock.method, mock.response) == ("get", {"status": "open", "items": 2})
    assert (config.user_simulator.persona, config.user_simulator.style) == ("p", "calm")
    assert [each.params for each in config.final_evaluations[0].parts] == [{"value": "please"}, {"value": "x"}]


def test_a_check_that_decides_by_itself_elsewhere_has_no_severity_in_a_group(using):
    group = "  - {name: g, description: d, severity: 0.5, any_of: [{use: parts.yaml#calls}, {use: parts.yaml#calls}]}\n"
    (found,) = using(USING.replace("  - use: parts.yaml#calls\n", group)).scenarios
    group = next(evaluation_specs(found))
    assert (group.type, group.severity, len(group.parts)) == ("any_of", 0.5, 2)


def test_only_the_parts_that_are_used_change_the_digest(using):
    digests = [using(USING, parts).scenarios[0].digest for parts in (PARTS, PARTS.replace("rude", "kind"))]
    assert digests[0] == digests[1] != using(USING, PARTS.replace("call,", "ring,")).scenarios[0].digest


@pytest.mark.parametrize(
    ("own", "parts", "expected"),
    [
        (
            USING.replace("#calls\n", "#call\n"),
            PARTS,
            "own.yaml:5:10: safety_invariants[0].use: `parts.yaml` has no `call` among its invariants; did you mean",
        ),
        (
            USING.replace("#calls\n", "#polite\n"),
            PARTS,
            "own.yaml:5:10: safety_invariants[0].use: `parts.yaml` has no `polite` among its invariants; `polite` is",
        ),
        (USING.replace("#calls\n", "\n"), PARTS, "own.yaml:5:10: safety_invariants[0].use: expected FILE#NAME, found"),
        (
            USING.replace("parts.yaml#calls\n", "none.yaml#calls\n"),
            PARTS,
            "own.yaml:5:10: safety_invariants[0].use: expected a file with invariants, found none at `none.yaml`",
        ),
        (USING, PARTS.replace("call,", "7,"), "parts.yaml:2:67: invariants.calls.pattern: expected text, found 7"),
        (USING, PARTS.replace("description: d, ", "", 1), "parts.yaml:2:3: invariants.calls.description: required key"),
        (USING, PARTS.replace("invariants", "invariant"), "parts.yaml:1:1: invariant: unknown key `invariant`; did"),
        (USING, "invariants: [a]\n", "parts.yaml:1:1: invariants: expected invariants by name, found a list"),
        (USING, "invariants: {calls: 5}\n", "parts.yaml:1:21: invariants.calls: expected a mapping, found 5"),
        (
            USING,
            "invariants: {calls: {use: parts.yaml#a}}\n",
            "parts.yaml:1:14: invariants.calls: a part cannot use another part",
        ),
        (
            USING.replace(", pattern: now", ", patern: now"),
            PARTS,
            "own.yaml:6:38: safety_invariants[1].patern: unknown",
        ),
        (
            USING.replace("rubric: r", "rubric: {use: parts.yaml#own, weight: 1}"),
            PARTS,
            "own.yaml:8:31: rubric.weight: unknown key `weight` beside `use`",
        ),
    ],
)
def test_a_mistake_with_a_part_is_told_once_where_it_is_written(using, own, parts, expected):
    loaded = using(own, parts)
    assert not loaded.scenarios
    assert len({each.place for each in loaded.errors}) == 1, told(loaded)
    assert told(loaded)[0].startswith(expected), told(loaded)


def test_in_a_folder_a_file_with_parts_is_no_scenario_and_what_is_unused_is_a_warning(using):
    loaded = using(USING, path=".")
    assert len(loaded.scenarios) == 1
    assert not loaded.notes
    assert [(str(each.place), each.code) for each in loaded.warnings] == [
        (f"parts.yaml:{line}:3", "unused-part") for line in (4, 6, 8, 10)
    ]
    assert using(USING.replace("    description", "description"), path="own.yaml").warnings == ()


def test_a_file_of_another_tool_with_such_keys_is_passed_over(using):
    loaded = using(BASE + OWN.replace("extends: base.yaml\n", ""), path=".")
    assert loaded.notes == ("skipped 1 YAML file (not a scenario, matrix or rubric): parts.yaml",)


def test_data_may_have_a_key_called_use(using):
    (found,) = using(TALK.replace("{items: 2}", "{use: none.yaml#x}")).scenarios
    assert found.setup.mocks[0].response == {"status": "open", "use": "none.yaml#x"}


def test_a_matrix_varies_the_parts_that_are_used(using, tmp_path):
    using(TALK, PARTS.replace("personas:\n", "personas:\n  kind: {persona: k, objective: o}\n"))
    (tmp_path / "m.yaml").write_text(
        "base_scenario: own.yaml\nmatrix:\n  - parameter: run[0].conversation.user_simulator\n"
        "    values: [{use: parts.yaml#angry}, {use: parts.yaml#kind}, {persona: own, objective: o}]\n"
    )
    (matrix,) = load(["m.yaml"], catalogue={}).matrices
    expanded = expand(matrix, Vocabulary({"said": Said}, None))
    assert not expanded.problems
    found = [each.steps[0].task.config.user_simulator.persona for each in expanded.scenarios]
    assert found == ["p", "k", "own"]


DEFAULTS = """\
[defaults]
trials = 7
severity = 0.25
tags = ["nightly"]
latency_budget = {target_ms = 1, acceptable_ms = 2, critical_ms = 3}
environment = {type = "local"}
"""


def test_defaults_hold_where_a_scenario_says_nothing(using):
    own = f"{USING}+tags: [own]\n".replace(
        "latency_budget: {target_ms: 500, acceptable_ms: 1000, critical_ms: 2000}\n", ""
    )
    (found,) = using(own, defaults=DEFAULTS).scenarios
    assert (found.trials, found.severity, found.tags) == (7, 1.0, ("nightly", "own"))
    assert list(evaluation_specs(found))[-1].place.file == "steadyhand.toml"
    (talk,) = using(TALK, defaults=DEFAULTS).scenarios
    assert (talk.trials, talk.environment) == (7, "local")
    assert talk.sources == ("parts.yaml",), "the configuration is the user's own"


def test_only_defaults_that_are_used_change_the_digest(using):
    texts = (DEFAULTS, DEFAULTS.replace("= 7", "= 8"), DEFAULTS.replace("0.25", "0.5"))
    digests = [using(TALK, defaults=each).scenarios[0].digest for each in texts]
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("trails = 7", "steadyhand.toml:2:1: defaults.trails: unknown default `trails`; did you mean `trials`? "),
        ("safety_invariants = []", "steadyhand.toml:2:1: defaults.safety_invariants: `safety_invariants` cannot be a"),
        ("metadata = {day = 2026-01-01}", "steadyhand.toml:2:1: defaults.metadata: expected what YAML has too: text"),
        ("trials = 0", "steadyhand.toml:2:1: defaults.trials: expected a number of at least 1, found 0"),
    ],
)
def test_a_mistake_in_the_defaults_is_told_in_the_configuration(using, line, expected):
    loaded = using(USING, defaults=f"[defaults]\n{line}\n")
    assert told(loaded)[0].startswith(expected), told(loaded)
    assert len(loaded.errors) == 1


def test_every_line_says_where_a_part_or_a_default_is_from(using, tmp_path):
    using(USING, defaults=DEFAULTS)
    defaults = read_defaults(read_config(tmp_path / "steadyhand.toml"))
    lines = [f"{line.strip()}  {place.file}:{place.line}" for line, place in resolved_files(["own.yaml"], defaults)]
    assert "trials: 7  steadyhand.toml:2" in lines
    assert 'pattern: "call"  parts.yaml:2' in lines
    assert 'pattern: "now"  own.yaml:6' in lines
    assert 'rubric: "r"  own.yaml:8' in lines
