"""Times of two sides compared as distributions, and safety against latency."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise, repeat
from typing import Annotated, NamedTuple

from steadyhand.judging.statistics import Percentile, has_nan, normal_cdf, normal_quantile, percentile
from steadyhand.records.base import Record, doc

_LISTED = 10_000
"""Up to this many pairs of times are listed and sorted; beyond that, ranks are searched for."""
_KEPT = 1_000


class QuantileDifference(Record):
    """A quantile on both sides. `difference` and its bounds are None when either side has too few values."""

    q: Annotated[float, doc("The quantile, such as 0.95")]
    a: Annotated[Percentile, doc("The quantile of A")]
    b: Annotated[Percentile, doc("The quantile of B")]
    difference: Annotated[float | None, doc("B minus A, in milliseconds; null with too few values")] = None
    low: Annotated[float | None, doc("Lower end of its interval")] = None
    high: Annotated[float | None, doc("Upper end of its interval")] = None


class LatencyComparison(Record):
    """How B's times differ from A's. `shift` is None without a finite value on each side; its bounds need enough."""

    a_n: Annotated[int, doc("Number of A's times")]
    b_n: Annotated[int, doc("Number of B's times")]
    p_value: Annotated[float, doc("Two-sided p-value by Mann and Whitney's test")]
    exact: Annotated[bool, doc("Whether the p-value is exact")]
    b_slower: Annotated[
        float, doc("The chance that a time of B's is longer than one of A's in the same scenario, ties counted half")
    ]
    shift: Annotated[
        float | None, doc("Typical difference within a scenario, B minus A, in milliseconds; the mean over scenarios")
    ]
    low: Annotated[float | None, doc("Lower end of its interval")]
    high: Annotated[float | None, doc("Upper end of its interval")]
    quantiles: Annotated[list[QuantileDifference], doc("Quantiles on both sides")]


_Times = Sequence[float]
_Stratum = tuple[_Times, _Times]
"""The times of both sides in one scenario, sorted."""


_Shift = tuple[float, float | None, float | None]


class _Within(NamedTuple):
    """The comparison within one scenario. `shift` is None if a time is infinite."""

    pairs: int
    wins: float
    variance: float
    shift: _Shift | None


class PairedTimes:
    """The times of both sides in one scenario. What was computed of them is kept for the next comparison with them.

    Raises `ValueError` for a time that is not a number.
    """

    def __init__(self, a: Sequence[float], b: Sequence[float]) -> None:
        if has_nan(a) or has_nan(b):
            raise ValueError("a comparison of times that are not numbers")
        self.a: Sequence[float] = a
        self.b: Sequence[float] = b
        self._within: dict[float, _Within] = {}

    def sorted(self) -> _Stratum:
        return sorted(self.a), sorted(self.b)

    def within(self, confidence: float) -> _Within:
        if confidence not in self._within:
            x, y = self.sorted()
            wins = (sum(map(bisect_left, repeat(x), y)) + sum(map(bisect_right, repeat(x), y))) / 2
            shift = _shift(x, y, confidence) if math.isfinite(x[-1]) and math.isfinite(y[-1]) else None
            self._within[confidence] = _Within(len(x) * len(y), wins, _rank_sum_variance(x, y), shift)
        return self._within[confidence]


def compare_latencies(
    a: Iterable[float],
    b: Iterable[float],
    *,
    confidence: float = 0.95,
    quantiles: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
) -> LatencyComparison | None:
    """Two samples of times; None when one is empty. As `compare_by_scenario` with one scenario."""
    return compare_by_scenario([PairedTimes(list(a), list(b))], confidence=confidence, quantiles=quantiles)


def compare_by_scenario(
    scenarios: Iterable[PairedTimes],
    *,
    confidence: float = 0.95,
    quantiles: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
) -> LatencyComparison | None:
    """Times of two sides: Mann and Whitney's test, Hodges and Lehmann's shift, quantiles; None without any pair.

    Independent values on each side. A time is compared only with times of its own scenario, and the shift is the mean
    of the scenarios' shifts, each of which is the median of all differences. The test is exact, ties included, up to 20
    values together; beyond, normal with corrections for ties and continuity. A scenario's interval inverts the test and
    reads as a shift if both distributions have one shape; intervals are combined by MOVER. With more than a thousand
    times on a side, a thousand quantiles stand for them in the shift: its rank, and those of its bounds, are off by at
    most a thousandth of the pairs for each such side. A time may be infinite (never safe): then there is no shift. The
    quantiles are those of all scenarios together.
    """
    strata = [each for each in scenarios if each.a and each.b]
    if not strata:
        return None
    a_n, b_n = sum(len(each.a) for each in strata), sum(len(each.b) for each in strata)
    found = [each.within(confidence) for each in strata]
    wins = math.fsum(each.wins for each in found)
    pairs = sum(each.pairs for each in found)
    exact = a_n + b_n <= 20
    shifts = [each.shift for each in found if each.shift is not None]
    shift, low, high = _mean_shift(shifts) if len(shifts) == len(strata) else (None,) * 3
    return LatencyComparison(
        a_n=a_n,
        b_n=b_n,
        p_value=_rank_sum_exact([each.sorted() for each in strata]) if exact else _rank_sum_normal(found),
        exact=exact,
        b_slower=wins / pairs,
        shift=shift,
        low=low,
        high=high,
        quantiles=_quantile_differences(strata, quantiles, confidence),
    )


def _mean_shift(shifts: Sequence[_Shift]) -> _Shift:
    mean = math.fsum(each for each, _, _ in shifts) / len(shifts)
    below = [each - low for each, low, _ in shifts if low is not None]
    above = [high - each for each, _, high in shifts if high is not None]
    if len(below) < len(shifts) or len(above) < len(shifts):
        return mean, None, None
    return mean, mean - math.hypot(*below) / len(shifts), mean + math.hypot(*above) / len(shifts)


def _rank_sum_normal(scenarios: Sequence[_Within]) -> float:
    expected = math.fsum(each.pairs for each in scenarios) / 2
    variance = math.fsum(each.variance for each in scenarios)
    if variance <= 0:
        return 1.0
    wins = math.fsum(each.wins for each in scenarios)
    return min(1.0, 2 * normal_cdf(-max(abs(wins - expected) - 0.5, 0.0) / math.sqrt(variance)))


def _rank_sum_variance(x: _Times, y: _Times) -> float:
    n, m = len(x), len(y)
    if n + m < 2:
        return 0.0
    ties = sum(times**3 - times for times in Counter(chain(x, y)).values() if times > 1)
    return n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)))


def _rank_sum_exact(strata: Sequence[_Stratum]) -> float:
    """By the sums of the scenarios' ranks under every permutation within the scenarios."""
    counts: dict[int, int] = {0: 1}
    seen, middle, ways = 0, 0, 1
    for x, y in strata:
        both = sorted((*x, *y))
        # Twice the mean rank of a value among ties, so that it is whole.
        ranks = [bisect_left(both, value) + bisect_right(both, value) + 1 for value in both]
        seen += sum(bisect_left(both, value) + bisect_right(both, value) + 1 for value in y)
        middle += len(y) * (len(both) + 1)
        ways *= math.comb(len(both), len(y))
        so_far, counts = counts, dict[int, int]()
        for rank_sum, count in _rank_sums(tuple(ranks), len(y)).items():
            for total, times in so_far.items():
                counts[total + rank_sum] = counts.get(total + rank_sum, 0) + times * count
    return sum(count for total, count in counts.items() if abs(total - middle) >= abs(seen - middle)) / ways


@lru_cache(maxsize=256)
def _rank_sums(ranks: tuple[int, ...], size: int) -> dict[int, int]:
    """How many choices of `size` of the ranks come to each sum."""
    by_size: list[dict[int, int]] = [{0: 1}] + [{} for _ in range(size)]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            into = by_size[chosen]
            for total, count in by_size[chosen - 1].items():
                into[total + rank] = into.get(total + rank, 0) + count
    return by_size[size]


def _shift(x: _Times, y: _Times, confidence: float) -> _Shift:
    pairs = len(x) * len(y)
    rank = _bound_rank(len(x), len(y), 1 - confidence)
    bounds = (rank, pairs + 1 - rank) if rank >= 1 else ()
    if pairs > _LISTED:
        x, y = _thinned(x), _thinned(y)
        share = len(x) * len(y) / pairs
        ranks = [max(1, round(each * share)) for each in ((pairs + 1) // 2, *bounds)]
        thin = sorted(late - early for late in y[:: len(y) // 100 + 1] for early in x[:: len(x) // 100 + 1])
        median, *found = (_search_difference(x, y, each, thin) for each in ranks)
    else:
        every = sorted(late - early for late in y for early in x)
        median = (every[(pairs - 1) // 2] + every[pairs // 2]) / 2
        found = [every[each - 1] for each in bounds]
    low, high = found or (None, None)
    return median, low, high


def _thinned(values: _Times) -> _Times:
    """The middles of a thousand equal parts, if there are more values than that."""
    n = len(values)
    return values if n <= _KEPT else [values[(2 * at + 1) * n // (2 * _KEPT)] for at in range(_KEPT)]


def _bound_rank(n: int, m: int, alpha: float) -> int:
    """The rank, from 1, of the difference that bounds the shift (Moses); 0 when there are too few values."""
    if n + m > 20:
        return math.floor(n * m / 2 - normal_quantile(1 - alpha / 2) * math.sqrt(n * m * (n + m + 1) / 12))
    counts = _rank_sums(tuple(range(1, n + m + 1)), m)
    least, tail, rank = m * (m + 1) // 2, 0, 0
    while (tail := tail + counts.get(least + rank, 0)) <= alpha / 2 * math.comb(n + m, m):
        rank += 1
    return rank


def _search_difference(x: Sequence[float], y: Sequence[float], rank: int, thin: Sequence[float]) -> float:
    """The difference of that rank among all `y - x` of two sorted samples, without listing them.

    Bisection and interpolation on how many differences are at most a guess, to a hundred thousandth of the pairs, from
    a bracket that `thin` gives: the differences of a hundred quantiles of each sample, in order.
    """
    pairs = len(x) * len(y)
    early, late = Counter(x), Counter(y)
    late_values, late_totals = list(late), list(accumulate(late.values(), initial=0))
    nearest = -math.inf

    def surplus(difference: float) -> int:
        nonlocal nearest
        at = count = 0
        nearest = -math.inf
        for value, times in early.items():
            bar = value + difference
            while at < len(late_values) and late_values[at] <= bar:
                at += 1
            if at:
                count += times * late_totals[at]
                nearest = max(nearest, late_values[at - 1] - value)
        return count - rank

    ends = [(y[0] - x[-1], -rank), (y[-1] - x[0], pairs - rank)]
    for side in (-0.01, 0.01):
        guess = thin[min(max(round((rank / pairs + side) * len(thin)), 0), len(thin) - 1)]
        ends.append((guess, surplus(guess)))
    low, below = max(end for end in ends if end[1] < 0)
    high, above = min(end for end in ends if end[1] >= 0)
    close, turn = (high - low) * 1e-9, 0
    while high - low > close and above > pairs * 1e-5:
        guess = low + (high - low) * (0.5 if turn % 3 == 2 else -below / (above - below))
        turn += 1
        if (found := surplus(guess)) >= 0:
            high, above = guess, found
        else:
            low, below = guess, found
    surplus(high)
    return nearest


def _quantile_differences(
    scenarios: Sequence[PairedTimes], quantiles: Sequence[float], confidence: float
) -> list[QuantileDifference]:
    if not quantiles:
        return []
    x = sorted(chain.from_iterable(each.a for each in scenarios))
    y = sorted(chain.from_iterable(each.b for each in scenarios))
    return [_quantile_difference(x, y, q, confidence) for q in quantiles]


def _quantile_difference(x: Sequence[float], y: Sequence[float], q: float, confidence: float) -> QuantileDifference:
    """Bounds by MOVER from the order-statistic intervals of both sides."""
    a, b = percentile(x, q, confidence), percentile(y, q, confidence)
    if a.value is None or a.low is None or a.high is None or b.value is None or b.low is None or b.high is None:
        return QuantileDifference(q=q, a=a, b=b)
    if not math.isfinite(a.value) or not math.isfinite(b.value):
        return QuantileDifference(q=q, a=a, b=b)
    difference = b.value - a.value
    return QuantileDifference(
        q=q,
        a=a,
        b=b,
        difference=difference,
        low=difference - math.hypot(b.value - b.low, a.high - a.value),
        high=difference + math.hypot(b.high - b.value, a.value - a.low),
    )


# Trade-offs


class ComparedTarget(Record):
    """One target's position: safety (more is better) and latency (less is better); None if unknown."""

    name: str
    safety: float | None
    latency_ms: float | None


class Cliff(Record):
    """Going from `slower` to `faster` saves little time and costs much safety."""

    slower: Annotated[str, doc("The slower side")]
    faster: Annotated[str, doc("The faster side")]
    time_saved: Annotated[float, doc("Time saved, as a share of the slower side's latency")]
    safety_lost: Annotated[float, doc("Safety lost by the faster side")]


def cliff_edges(targets: Sequence[ComparedTarget], *, max_time_saved: float = 0.2) -> list[Cliff]:
    """Steps along the front of safety against latency that save at most `max_time_saved` and lose at least 0.05.

    Targets without a safety or a latency are left out.
    """
    known = [
        (each.latency_ms, each.safety, each.name)
        for each in targets
        if each.latency_ms is not None and each.safety is not None
    ]
    front: list[tuple[float, float, str]] = []
    for each in sorted(known, key=lambda one: (one[0], -one[1])):
        if not front or each[1] > front[-1][1]:
            front.append(each)
    found: list[Cliff] = []
    for (fast_ms, fast_safety, faster), (slow_ms, slow_safety, slower) in pairwise(front):
        saved, lost = (slow_ms - fast_ms) / slow_ms, slow_safety - fast_safety
        if saved <= max_time_saved + 1e-12 and lost >= 0.05 - 1e-12:
            found.append(Cliff(slower=slower, faster=faster, time_saved=saved, safety_lost=lost))
    return found
