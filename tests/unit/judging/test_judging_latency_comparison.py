import math
import random
from collections.abc import Sequence
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.judging.latency_comparison import (
    Cliff,
    ComparedTarget,
    PairedTimes,
    cliff_edges,
    compare_by_scenario,
    compare_latencies,
)
from support.late import Late

np = Late("numpy")
stats = Late("scipy.stats")

steady = settings(derandomize=True, database=None)
distinct = st.lists(st.floats(1, 1e4), min_size=1, max_size=10, unique=True)
tied = st.lists(st.integers(1, 6).map(float), min_size=11, max_size=40)


@steady
@given(distinct, distinct)
def test_few_times_are_tested_exactly(a: list[float], b: list[float]):
    seen = compare_latencies(a, b)
    oracle = stats.mannwhitneyu(b, a, method="exact")
    assert seen.exact
    if not set(a) & set(b):
        assert seen.p_value == pytest.approx(oracle.pvalue)
    assert seen.b_slower == pytest.approx(oracle.statistic / (len(a) * len(b)))
    assert seen.shift == pytest.approx(float(np.median(np.subtract.outer(b, a))))


def test_few_tied_times_are_tested_exactly_too():
    a, b = [1.0, 2.0, 2.0, 3.0], [2.0, 3.0, 3.0, 4.0, 4.0]

    def rank_sum(x, y):
        ranks = stats.rankdata([*x, *y])
        return abs(ranks[: len(x)].sum() - len(x) * (len(ranks) + 1) / 2)

    oracle = stats.permutation_test((a, b), rank_sum, alternative="greater", n_resamples=np.inf)
    assert compare_latencies(a, b).p_value == pytest.approx(oracle.pvalue)


@steady
@given(tied, tied)
def test_many_tied_times_agree_with_scipy(a: list[float], b: list[float]):
    seen = compare_latencies(a, b)
    assert not seen.exact
    if len({*a, *b}) == 1:
        assert seen.p_value == 1.0
    else:
        assert seen.p_value == pytest.approx(stats.mannwhitneyu(b, a, method="asymptotic").pvalue)
    assert seen.shift == pytest.approx(float(np.median(np.subtract.outer(b, a))))


def test_large_samples_are_searched_and_not_listed():
    drawn = random.Random(1)
    for digits in (0, 6):
        a = [round(drawn.lognormvariate(6, 0.5), digits) for _ in range(700)]
        b = [round(drawn.lognormvariate(6.2, 0.5), digits) for _ in range(600)]
        seen, every = compare_latencies(a, b), np.sort(np.subtract.outer(b, a).ravel())
        reach = stats.norm.ppf(0.975) * math.sqrt(len(every) * 1301 / 12)
        low, high = every[math.floor(len(every) / 2 - reach) - 1], every[math.ceil(len(every) / 2 + reach)]
        assert (seen.shift, seen.low, seen.high) == pytest.approx((np.median(every), low, high), abs=0.05)
        assert seen.low > 0


def test_a_thousand_quantiles_stand_for_more_times():
    drawn = random.Random(3)
    a = [drawn.lognormvariate(6, 0.5) for _ in range(4100)]
    b = [drawn.lognormvariate(6.05, 0.5) for _ in range(1300)]
    seen, every = compare_latencies(a, b), np.sort(np.subtract.outer(b, a).ravel())
    assert seen.p_value == pytest.approx(stats.mannwhitneyu(b, a, method="asymptotic").pvalue)
    reach, off = stats.norm.ppf(0.975) * math.sqrt(len(every) * 5401 / 12), 2 * len(every) // 1000
    exact = [len(every) // 2, int(len(every) / 2 - reach), int(len(every) / 2 + reach)]
    for found, rank in zip((seen.shift, seen.low, seen.high), exact, strict=True):
        assert every[rank - off] <= found <= every[rank + off]
    assert every[exact[1]] - every[exact[1] - off] < (seen.shift - seen.low) / 5


def test_the_shift_interval_covers_the_shift():
    drawn, missed = random.Random(4), {8: 0, 25: 0}
    for n in missed:
        for _ in range(400):
            a = [drawn.expovariate(0.01) for _ in range(n)]
            b = [drawn.expovariate(0.01) + 30 for _ in range(n)]
            seen = compare_latencies(a, b, quantiles=())
            missed[n] += not seen.low <= 30 <= seen.high
    assert max(missed.values()) <= stats.binom.ppf(0.999, 400, 0.05)
    assert min(missed.values()) > 0


def test_too_few_times_have_no_interval():
    seen = compare_latencies([1.0, 2.0], [5.0, 6.0])
    assert (seen.shift, seen.low, seen.high) == (4.0, None, None)
    assert all(each.difference is None for each in seen.quantiles)
    assert seen.quantiles[0].a.needed == 6
    assert compare_latencies([], [1.0]) is None
    with pytest.raises(ValueError, match="not numbers"):
        compare_latencies([math.nan], [1.0])


def test_times_that_never_came_count_as_the_longest():
    seen = compare_latencies([1.0] * 12, [1.0] * 6 + [math.inf] * 6, quantiles=(0.5, 0.9))
    assert seen.p_value < 0.05
    assert seen.b_slower == 0.75
    assert (seen.shift, seen.low, seen.high) == (None, None, None)
    assert seen.quantiles[0].difference == 0.0
    assert seen.quantiles[0].high == math.inf


def test_quantile_differences_cover():
    drawn, runs, missed = random.Random(9), 300, 0
    true = 30.0
    for _ in range(runs):
        a = [drawn.expovariate(0.01) for _ in range(60)]
        b = [drawn.expovariate(0.01) + true for _ in range(60)]
        (p90,) = compare_latencies(a, b, quantiles=(0.9,)).quantiles
        missed += not p90.low <= true <= p90.high
    assert missed <= stats.binom.ppf(0.999, runs, 0.05)


def target(name: str, safety: float | None, latency_ms: float | None) -> ComparedTarget:
    return ComparedTarget(name=name, safety=safety, latency_ms=latency_ms)


def test_times_are_compared_within_their_scenario_by_every_permutation():
    scenarios = [([1.0, 4.0, 4.0], [5.0, 6.0]), ([100.0, 130.0], [110.0, 140.0, 150.0])]

    def later(each: Sequence[float], size: int) -> float:
        """How far the ranks of the last `size` values are from what chance gives."""
        ranks = stats.rankdata(each)
        return ranks[len(each) - size :].sum() - size * (len(each) + 1) / 2

    seen = abs(sum(later([*a, *b], len(b)) for a, b in scenarios))
    by_scenario = [[later(each, len(b)) for each in permutations([*a, *b])] for a, b in scenarios]
    sums = [abs(one + other) for one, other in product(*by_scenario)]
    found = compare_by_scenario([PairedTimes(*each) for each in scenarios])
    assert found is not None
    assert found.exact
    assert found.p_value == pytest.approx(sum(each >= seen - 1e-9 for each in sums) / len(sums))
    assert found.shift == pytest.approx((stats_shift(*scenarios[0]) + stats_shift(*scenarios[1])) / 2)


def stats_shift(a: Sequence[float], b: Sequence[float]) -> float:
    return float(np.median(np.subtract.outer(b, a)))


def test_the_interval_of_a_suite_covers_its_shift():
    drawn, runs, missed = random.Random(4), 300, 0
    for _ in range(runs):
        scenarios = [
            (
                [drawn.expovariate(0.05) + at for _ in range(12)],
                [drawn.expovariate(0.05) + at + moved for _ in range(12)],
            )
            for at, moved in ((100.0, -20.0), (300.0, 0.0), (900.0, 50.0))
        ]
        found = compare_by_scenario([PairedTimes(*each) for each in scenarios], quantiles=())
        assert found is not None
        missed += not found.low <= 10 <= found.high
    assert missed <= stats.binom.ppf(0.999, runs, 0.05)


def test_a_scenario_with_too_few_times_leaves_the_suite_without_an_interval():
    times = [([1.0] * 9, [2.0] * 9), ([1.0], [2.0]), ([], [3.0])]
    found = compare_by_scenario([PairedTimes(*each) for each in times])
    assert found is not None
    assert (found.shift, found.low, found.high, found.a_n) == (1.0, None, None, 10)


def test_a_cliff_is_a_little_time_for_much_safety():
    careful, hasty, tiny = target("careful", 0.98, 1000), target("hasty", 0.80, 900), target("tiny", 0.79, 100)
    off = target("off", 0.5, 950)
    unknown = target("unknown", None, 10)
    (cliff,) = cliff_edges([tiny, hasty, off, careful, unknown])
    assert (cliff.slower, cliff.faster) == ("careful", "hasty")
    assert (cliff.time_saved, cliff.safety_lost) == pytest.approx((0.1, 0.18))
    assert isinstance(cliff, Cliff)
    assert cliff_edges([careful, hasty], max_time_saved=0.05) == []
    assert cliff_edges([careful]) == []
    assert cliff_edges([target("a", 1.0, 0.0), target("b", 0.5, 0.0)]) == []
