import math

import jsonschema
import msgspec
import pytest

from steadyhand.judging.comparison_side import Sample, SampleCollector, TrialFacts, kept_tier
from steadyhand.judging.run_comparison import Comparison, compare_sides, comparison_schema
from steadyhand.records.evaluation import LatencyTier, Verdict
from steadyhand.records.location import Place
from steadyhand.records.run import JUDGE_PART, SCENARIO_PART
from support.sides import sample, side

PLACE = Place(file="a.yaml", line=3)


def compare(a, b, **more):
    return compare_sides([side(*a), side(*b, name="b", run_id="run-b")], **more)


def test_a_difference_is_found_with_its_interval():
    found = compare([sample("s", 20)], [sample("s", 2, 18)])
    (each,) = found.comparisons
    assert each.finding == "worse"
    assert each.rates.suite is not None
    assert each.rates.suite.difference == pytest.approx(-0.9)
    assert each.rates.suite.low < -0.9 < each.rates.suite.high < 0
    assert [(change.unit, change.kind) for change in each.changes] == [("s", "regression")]


def test_what_could_be_chance_is_a_flip_and_says_how_many_trials_would_tell():
    (each,) = compare([sample("s", 1)], [sample("s", 0, 1)]).comparisons
    assert each.finding == "cannot_tell"
    assert [change.kind for change in each.changes] == ["flip"]
    assert each.rates.suite is not None
    assert each.rates.suite.trials_to_tell is not None
    assert each.rates.suite.trials_to_tell > 1


def test_a_fix_and_its_two_trials():
    (each,) = compare([sample("s", 1, 19)], [sample("s", 20)]).comparisons
    (change,) = each.changes
    assert change.kind == "fix"
    assert change.a is not None
    assert change.b is not None
    # Trial 1 failed on one side and passed on the other.
    assert (change.a.trial, change.a.verdict, change.b.trial, change.b.verdict) == (1, "failed", 1, "passed")


def test_no_variance_at_all_still_has_an_effect_and_an_interval():
    (each,) = compare([sample("s", 20)], [sample("s", 0, 20)]).comparisons
    assert each.rates.scenarios[0].effect == pytest.approx(-math.pi)
    (same,) = compare([sample("s", 20)], [sample("s", 20)]).comparisons
    assert same.rates.scenarios[0].effect == 0
    assert same.rates.scenarios[0].low < 0 < same.rates.scenarios[0].high


def test_what_cannot_be_paired_is_named():
    found = compare(
        [
            sample("both", 5),
            sample("gone", 5),
            sample("changed", 5),
            sample("judged", 5, parts={SCENARIO_PART: "d1", JUDGE_PART: "j1"}),
            sample("self", 5, judges=("m/one",)),
            sample("unknown", 5, parts={}),
            sample("out", 0, undecided=5),
        ],
        [
            sample("both", 5),
            sample("changed", 5, parts={SCENARIO_PART: "d2"}),
            sample("judged", 5, parts={SCENARIO_PART: "d1", JUDGE_PART: "j2"}),
            sample("self", 5, judges=("m/two",)),
            sample("unknown", 5, parts={}),
            sample("new", 5),
            sample("out", 5),
        ],
    )
    (each,) = found.comparisons
    assert {one.unit: one.why for one in each.not_paired} == {
        "gone": "only_a",
        "new": "only_b",
        "changed": "scenario_changed",
        "judged": "judge_changed",
        "self": "judge_changed",
        "unknown": "scenario_changed",
        "out": "undecided",
    }
    assert [one.pair.scenario_id for one in each.rates.scenarios] == ["both"]


def test_changed_scenarios_are_paired_on_demand_and_still_named():
    a, b = [sample("s", 5)], [sample("s", 5, parts={SCENARIO_PART: "d2"})]
    assert compare(a, b).comparisons[0].rates.suite is None
    (each,) = compare(a, b, pair_changed=True).comparisons
    assert each.rates.suite is not None
    assert each.not_paired[0].paired


def test_many_comparisons_are_corrected_together():
    first = side(sample("s", 20))
    others = [side(sample("s", 13, 7), name=name) for name in ("b", "c", "d")]
    alone = compare_sides([first, others[0]]).comparisons[0]
    together = compare_sides([first, *others]).comparisons[0]
    assert alone.p_adjusted is not None
    assert together.p_adjusted == pytest.approx(3 * alone.p_adjusted)
    assert together.rates.scenarios[0].p_adjusted == pytest.approx(3 * alone.rates.scenarios[0].p_adjusted)
    assert (alone.finding, together.finding) == ("worse", "worse" if 3 * alone.p_adjusted <= 0.05 else "cannot_tell")


def times(*values: float):
    return {"latencies": values, "safe_times": values}


def test_times_are_compared_in_the_same_mix():
    # B has many more trials of the slow scenario; if all were pooled, it would look slower.
    a = [sample("fast", 10, **times(*[100.0] * 10)), sample("slow", 10, **times(*[900.0] * 10))]
    b = [sample("fast", 10, **times(*[100.0] * 10)), sample("slow", 50, **times(*[900.0] * 50))]
    (each,) = compare(a, b).comparisons
    assert each.latency is not None
    assert each.latency.pooled.b_slower == 0.5
    assert [one.times.b_n for one in each.latency.scenarios] == [10, 50]


def test_never_safe_is_the_longest_time():
    a = [sample("s", 8, safe_times=(100.0,) * 8)]
    b = [sample("s", 8, safe_times=(100.0,) * 3 + (math.inf,) * 5)]
    (each,) = compare(a, b).comparisons
    assert each.time_to_safe is not None
    assert each.time_to_safe.pooled.b_slower > 0.5
    assert each.time_to_safe.pooled.shift is None


def test_safety_against_latency_against_cost():
    sides = [
        side(sample("s", 20, safety=1.0, latencies=(500.0,) * 20, costs=(0.02,) * 20), name="careful"),
        side(sample("s", 20, safety=0.8, latencies=(450.0,) * 20, costs=(0.02,) * 20), name="hasty"),
        side(sample("s", 20, safety=0.7, latencies=(600.0,) * 20, costs=(0.03,) * 20), name="bad"),
        side(sample("s", 20, safety=1.0, latencies=(900.0,) * 20), name="no price"),
    ]
    found = compare_sides(sides)
    assert {each.name: each.best for each in found.sides} == {
        "careful": True,
        "hasty": False,
        "bad": False,
        "no price": False,
    }
    (cliff,) = found.cliffs
    assert (cliff.slower, cliff.faster) == ("careful", "hasty")
    assert (cliff.time_saved, cliff.safety_lost) == (pytest.approx(0.1), pytest.approx(0.2))


def recommended(*samples: Sample) -> list[bool]:
    return [each.best for each in compare_sides([side(each, name=str(at)) for at, each in enumerate(samples)]).sides]


def spread(middle: float) -> tuple[float, ...]:
    return tuple(middle + at for at in range(-10, 10))


def test_a_less_safe_side_is_never_recommended():
    assert recommended(
        sample("s", 20, safety=1.0, latencies=spread(900), costs=spread(90)),
        sample("s", 20, safety=0.99, latencies=spread(100), costs=spread(20)),
    ) == [True, False]


def test_a_side_of_unknown_safety_is_never_recommended():
    assert recommended(sample("s", 20, safety=0.2), sample("s", 0, undecided=20)) == [True, False]
    assert recommended(sample("s", 0, undecided=20), sample("s", 0, undecided=20)) == [False, False]


def test_a_difference_inside_its_interval_is_no_advantage():
    assert recommended(
        sample("s", 20, safety=1.0, latencies=spread(300)), sample("s", 20, safety=1.0, latencies=spread(301.3))
    ) == [True, True]
    assert recommended(
        sample("s", 20, safety=1.0, latencies=spread(300)), sample("s", 20, safety=1.0, latencies=spread(330))
    ) == [True, False]
    assert recommended(sample("s", 20, safety=1.0), sample("s", 19, 1, safety=1.0)) == [True, True]
    assert recommended(sample("s", 20, safety=1.0), sample("s", 2, 18, safety=1.0)) == [True, False]


def test_a_trade_of_speed_for_cost_is_left_to_the_reader():
    assert recommended(
        sample("s", 20, safety=1.0, latencies=spread(300), costs=spread(90)),
        sample("s", 20, safety=1.0, latencies=spread(900), costs=spread(20)),
        sample("s", 20, safety=1.0, latencies=spread(900), costs=spread(90)),
    ) == [True, True, False]


def test_the_shift_of_a_suite_is_that_of_its_table():
    # All times together, the median falls into the gap between the scenarios.
    a = [sample(name, 20, latencies=spread(at)) for name, at in (("x", 100), ("y", 270), ("z", 450))]
    b = [sample(name, 20, latencies=spread(at)) for name, at in (("x", 100), ("y", 237), ("z", 450))]
    found = compare(a, b)
    (each,) = found.comparisons
    assert each.latency is not None
    one, other = found.sides
    assert each.latency.pooled.shift == pytest.approx(other.latency_ms - one.latency_ms) == pytest.approx(-11)
    assert each.latency.pooled.low < -11 < each.latency.pooled.high < 0


def test_figures_of_a_table_are_over_the_same_scenarios():
    a = [sample("s", 20, latencies=(100.0,)), sample("t", 20, latencies=(900.0,))]
    b = [sample("s", 20, latencies=(110.0,)), sample("t", 20)]
    found = compare(a, b)
    assert [each.latency_ms for each in found.sides] == [100.0, 110.0]
    assert found.safety_is_pass_rate


def test_the_record_has_a_schema_and_reads_back():
    found = compare([sample("s", 20, safe_times=(1.0, math.inf))], [sample("s", 2, 18, safe_times=(1.0, math.inf))])
    encoded = msgspec.json.encode(found)
    jsonschema.validate(msgspec.json.decode(encoded), comparison_schema())
    assert msgspec.json.decode(encoded, type=Comparison).comparisons[0].changes == found.comparisons[0].changes


def facts(scenario_id, index, verdict=Verdict.PASSED, target="m", **more):
    ids = {"recorded_id": scenario_id, "scenario_id": scenario_id}
    return TrialFacts(**ids, index=index, target=target, place=PLACE, verdict=verdict, **more)


def gathered(trials, *, planned, fingerprints):
    collector = SampleCollector()
    for trial in trials:
        collector.add(trial)
    return collector.samples(planned=planned, fingerprints=fingerprints)


def test_a_trial_that_broke_before_it_had_an_agent_is_undecided_for_the_target():
    trials = [facts("a", 0), facts("a", 1, Verdict.ERROR, target=""), facts("a", 2)]
    (found,) = gathered(trials, planned={"a": 3}, fingerprints={})
    assert (found.target, tuple(found.passed), found.undecided) == ("m", (0, 2), 1)
    (code,) = gathered([facts("a", 0, target="")], planned={"a": 1}, fingerprints={})
    assert (code.target, tuple(code.passed)) == ("", (0,))


def test_trials_are_gathered_by_scenario_and_target():
    found = gathered(
        [
            facts("a", 0, latency_ms=10.0, tier=LatencyTier.TARGET, cost=0.5, checks=("x",)),
            facts("a", 1, Verdict.FAILED, latency_ms=30.0, latency_spoiled=True, cost=1.5, checks=("y",)),
            facts("a", 2, Verdict.ERROR, latency_ms=99.0, cost=1.0),
            facts("b", 0, target="m"),
            facts("b", 0, target="n", cost=1.0),
        ],
        planned={"a": 5, "b": 2, "c": 2},
        fingerprints={"a": {SCENARIO_PART: "d"}},
    )
    a, b_m, b_n, c = found
    assert (tuple(a.passed), tuple(a.failed), a.undecided) == ((0,), (1,), 3)
    assert (tuple(a.latencies), a.latencies_left_out, a.cost, a.checks) == ((10.0,), 1, 1.0, ("x", "y"))
    assert ([b_m.target, b_n.target], b_m.cost, b_n.cost) == (["m", "n"], None, 1.0)
    assert (c.scenario_id, c.decided, c.undecided) == ("c", 0, 2)


def test_a_tier_is_kept_by_half_of_the_trials():
    assert kept_tier({LatencyTier.TARGET: 5, LatencyTier.EXCEEDED: 5}) is LatencyTier.TARGET
    assert kept_tier({LatencyTier.TARGET: 4, LatencyTier.EXCEEDED: 5}) is LatencyTier.EXCEEDED
    assert kept_tier({}) is None
