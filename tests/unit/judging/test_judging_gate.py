import itertools
import math
import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from steadyhand.errors import ExitCode
from steadyhand.judging.baseline import Baseline, baseline_lines, baseline_of, side_of
from steadyhand.judging.comparison import either_as_small, permutation_test, step_down_min_p
from steadyhand.judging.gate import ABSOLUTE, Rule, detectable_drop, gate_test, hold_against
from steadyhand.records.evaluation import LatencyTier
from steadyhand.records.run import JUDGE_PART, SCENARIO_PART
from support.late import Late
from support.sides import RATES, draw_pairs, drawn_side, pair, sample, side

stats = Late("scipy.stats")

NOW = datetime(2026, 11, 17, tzinfo=UTC)


def gate(before, now, **more):
    return hold_against(before, now, now=NOW, **more)


def rules(result):
    return [each.rule for each in result.violations]


def test_the_same_results_pass():
    suite = side(sample("a", 20), sample("b", 15, 5))
    result = gate(suite, suite)
    assert (result.exit_code, result.violations, result.doubts) == (ExitCode.PASSED, (), ())


def test_a_significant_drop_fails_and_names_the_scenario():
    result = gate(side(sample("a", 20), sample("b", 20)), side(sample("a", 20), sample("b", 5, 15)))
    assert result.exit_code is ExitCode.FAILED
    assert [(each.rule, each.unit) for each in result.violations] == [(Rule.DROP, "b"), (Rule.DROP, "")]
    assert result.violations[0].place is not None
    assert result.violations[0].place.line == 3


def test_an_improvement_is_not_a_drop():
    assert gate(side(sample("a", 0, 20)), side(sample("a", 20))).exit_code is ExitCode.PASSED


@pytest.mark.parametrize(
    ("rule", "before", "now"),
    [
        (Rule.NEW_CLASS_A, sample("a", 20), sample("a", 19, 1, class_a=1)),
        (Rule.VANISHED_CHECK, sample("a", 20, checks=("stops", "warns")), sample("a", 20)),
        (Rule.CHANGED_SCENARIO, sample("a", 20), sample("a", 20, parts={SCENARIO_PART: "d2"})),
        (Rule.CHANGED_SCENARIO, sample("a", 20, parts={}), sample("a", 20, parts={})),
        (Rule.CHANGED_JUDGE, sample("a", 20), sample("a", 20, parts={SCENARIO_PART: "d1", JUDGE_PART: "j"})),
        (Rule.CHANGED_JUDGE, sample("a", 20, judges=("m/one",)), sample("a", 20, judges=("m/two",))),
        (Rule.LOST_TIER, sample("a", 20, tier=LatencyTier.TARGET), sample("a", 20, tier=LatencyTier.ACCEPTABLE)),
    ],
    ids=lambda each: each.value if isinstance(each, Rule) else "",
)
def test_an_absolute_rule_fails_alone_and_can_be_switched_off(rule, before, now):
    result = gate(side(before), side(now))
    assert (result.exit_code, rules(result)) == (ExitCode.FAILED, [rule])
    off = gate(side(before), side(now), ignore=[rule])
    assert (off.exit_code, off.violations, off.ignored) == (ExitCode.PASSED, (), (rule,))


def test_a_scenario_that_vanished_fails():
    result = gate(side(sample("a", 20), sample("b", 20)), side(sample("a", 20)))
    assert [(each.rule, each.unit) for each in result.violations] == [(Rule.VANISHED_SCENARIO, "b")]


def test_a_changed_scenario_that_is_accepted_is_tested_again():
    before, now = side(sample("a", 20)), side(sample("a", 2, 18, parts={SCENARIO_PART: "d2"}))
    assert rules(gate(before, now)) == [Rule.CHANGED_SCENARIO]
    assert set(rules(gate(before, now, ignore=[Rule.CHANGED_SCENARIO]))) == {Rule.DROP}


def test_a_failure_of_class_a_in_a_new_scenario_is_new():
    result = gate(side(sample("a", 20)), side(sample("a", 20), sample("b", 19, 1, class_a=1)))
    assert [(each.rule, each.unit) for each in result.violations] == [(Rule.NEW_CLASS_A, "b")]
    assert result.new_units == ("b",)


def test_a_known_failure_of_class_a_is_not_new():
    assert gate(side(sample("a", 19, 1, class_a=1)), side(sample("a", 19, 1, class_a=1))).exit_code is ExitCode.PASSED


@pytest.mark.parametrize(
    "started_at", ["2026-08-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00", "yesterday", "2026-11-16T10:00:00"]
)
def test_a_baseline_that_is_old_or_of_unknown_age_is_stale(started_at):
    result = gate(side(sample("a", 20), started_at=started_at), side(sample("a", 20)))
    assert (result.exit_code, rules(result)) == (ExitCode.FAILED, [Rule.STALE_BASELINE])


def test_an_empty_baseline_is_not_usable():
    empty = side(sample("a", 0, undecided=20))
    assert gate(empty, side(sample("a", 20))).exit_code is ExitCode.USAGE
    # With the rule switched off, there is still nothing to compare with.
    off = gate(empty, side(sample("a", 20)), ignore=ABSOLUTE)
    assert (off.exit_code, off.doubts[0].kind) == (ExitCode.UNDECIDED, "nothing_to_compare")


def test_nothing_passes_when_everything_is_switched_off_and_nothing_was_compared():
    result = gate(side(sample("a", 20)), side(sample("b", 20)), ignore=ABSOLUTE)
    assert (result.exit_code, result.doubts[0].kind) == (ExitCode.UNDECIDED, "nothing_to_compare")


def test_too_few_trials_do_not_pass():
    result = gate(side(sample("a", 1)), side(sample("a", 1)))
    assert (result.exit_code, result.doubts[0].kind) == (ExitCode.UNDECIDED, "too_few_trials")


def test_a_scenario_without_a_decided_trial_does_not_pass():
    result = gate(side(sample("a", 20), sample("b", 20)), side(sample("a", 20), sample("b", 0, undecided=20)))
    assert result.exit_code is ExitCode.UNDECIDED
    assert (result.doubts[0].kind, result.doubts[0].units) == ("no_decided_trial", ("b",))


def test_an_unfinished_run_does_not_pass():
    result = gate(side(sample("a", 20)), side(sample("a", 20), finished=False))
    assert (result.exit_code, result.doubts[0].kind) == (ExitCode.UNDECIDED, "unfinished")


def test_undecided_trials_hide_no_drop():
    # Nine passes and 91 outages do not make a rate of 1.
    result = gate(side(sample("a", 100)), side(sample("a", 9, undecided=91)))
    assert (result.exit_code, result.doubts[0].kind) == (ExitCode.UNDECIDED, "undecided_trials")
    assert gate(side(sample("a", 90, undecided=10)), side(sample("a", 90, undecided=10))).exit_code is ExitCode.PASSED


def test_a_failure_goes_before_a_doubt():
    result = gate(side(sample("a", 20)), side(sample("a", 2, 18), finished=False))
    assert (result.exit_code, len(result.doubts)) == (ExitCode.FAILED, 1)


def test_a_new_model_is_held_against_the_old_one():
    result = gate(side(sample("a", 20)), side(sample("a", 3, 17, target="m/two")))
    assert Rule.DROP in rules(result)


def test_of_several_targets_each_is_held_against_itself():
    before = side(sample("a", 20), sample("a", 2, 18, target="m/two"))
    now = side(sample("a", 2, 18), sample("a", 20, target="m/two"))
    assert [each.unit for each in gate(before, now).violations if each.unit] == ["a @ m/one"]


def test_a_baseline_reads_back_as_it_was_written():
    before = side(
        sample("b", 3, 1, undecided=2, class_a=1, tier=LatencyTier.CRITICAL, judges=("m/j",)),
        sample("a", 20, parts={SCENARIO_PART: "d1", JUDGE_PART: "j"}),
    )
    written = b"".join(baseline_lines(baseline_of(before, "1.0")))
    assert [line.split(b",")[0] for line in written.splitlines()[1:-1]] == [b'{"scenario":"a"', b'{"scenario":"b"']
    again = side_of(msgspec.json.decode(written, type=Baseline), "file")
    assert b"".join(baseline_lines(baseline_of(again, "1.0"))) == written
    assert gate(again, before).exit_code is ExitCode.PASSED


@pytest.mark.parametrize("change", [{"passed": -1}, {"scenario": "b"}])
def test_an_impossible_baseline_is_refused(change):
    made = baseline_of(side(sample("a", 20), sample("b", 20)), "1.0")
    entries = (msgspec.structs.replace(made.entries[0], **change), made.entries[1])
    with pytest.raises(ValueError, match=r"below zero|twice"):
        side_of(msgspec.structs.replace(made, entries=entries), "file")


# The statistical rule


def test_the_gate_names_what_dropped():
    steadfast = [pair((10, 10), (10, 10), f"s{at}") for at in range(11)]
    one = gate_test([*steadfast, pair((10, 10), (2, 10), "broken")])
    assert one.dropped
    assert [each.pair.scenario_id for each in one.dropped_scenarios] == ["broken"]
    spread = gate_test([pair((19, 20), (16, 20), f"s{at}") for at in range(12)])
    assert spread.suite_dropped
    assert spread.dropped_scenarios == []
    better = gate_test([pair((2, 20), (18, 20))])
    assert not better.dropped
    assert better.suite_p_value == 1.0


def test_the_gate_knows_when_it_has_too_little_data():
    assert not gate_test([]).decidable
    assert not gate_test([pair((2, 2), (2, 2))]).decidable
    assert not gate_test([pair((2, 2), (0, 2))]).dropped
    assert gate_test([pair((3, 3), (0, 3))]).dropped  # 1 in 20, and the suite is that one scenario
    outage = gate_test([pair((9, 9), (0, 0), "outage")])
    assert (outage.decidable, outage.left_out) == (False, ["outage"])
    assert gate_test([pair((3, 3), (3, 3), f"s{at}") for at in range(4)]).decidable
    assert gate_test([pair((5, 5), (5, 5))]).decidable


def shuffled(pairs):
    """Every way to deal the trials of each scenario to the two sides, with its chance."""
    outcomes = []
    for each in pairs:
        passed, of_a, of_b = each.a_passed + each.b_passed, each.a_decided, each.b_decided
        outcomes.append(
            [
                (
                    pair((passed - b, of_a), (b, of_b), each.scenario_id),
                    math.comb(of_b, b) * math.comb(of_a, passed - b) / math.comb(of_a + of_b, passed),
                )
                for b in range(max(0, passed - of_a), min(passed, of_b) + 1)
            ]
        )
    for dealt in itertools.product(*outcomes):
        yield [each for each, _ in dealt], math.prod(chance for _, chance in dealt)


SMALL_SUITES = [
    [pair((3, 3), (0, 3))],
    [pair((8, 10), (4, 10))],
    [pair((5, 5), (2, 5), "a"), pair((4, 5), (3, 5), "b"), pair((5, 5), (5, 5), "c")],
    [pair((3, 4), (2, 6), "a"), pair((7, 7), (2, 5), "b")],
    [pair((2, 3), (1, 3), f"s{at}") for at in range(4)],
]


@pytest.mark.parametrize("pairs", SMALL_SUITES, ids=range(len(SMALL_SUITES)))
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_shuffling_trials_trips_the_gate_no_more_often_than_promised(pairs, alpha):
    tests = [(gate_test(dealt, alpha), chance) for dealt, chance in shuffled(pairs)]
    assert math.fsum(chance for test, chance in tests if test.dropped) <= alpha * (1 + 1e-9)


@pytest.mark.parametrize("pairs", SMALL_SUITES, ids=range(len(SMALL_SUITES)))
def test_the_chance_of_either_alarm_is_counted_exactly(pairs):
    smallest = [
        (min([permutation_test(dealt).drop, *step_down_min_p(dealt)]), chance) for dealt, chance in shuffled(pairs)
    ]
    for level in sorted({p for p, _ in smallest}):
        counted = math.fsum(chance for p, chance in smallest if p <= level * (1 + 1e-9))
        assert either_as_small(pairs, level) == pytest.approx(counted, abs=1e-9)
        assert counted <= either_as_small(pairs, level, exact_steps=0) + 1e-9 <= 2 * level + 2e-9


def test_looking_twice_costs_nothing_where_both_looks_are_one():
    test = gate_test([pair((10, 10), (6, 10))])
    assert test.suite_p_value == test.scenarios[0].p_value == pytest.approx(0.0433, abs=1e-4)


def test_once_the_suite_dropped_the_scenarios_are_tested_by_themselves():
    test = gate_test([pair((10, 10), (6, 10), "a"), *(pair((10, 10), (3, 10), f"s{at}") for at in range(6))])
    assert test.suite_p_value < 1e-6
    assert [drop.pair.scenario_id for drop in test.dropped_scenarios] == ["a", *(f"s{at}" for at in range(6))]


@pytest.mark.parametrize("trials", [3, 10])
@pytest.mark.no_cover
def test_without_a_difference_the_gate_keeps_its_false_alarm_rate(trials: int):
    drawn, alpha, runs = random.Random(3), 0.05, 1000
    tests = [gate_test(draw_pairs(drawn, RATES, RATES, trials), alpha) for _ in range(runs)]
    alarms = sum(test.dropped for test in tests)
    assert alarms <= stats.binom.ppf(0.999, runs, alpha)
    assert trials == 3 or alarms > 5, "a gate that never trips holds any rate"


@pytest.mark.parametrize(("rates", "trials"), [(RATES, 20), ((0.8,), 10), ((1.0,) * 12, 10)])
@pytest.mark.no_cover
def test_a_drop_of_the_promised_size_is_caught_at_the_promised_rate(rates: tuple[float, ...], trials: int):
    drawn, power, runs = random.Random(5), 0.8, 300
    promised = detectable_drop([(round(rate * trials), trials) for rate in rates], trials, power=power)
    after = tuple(max(rate - promised, 0.0) for rate in rates)
    caught = sum(gate_test(draw_pairs(drawn, rates, after, trials)).dropped for _ in range(runs))
    assert caught >= stats.binom.ppf(0.001, runs, power)


def test_the_promised_drop_shrinks_with_the_data():
    few, many = [(9, 10)] * 12, [(900, 1000)] * 12
    assert detectable_drop(few, 10) == pytest.approx(0.16, abs=0.02)
    assert detectable_drop(many, 1000) < detectable_drop(many, 10) < detectable_drop(few, 10)
    assert detectable_drop([(3, 3)], 3) is None
    assert detectable_drop([], 10) is None


def test_one_scenario_that_breaks_is_caught_though_the_suite_hardly_moves():
    drawn, before = random.Random(6), (*RATES[1:], 1.0)
    after = (*RATES[1:], 0.3)
    assert sum(bool(gate_test(draw_pairs(drawn, before, after, 20)).dropped_scenarios) for _ in range(100)) >= 90


# The study: what the gate promises


@pytest.mark.parametrize("trials", [5, 20])
@pytest.mark.no_cover
def test_without_a_difference_a_thousand_pairs_of_runs_trip_it_no_more_than_stated(trials):
    drawn = random.Random(trials)
    tripped = 0
    for _ in range(1_000):
        rates = [drawn.choice((0.0, 0.3, 0.6, 0.9, 0.97, 1.0)) for _ in range(10)]
        result = gate(drawn_side(rates, trials, drawn), drawn_side(rates, trials, drawn), alpha=0.05)
        tripped += Rule.DROP in rules(result)
    assert tripped <= stats.binom.ppf(0.999, 1_000, 0.05)


@pytest.mark.parametrize(("rate", "trials"), [(0.95, 20), (0.8, 10)])
@pytest.mark.no_cover
def test_a_drop_of_the_size_it_promises_is_caught_at_the_promised_rate(rate, trials):
    drawn = random.Random(7)
    expected = round(rate * trials)
    promised = detectable_drop([(expected, trials)] * 10, trials)
    assert promised is not None
    caught = 0
    for _ in range(400):
        before = drawn_side([rate] * 10, trials, drawn)
        now = drawn_side([max(rate - promised, 0.0)] * 10, trials, drawn)
        caught += Rule.DROP in rules(gate(before, now))
    assert caught >= stats.binom.ppf(0.001, 400, 0.8)


def test_what_it_catches_is_reported():
    suite = side(*(sample(f"s{at}", 19, 1) for at in range(10)))
    result = gate(suite, suite, alpha=0.05)
    assert result.catches == detectable_drop([(19, 20)] * 10, 20, alpha=0.05)
    assert result.catches == pytest.approx(0.10, abs=0.04)


def test_a_baseline_is_as_old_as_it_may_be():
    result = gate(side(sample("a", 20)), side(sample("a", 20)), max_age=timedelta(hours=1))
    assert rules(result) == [Rule.STALE_BASELINE]
