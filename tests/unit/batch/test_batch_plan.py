from pathlib import Path

import pytest

from steadyhand.batch.plan import Plan
from steadyhand.errors import SetupError
from steadyhand.records.run import TrialKey
from steadyhand.spec.load import load

DECISION = """\
id: SCN-C-001
name: Chest pain
domain: clinical
description: d
messages: [{role: user, content: "What now?"}]
latency_budget: {target_ms: 1, acceptable_ms: 2, critical_ms: 3}
safety_invariants: [{name: a, description: a, check_type: contains, pattern: aspirin, severity: 1.0}]
constraint: {description: d, time_pressure: urgent, consequence_of_delay: d}
rubric: r
expected_action: a
severity: 1.0
"""
AGENT = """\
name: Agent
description: d
environment: {type: local}
run: [{input: hello}]
judgment: {strategy: all_pass}
"""


@pytest.mark.parametrize("text", [DECISION, AGENT])
def test_a_scenario_says_how_often_and_how_many_must_pass(tmp_path: Path, text):
    file = tmp_path / "one.yaml"
    file.write_text(text + "trials: 5\npass_rate: 0.8\n")
    loaded = load([file], catalogue={})
    assert [(each.trials, each.pass_rate) for each in loaded.scenarios] == [(5, 0.8)], loaded.problems
    planned = Plan(loaded.scenarios, seed=1)
    assert [each.key.index for each in planned] == [0, 1, 2, 3, 4]
    assert len({each.seed for each in planned}) == 5
    assert len(Plan(loaded.scenarios, seed=1, trials=2)) == 2


@pytest.mark.parametrize("line", ["trials: 0", "trials: 1.5", "pass_rate: 0", "pass_rate: 1.1", "pass_rate: most"])
def test_a_number_out_of_bounds_is_an_error(tmp_path: Path, line):
    file = tmp_path / "one.yaml"
    file.write_text(DECISION + line + "\n")
    (problem,) = load([file], catalogue={}).errors
    assert problem.place.path == line.partition(":")[0]


def test_a_trials_seed_depends_on_the_run_and_its_key_alone(tmp_path: Path):
    file = tmp_path / "one.yaml"
    file.write_text(DECISION)
    scenarios = load([file], catalogue={}).scenarios
    few, many = Plan(scenarios, seed=7, trials=2), Plan(scenarios, seed=7, trials=9)
    assert [each.seed for each in few] == [each.seed for each in many[:2]]
    assert [each.seed for each in few] != [each.seed for each in Plan(scenarios, seed=8, trials=2)]


def test_more_trials_than_a_run_can_hold(tmp_path: Path):
    for number in range(11):
        (tmp_path / f"{number}.yaml").write_text(AGENT)
    loaded = load([tmp_path], catalogue={})
    with pytest.raises(SetupError, match="1100000 trials of 11 scenarios are more than the 1000000 of a run"):
        Plan(loaded.scenarios, seed=1, trials=100_000)


def test_a_plan_is_a_sequence_that_makes_its_trials_when_asked(tmp_path: Path):
    for number, trials in enumerate((2, 1, 3)):
        (tmp_path / f"{number}.yaml").write_text(AGENT + f"trials: {trials}\n")
    planned = Plan(load([tmp_path], catalogue={}).scenarios, seed=1)
    listed = list(planned)
    assert [each.key.index for each in listed] == [0, 1, 0, 0, 1, 2]
    assert len({each.key for each in listed}) == len(planned) == 6
    assert [planned[at] for at in range(6)] == listed
    assert planned[-1] == listed[-1]
    assert planned[1:5] == listed[1:5]
    with pytest.raises(IndexError):
        _ = planned[6]
    assert list(Plan([], seed=1)) == []


def test_a_scenario_that_is_decided_is_left_at_once(tmp_path: Path):
    for name, trials in (("a", 100_000), ("b", 3)):
        (tmp_path / f"{name}.yaml").write_text(f"id: {name}\n{AGENT}trials: {trials}\n")
    scenarios = load([tmp_path], catalogue={}).scenarios
    plan = Plan(scenarios, seed=1)
    decided: set[str] = set()
    asked: list[TrialKey] = []

    def wants(key: TrialKey) -> bool:
        asked.append(key)
        return key.scenario_id not in decided

    found = []
    for each in plan.wanted(wants):
        found.append(str(each.key))
        decided |= {"a"} if len(found) == 2 else set()
    assert found == ["a#0", "a#1", "b#0", "b#1", "b#2"]
    assert len(asked) == 6
    assert list(plan.wanted(lambda key: True))[:2] == plan[:2]
