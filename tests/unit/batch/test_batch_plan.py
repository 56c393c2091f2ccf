from pathlib import Path

import pytest

from steadyhand.batch.plan import Plan
from steadyhand.errors import SetupError
from steadyhand.records.run import Shard, TrialKey
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
    with pytest.raises(SetupError, match="1100000 trials of 11 scenarios exceed the limit of 1000000 trials per run"):
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


def test_shards_are_disjoint_and_together_the_whole():
    trials = {"b": 7, "a": 1, "c10": 4, "c2": 12}
    whole = {(name, index) for name, count in trials.items() for index in range(count)}
    for of in (1, 2, 3, 5, 24):
        for together in (False, True):
            for order in (trials, dict(sorted(trials.items()))):
                shards = [Shard(number=number, of=of, trials=order, together=together) for number in range(1, of + 1)]
                parts = [{(name, at) for name, own in each.numbers.items() for at in own} for each in shards]
                assert sum(map(len, parts)) == len(whole)
                assert set().union(*parts) == whole
                sizes = [len(part) for part in parts]
                assert together or max(sizes) - min(sizes) <= 1


def test_a_part_of_a_plan_has_the_trials_of_the_whole(tmp_path):
    (tmp_path / "one.yaml").write_text(DECISION)
    scenarios = load([tmp_path], catalogue={}).scenarios
    whole, part = Plan(scenarios, seed=7, trials=9), Plan(scenarios, seed=7, numbers={scenarios[0].id: range(1, 9, 3)})
    assert [each.key.index for each in part] == [1, 4, 7]
    assert list(part) == list(whole)[1::3]
    assert (len(part), part[1], part[-1]) == (3, whole[4], whole[7])
    assert part.per_scenario() == {scenarios[0].id: 3}
    assert part.has(whole[4].key)
    assert not part.has(whole[5].key)
    assert [each.key.index for each in part.wanted(lambda key: key.index < 7)] == [1, 4]
