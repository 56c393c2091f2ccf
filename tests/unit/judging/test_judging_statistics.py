import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.judging.statistics import (
    beta_cdf,
    clopper_pearson_interval,
    failure_rate_bound,
    mean_interval,
    normal_cdf,
    normal_quantile,
    pass_at_k,
    pass_hat_k,
    percentile,
    quantile,
    trials_for_bound,
    values_for_percentile,
    wilson_interval,
)
from support.late import Late

np = Late("numpy")
stats = Late("scipy.stats")

steady = settings(derandomize=True, database=None)
chances = st.floats(1e-6, 1 - 1e-6)


@st.composite
def tries(draw: st.DrawFn, most: int = 300) -> tuple[int, int]:
    decided = draw(st.integers(1, most))
    return draw(st.integers(0, decided)), decided


@steady
@given(chances, st.floats(0.5, 500), st.floats(0.5, 500))
def test_distributions_agree_with_scipy(x: float, a: float, b: float):
    assert beta_cdf(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), rel=1e-8, abs=1e-14)
    assert normal_quantile(x) == pytest.approx(stats.norm.ppf(x), rel=1e-9, abs=1e-9)
    assert normal_cdf(normal_quantile(x)) == pytest.approx(x)


def test_the_usual_quantile_is_the_one_in_every_table():
    assert normal_quantile(0.975) == 1.959963984540054
    with pytest.raises(ValueError, match="between 0 and 1"):
        normal_quantile(1.0)


def test_known_intervals_of_a_rate():
    assert wilson_interval(0, 0) is None
    assert wilson_interval(50, 100) == pytest.approx((0.4038, 0.5962), abs=5e-5)
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=5e-5)
    assert wilson_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=5e-5)
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=5e-5)
    assert clopper_pearson_interval(0, 0) is None
    assert clopper_pearson_interval(10, 10) == pytest.approx((0.6915, 1.0), abs=5e-5)
    assert clopper_pearson_interval(50, 100) == pytest.approx((0.3983, 0.6017), abs=5e-5)
    with pytest.raises(ValueError, match="11 of 10"):
        wilson_interval(11, 10)


@steady
@given(tries(), st.sampled_from([0.8, 0.95, 0.99]))
def test_intervals_of_a_rate_agree_with_scipy(seen: tuple[int, int], confidence: float):
    passed, decided = seen
    for ours, method in ((wilson_interval, "wilson"), (clopper_pearson_interval, "exact")):
        low, high = ours(passed, decided, confidence)
        oracle = stats.binomtest(passed, decided).proportion_ci(confidence, method)
        assert (low, high) == pytest.approx((oracle.low, oracle.high), abs=1e-9)
        assert 0 <= low <= passed / decided <= high <= 1


def test_zero_failures_bound_the_failure_rate():
    for n in (10, 59, 299, 5000):
        assert failure_rate_bound(0, n) == pytest.approx(stats.beta.ppf(0.95, 1, n))
        assert failure_rate_bound(0, n) < 3 / n, "the rule of three rounds up"
        assert failure_rate_bound(0, n) == pytest.approx(3 / n, rel=0.2)
    assert failure_rate_bound(0, 0) == 1.0
    assert failure_rate_bound(3, 3) == 1.0
    assert trials_for_bound(0.05) == 59
    assert trials_for_bound(0.01) == 299
    assert trials_for_bound(0.001) == 2995
    assert trials_for_bound(0.01, failures=1) == 473
    with pytest.raises(ValueError, match="between 0 and 1"):
        trials_for_bound(0)


@steady
@given(st.floats(0.002, 0.9), st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.integers(0, 4))
def test_the_wanted_bound_takes_exactly_that_many_trials(bound: float, confidence: float, failures: int):
    n = trials_for_bound(bound, confidence, failures=failures)
    assert failure_rate_bound(failures, n, confidence) <= bound
    assert n - 1 <= failures or failure_rate_bound(failures, n - 1, confidence) > bound


@steady
@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(1, 9))
def test_pass_at_k_and_pass_hat_k_are_the_shares_of_all_choices(outcomes: list[bool], k: int):
    passed, decided = sum(outcomes), len(outcomes)
    at, hat = pass_at_k(passed, decided, k), pass_hat_k(passed, decided, k)
    if k > decided:
        assert at is hat is None
        return
    choices = list(itertools.combinations(outcomes, k))
    assert at == pytest.approx(sum(any(each) for each in choices) / len(choices))
    assert hat == pytest.approx(sum(all(each) for each in choices) / len(choices))


def test_known_pass_at_k_and_pass_hat_k():
    assert pass_hat_k(8, 10, 1) == pass_at_k(8, 10, 1) == pytest.approx(0.8)
    assert pass_hat_k(8, 10, 4) == pytest.approx(70 / 210)
    assert pass_hat_k(3, 10, 4) == 0.0
    assert pass_at_k(1, 10, 5) == pytest.approx(0.5)
    assert pass_hat_k(3, 3, 4) is None
    assert pass_at_k(3, 3, 0) is None


def test_a_percentile_needs_its_number_of_values():
    assert [values_for_percentile(q) for q in (0.5, 0.9, 0.95, 0.99)] == [6, 29, 59, 299]
    few = percentile(range(58), 0.95)
    assert few.refused
    assert (few.n, few.needed, few.value, few.low, few.high) == (58, 59, None, None, None)
    enough = percentile(range(1, 60), 0.95)
    assert not enough.refused
    assert (enough.value, enough.low, enough.high) == (57, 50, 59)
    assert enough.coverage == pytest.approx(stats.binom.cdf(58, 59, 0.95) - stats.binom.cdf(49, 59, 0.95))
    with pytest.raises(ValueError, match="not numbers"):
        percentile([1.0, math.nan], 0.5)


def test_a_percentile_may_be_never():
    seen = percentile([1.0] * 50 + [math.inf] * 50, 0.9)
    assert (seen.value, seen.low, seen.high) == (math.inf, math.inf, math.inf)
    assert quantile([1, 2, 3, 4], 0.5) == 2
    assert quantile(list(range(1, 21)), 0.95) == 19


@steady
@given(st.integers(6, 400), st.sampled_from([0.25, 0.5, 0.9, 0.95]), st.sampled_from([0.8, 0.95]))
def test_order_statistics_cover_by_the_binomial(n: int, q: float, confidence: float):
    seen = percentile(range(1, n + 1), q, confidence)
    if seen.refused:
        assert 1 - q**n - (1 - q) ** n < confidence
        return
    low, high = int(seen.low), int(seen.high)
    # The r-th smallest of uniform draws is at most q if at least r of them are.
    coverage = stats.binom.cdf(high - 1, n, q) - stats.binom.cdf(low - 1, n, q)
    assert coverage == pytest.approx(seen.coverage, abs=1e-9)
    assert coverage >= confidence - 1e-9
    lows = np.arange(1, n - (high - low) + 2)  # the upper one has to be one of the n
    shorter = stats.binom.cdf(lows + high - low - 2, n, q) - stats.binom.cdf(lows - 1, n, q)
    assert shorter.max() < confidence


def test_an_interval_over_scenarios_of_all_or_nothing_is_clopper_pearson():
    for passed, scenarios in ((0, 5), (5, 5), (9, 12), (1, 1), (150, 200), (2_700, 3_000), (3_000, 3_000)):
        exact = stats.binomtest(passed, scenarios).proportion_ci(0.95, "exact")
        seen = mean_interval([1.0] * passed + [0.0] * (scenarios - passed))
        assert seen == pytest.approx((exact.low, exact.high), abs=1e-6)
    assert mean_interval([]) is None
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_interval([0.5, 1.5])


def test_an_interval_over_scenarios_is_that_of_dirichlet_weights():
    values = [0.2, 0.5, 0.5, 0.9, 1.0, 0.77]
    weights = np.random.default_rng(1).dirichlet(np.ones(7), 1_000_000)
    low = np.quantile(weights @ np.array([0.0, *values]), 0.025)
    high = np.quantile(weights @ np.array([1.0, *values]), 0.975)
    assert mean_interval(values) == pytest.approx((low, high), abs=1.5e-3)


@steady
@given(st.lists(st.integers(0, 10), min_size=1, max_size=8), st.data())
def test_a_better_scenario_never_lowers_the_suite(passes: list[int], data: st.DataObject):
    shares = [passed / 10 for passed in passes]
    low, high = mean_interval(shares)
    assert 0 <= low <= math.fsum(shares) / len(shares) <= high <= 1
    shares[data.draw(st.integers(0, len(passes) - 1))] = 1.0
    better_low, better_high = mean_interval(shares)
    assert better_low >= low - 1e-6
    assert better_high >= high - 1e-6


@pytest.mark.parametrize(
    ("population", "mean"),
    [
        pytest.param(lambda r: float(r.random() < 0.8), 0.8, id="always-or-never"),
        pytest.param(lambda r: 0.0 if r.random() < 0.1 else 0.99, 0.891, id="a-rare-disaster"),
        pytest.param(lambda r: r.betavariate(9, 1), 0.9, id="spread"),
    ],
)
@pytest.mark.no_cover
def test_the_suite_interval_covers_the_mean_of_the_kind_of_scenario(population, mean):
    """Even where an interval from the variance between scenarios, or from all trials pooled, does not."""
    drawn, runs, trials, missed, missed_as_one = random.Random(7), 150, 5, 0, 0
    for _ in range(runs):
        rates = [population(drawn) for _ in range(10)]
        seen = [(sum(drawn.random() < rate for _ in range(trials)), trials) for rate in rates]
        low, high = mean_interval([passed / trials for passed, _ in seen])
        missed += not low <= mean <= high
        low, high = wilson_interval(sum(passed for passed, _ in seen), 10 * trials)
        missed_as_one += not low <= mean <= high
    bar = stats.binom.ppf(0.999, runs, 0.05)
    assert missed <= bar
    if population(random.Random(1)) in (0.0, 0.99, 1.0):
        assert missed_as_one > bar, "clustered trials are not independent"
