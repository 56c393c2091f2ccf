import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.judging.sequential import (
    Decision,
    Decisions,
    SequentialTest,
    anytime_interval,
    decide,
    fewest_passes,
    log_evidence_below,
    outcome_of,
    tries_in_order,
)
from steadyhand.judging.statistics import wilson_interval
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialKey
from support.late import Late

integrate = Late("scipy.integrate")
stats = Late("scipy.stats")

steady = settings(derandomize=True, database=None)


def run(required: float, rate: float, seed: int, ceiling: int = 100) -> SequentialTest:
    drawn, test = random.Random(seed), SequentialTest(required, ceiling=ceiling)
    while not test.finished:
        test.add(drawn.random() < rate)
    return test


def next_look(alive: dict[int, float], rate: float) -> dict[int, float]:
    """The probability of each number of passed trials after one more trial."""
    after: dict[int, float] = {}
    for passed, chance in alive.items():
        after[passed + 1] = after.get(passed + 1, 0.0) + chance * rate
        after[passed] = after.get(passed, 0.0) + chance * (1 - rate)
    return after


def chance_to_say(wanted: Decision, required: float, rate: float, alpha: float, ceiling: int) -> float:
    """The exact probability of that decision at any time up to the ceiling, over all orders of outcomes."""
    alive, said = {0: 1.0}, 0.0
    for trial in range(1, ceiling + 1):
        after, alive = next_look(alive, rate), {}
        for passed, chance in after.items():
            decision = decide(required, alpha, passed=passed, failed=trial - passed)
            if decision is wanted:
                said += chance
            elif decision is Decision.UNDECIDED:
                alive[passed] = chance
    return said


@pytest.mark.parametrize(("required", "alpha"), [(0.5, 0.05), (0.8, 0.1), (0.95, 0.05)])
def test_the_error_rate_holds_at_every_stopping_time(required: float, alpha: float):
    """Exact over 120 looks, at the rate that is hardest to decide on either side."""
    assert 0 < chance_to_say(Decision.FAILED, required, required, alpha, 120) <= alpha
    assert 0 < chance_to_say(Decision.PASSED, required, required - 1e-9, alpha, 120) <= alpha


def test_peeking_at_a_fixed_interval_does_not_hold_it():
    alpha, wrong = 0.05, 0
    for seed in range(200):
        drawn, passed = random.Random(seed), 0
        for trial in range(1, 121):
            passed += drawn.random() < 0.8
            if wilson_interval(passed, trial, 1 - 2 * alpha)[1] < 0.8:
                wrong += 1
                break
    assert wrong > stats.binom.ppf(0.999, 200, alpha)


def test_simulated_runs_hold_the_error_rate():
    said = [run(0.8, 0.8, seed).decision for seed in range(400)]
    assert said.count(Decision.FAILED) <= stats.binom.ppf(0.999, 400, 0.05)
    assert said.count(Decision.PASSED) <= stats.binom.ppf(0.999, 400, 0.05)
    assert said.count(Decision.UNDECIDED) > 300


@pytest.mark.parametrize(
    ("required", "rate", "answer"),
    [
        (0.9, 1.0, Decision.PASSED),
        (0.8, 0.98, Decision.PASSED),
        (0.5, 0.9, Decision.PASSED),
        (0.9, 0.5, Decision.FAILED),
        (0.8, 0.3, Decision.FAILED),
    ],
)
def test_a_clear_answer_saves_half_of_the_trials(required: float, rate: float, answer: Decision):
    tests = [run(required, rate, seed) for seed in range(60)]
    assert sum(test.saved for test in tests) / len(tests) >= 50
    assert sum(test.decision is answer for test in tests) >= 57


def test_without_a_rate_below_one_only_a_failure_ends_it_early():
    test = SequentialTest(1.0, ceiling=50)
    for _ in range(49):
        assert test.add(True) is Decision.UNDECIDED
    assert test.add(True) is Decision.PASSED
    assert (test.trials, test.saved, test.finished) == (50, 0, True)
    test = SequentialTest(1.0, ceiling=50)
    test.add(True)
    assert test.add(False) is Decision.FAILED
    assert (test.trials, test.saved, test.finished) == (2, 48, True)
    test = SequentialTest(1.0, ceiling=3)
    assert [test.add(outcome) for outcome in (True, None, True)] == [Decision.UNDECIDED] * 3
    assert test.finished


def test_the_ceiling_decides_nothing():
    test = SequentialTest(0.9, ceiling=10)
    for _ in range(10):
        test.add(True)
    assert (test.decision, test.finished, test.saved) == (Decision.UNDECIDED, True, 0)
    with pytest.raises(ValueError, match="ended after 10 trials: undecided"):
        test.add(True)


def test_a_trial_without_a_verdict_counts_for_neither_side():
    outage = SequentialTest(0.5, ceiling=200)
    for _ in range(200):
        outage.add(None)
    assert outage.decision is Decision.UNDECIDED
    mostly = SequentialTest(0.9, ceiling=100)
    for at in range(100):
        mostly.add(True if at < 9 else None)
    assert mostly.decision is Decision.UNDECIDED, "nine passes and 91 outages are not 0.9"
    for verdict, required in ((True, 0.6), (False, 0.4)):
        half = SequentialTest(required, ceiling=200)
        for at in range(200):
            half.add(verdict if at % 2 else None)
        assert half.decision is Decision.UNDECIDED, "the other half could have turned it"


@pytest.mark.parametrize(
    ("required", "ceiling", "alpha"), [(0, 10, 0.05), (1.1, 10, 0.05), (0.9, 0, 0.05), (0.9, 10, 0)]
)
def test_a_test_that_makes_no_sense_is_refused(required: float, ceiling: int, alpha: float):
    with pytest.raises(ValueError, match="expected"):
        SequentialTest(required, ceiling=ceiling, alpha=alpha)


@steady
@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.05, 0.95))
def test_the_evidence_is_the_mixture_of_likelihood_ratios(passed: int, failed: int, rate: float):
    def ratio(p: float) -> float:
        return (p / rate) ** passed * ((1 - p) / (1 - rate)) ** failed

    mixture, _ = integrate.quad(ratio, 0, rate, epsabs=0, epsrel=1e-9, limit=200)
    assert log_evidence_below(passed, failed, rate) == pytest.approx(math.log(mixture / rate), abs=1e-6)


@steady
@given(st.integers(0, 200), st.integers(0, 200), st.floats(0.05, 0.95))
def test_a_pass_more_never_speaks_for_failed(passed: int, failed: int, rate: float):
    assert log_evidence_below(passed + 1, failed, rate) <= log_evidence_below(passed, failed, rate) + 1e-9
    assert log_evidence_below(passed, failed + 1, rate) >= log_evidence_below(passed, failed, rate) - 1e-9


def test_the_anytime_interval_holds_at_every_look():
    assert anytime_interval(0, 0) == (0.0, 1.0)
    assert anytime_interval(10, 10) == pytest.approx((0.6230, 1.0), abs=1e-4)
    bounds = {(passed, n): anytime_interval(passed, n) for n in range(1, 81) for passed in range(n + 1)}
    for rate in (0.3, 0.9):
        alive, missed = {0: 1.0}, 0.0
        for trial in range(1, 81):
            after, alive = next_look(alive, rate), {}
            for passed, chance in after.items():
                low, high = bounds[passed, trial]
                if low <= rate <= high:
                    alive[passed] = chance
                else:
                    missed += chance
        assert missed <= 0.05


@steady
@given(st.integers(1, 500), st.data())
def test_the_anytime_interval_is_wider_than_a_fixed_one(decided: int, data: st.DataObject):
    passed = data.draw(st.integers(0, decided))
    low, high = anytime_interval(passed, decided)
    fixed_low, fixed_high = wilson_interval(passed, decided)
    assert 0 <= low <= fixed_low + 0.02
    assert fixed_high - 0.02 <= high <= 1
    assert low <= passed / decided <= high


@steady
@given(
    st.lists(st.sampled_from([True, False, None]), max_size=300),
    st.sampled_from([0.3, 0.5, 0.8, 0.9, 0.99]),
    st.sampled_from([0.01, 0.05, 0.2]),
)
def test_asking_only_when_it_can_matter_changes_nothing(outcomes: list[bool | None], required: float, alpha: float):
    test = SequentialTest(required, ceiling=300, alpha=alpha)
    for outcome in outcomes:
        said = test.add(outcome)
        counts = {"passed": test.passed, "failed": test.failed, "without_verdict": test.without_verdict}
        assert said is decide(required, alpha, **counts)
        if test.finished:
            break


@steady
@given(st.permutations(range(30)), st.lists(st.sampled_from(list(Verdict)), min_size=30, max_size=30))
def test_trials_enter_in_planned_order_whatever_finishes_first(order: list[int], verdicts: list[Verdict]):
    in_order, as_they_come = (SequentialTest(0.6, ceiling=30, alpha=0.2) for _ in range(2))
    for verdict in verdicts:
        if not in_order.finished:
            in_order.add(outcome_of(verdict))
    decisions = Decisions({"s": as_they_come})
    for index in order:
        decisions.add(TrialKey(scenario_id="s", index=index), verdicts[index])
    assert vars(as_they_come) == vars(in_order)
    assert decisions.wants(TrialKey(scenario_id="s", index=29)) is not in_order.finished


def test_slow_failures_do_not_make_a_pass():
    """The rate is below the required one: in order of completion, the quick passes alone would have decided it."""
    test = SequentialTest(0.5, ceiling=100)
    decisions = Decisions({"s": test})
    for index in range(100):
        if index % 10 > 7:
            decisions.add(TrialKey(scenario_id="s", index=index), Verdict.PASSED)
    assert (test.trials, test.decision) == (0, Decision.UNDECIDED)
    for index in range(100):
        if index % 10 <= 7:
            decisions.add(TrialKey(scenario_id="s", index=index), Verdict.FAILED)
    assert test.decision is Decision.FAILED


def test_what_finished_after_a_gap_is_not_part_of_the_estimate():
    verdicts = {0: Verdict.PASSED, 1: Verdict.ERROR, 2: Verdict.FAILED, 4: Verdict.PASSED, 5: Verdict.PASSED}
    assert tries_in_order(verdicts) == (1, 2)
    assert tries_in_order({1: Verdict.PASSED}) == (0, 0)


@pytest.mark.parametrize(("required", "alpha"), [(0.5, 0.05), (0.9, 0.05), (0.99, 0.01)])
def test_the_fewest_passes(required: float, alpha: float):
    fewest = fewest_passes(required, alpha)
    assert fewest is not None
    assert decide(required, alpha, passed=fewest, failed=0) is Decision.PASSED
    assert decide(required, alpha, passed=fewest - 1, failed=0) is Decision.UNDECIDED
    assert fewest_passes(1.0, alpha) is None


def test_outages_that_hit_failures_do_not_raise_the_error_rate():
    """The true rate is below the required one, and half of all failures are lost in an outage."""
    passed, skipped = 0, 0
    for seed in range(300):
        drawn = random.Random(seed)
        test, trusting = (SequentialTest(0.8, ceiling=150) for _ in range(2))
        for _ in range(150):
            outcome = drawn.random() < 0.75 or (None if drawn.random() < 0.5 else False)
            if not test.finished:
                test.add(outcome)
            if outcome is not None and not trusting.finished:
                trusting.add(outcome)
        passed += test.decision is Decision.PASSED
        skipped += trusting.decision is Decision.PASSED
    most = stats.binom.ppf(0.999, 300, 0.05)
    assert passed <= most < skipped, "leaving errors out would have decided wrongly"
