"""Statistics for the figures of a run: intervals, bounds, percentiles and suite figures.

Pure Python without numpy or scipy, so that importing it costs nothing. `confidence` is two-sided unless a function says
otherwise. Figures are of decided trials; reports show the undecided ones separately.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, TypeAlias

from steadyhand.records.base import Record, doc

Bounds: TypeAlias = tuple[float, float]
Tries: TypeAlias = tuple[int, int]
"""Trials of one scenario: how many passed, of how many that were decided."""
_REACH = 20


# Distributions


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@lru_cache(maxsize=256)
def normal_quantile(p: float) -> float:
    """The x below which a standard normal variable falls with chance `p`, 0 < p < 1."""
    if not 0 < p < 1:
        raise ValueError(f"expected a probability between 0 and 1, got {p}")
    if p > 0.5:
        return -normal_quantile(1 - p)
    # The last bits are those lost in writing 0.975 as 1 - 0.025.
    return round(crossing(lambda x: normal_cdf(x) - p, -40.0, 0.0), 15)


def crossing(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function crosses zero between `low` and `high`, by bisection to the last bit."""
    while low < (middle := low + (high - low) / 2) < high:
        if rising(middle) < 0:
            low = middle
        else:
            high = middle
    return high


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by Lentz's continued fraction."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_cdf(1 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) - log_beta(a, b) - math.log(a)
    tiny = 1e-300
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or tiny)
    total = d
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            c = 1 + step / c or tiny
            d = 1 / (1 + step * d or tiny)
            total *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(log_front) * total


def log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


# One scenario


def wilson_interval(passed: int, decided: int, confidence: float = 0.95) -> Bounds | None:
    """Bounds of a pass rate by Wilson's score; None for no trials. Also correct if none or all passed.

    Assumes independent trials of one scenario, their number fixed beforehand. Covers `confidence` on average over the
    true rate; where it must never be less, use `clopper_pearson_interval`.
    """
    _check_tries(passed, decided)
    if not decided:
        return None
    z = normal_quantile(0.5 + confidence / 2)
    share = passed / decided
    scale = 1 + z * z / decided
    centre = (share + z * z / (2 * decided)) / scale
    reach = z * math.sqrt(share * (1 - share) / decided + z * z / (4 * decided * decided)) / scale
    low = 0.0 if passed == 0 else max(0.0, centre - reach)
    high = 1.0 if passed == decided else min(1.0, centre + reach)
    return low, high


def clopper_pearson_interval(passed: int, decided: int, confidence: float = 0.95) -> Bounds | None:
    """Exact bounds of a pass rate: coverage is at least `confidence` whatever the rate; None for no trials."""
    _check_tries(passed, decided)
    if not decided:
        return None
    tail = (1 - confidence) / 2
    return 1 - _upper_rate(decided - passed, decided, tail), _upper_rate(passed, decided, tail)


def failure_rate_bound(failed: int, decided: int, confidence: float = 0.95) -> float:
    """The failure rate that is not exceeded with one-sided `confidence`, exact (Clopper and Pearson).

    For no failures it is 1 - (1 - confidence)^(1/n), which the rule of three rounds up to 3/n at 95%.
    """
    _check_tries(failed, decided)
    return _upper_rate(failed, decided, 1 - confidence) if decided else 1.0


def trials_for_bound(bound: float, confidence: float = 0.95, *, failures: int = 0) -> int:
    """The fewest trials, no more than `failures` of them failed, that put the failure rate at or below `bound`."""
    if not 0 < bound < 1:
        raise ValueError(f"expected a bound between 0 and 1, got {bound}")
    enough = failures + 1
    while failure_rate_bound(failures, enough, confidence) > bound:
        enough *= 2
    too_few = max(enough // 2, failures)
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if failure_rate_bound(failures, middle, confidence) > bound:
            too_few = middle
        else:
            enough = middle
    return enough


def pass_at_k(passed: int, decided: int, k: int) -> float | None:
    """pass@k: the chance that at least one of `k` trials passes, estimated without bias; None for too few trials.

    Exact combinatorial estimator: the share of all choices of `k` trials that hold a pass.
    """
    _check_tries(passed, decided)
    if k < 1 or decided < k:
        return None
    return 1 - math.comb(decided - passed, k) / math.comb(decided, k)


def pass_hat_k(passed: int, decided: int, k: int) -> float | None:
    """pass^k: the chance that `k` trials all pass, estimated without bias from `decided` of them; None for too few."""
    _check_tries(passed, decided)
    if k < 1 or decided < k:
        return None
    return math.comb(passed, k) / math.comb(decided, k)


def _upper_rate(count: int, n: int, tail: float) -> float:
    """The rate at which `count` or fewer of `n` have the chance `tail`."""
    if count == n:
        return 1.0
    if count == 0:
        return -math.expm1(math.log(tail) / n)
    return crossing(lambda rate: beta_cdf(rate, count + 1, n - count) - (1 - tail), 0.0, 1.0)


def _check_tries(part: int, whole: int) -> None:
    if not 0 <= part <= whole:
        raise ValueError(f"expected a part of the trials, got {part} of {whole}")


# Percentiles


class Percentile(Record):
    """A percentile with its interval, or, with fewer than `needed` values, neither."""

    q: Annotated[float, doc("The quantile, such as 0.95")]
    n: Annotated[int, doc("Number of values")]
    needed: Annotated[int, doc("Minimum number of values for an interval")]
    confidence: Annotated[float, doc("Confidence level that was asked for")]
    value: Annotated[float | None, doc("The percentile; null with too few values")] = None
    low: Annotated[float | None, doc("Lower end of its interval")] = None
    high: Annotated[float | None, doc("Upper end of its interval")] = None
    coverage: Annotated[
        float | None, doc("What the interval covers exactly, at least `confidence`; more for tied values")
    ] = None

    @property
    def refused(self) -> bool:
        return self.n < self.needed


def percentile(values: Iterable[float], q: float, confidence: float = 0.95) -> Percentile:
    """The `q` quantile (0.95 for p95) with a distribution-free interval between two order statistics.

    The ranks are the closest pair whose binomial coverage is at least `confidence`; they depend on the number of values
    alone. Assumes independent draws from one distribution, so use it on one scenario, or on a suite taken as it is. A
    value may be infinite: a trial that never became safe.
    """
    ordered = sorted(values)
    if has_nan(ordered):
        raise ValueError("a percentile of values that are not numbers")
    n, needed = len(ordered), values_for_percentile(q, confidence)
    if n < needed:
        return Percentile(q=q, n=n, needed=needed, confidence=confidence)
    low, high, coverage = _interval_ranks(n, q, confidence)
    return Percentile(
        q=q,
        n=n,
        needed=needed,
        confidence=confidence,
        value=quantile(ordered, q),
        low=ordered[low - 1],
        high=ordered[high - 1],
        coverage=coverage,
    )


def has_nan(values: Sequence[float]) -> bool:
    """Whether one of them is not a number. Their sum, which takes a tenth of the time, says if that has to be asked."""
    return math.isnan(sum(values)) and any(map(math.isnan, values))


def quantile(ordered: Sequence[float], q: float) -> float:
    """The smallest of the sorted values that at least a share `q` of them does not exceed (nearest rank)."""
    # 0.95 * 20 is 19.000000000000004 in some products; that must stay rank 19.
    return ordered[min(max(math.ceil(q * len(ordered) - 1e-9), 1), len(ordered)) - 1]


@lru_cache(maxsize=256)
def values_for_percentile(q: float, confidence: float = 0.95) -> int:
    """The fewest values whose smallest and largest enclose the `q` quantile with `confidence`: 6 at p50, 59 at p95."""
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError(f"expected a quantile and a confidence between 0 and 1, got {q} and {confidence}")
    n = 2
    while 1 - q**n - (1 - q) ** n < confidence - 1e-12:
        n += 1
    return n


@lru_cache(maxsize=1024)
def _interval_ranks(n: int, q: float, confidence: float) -> tuple[int, int, float]:
    """Ranks (from 1) of the two order statistics nearest to each other that cover; the most even of such pairs."""
    log_q, log_p, log_all = math.log(q), math.log1p(-q), math.lgamma(n + 1)
    # Beyond so many standard deviations, nothing changes any sum.
    reach = _REACH * (math.sqrt(n * q * (1 - q)) + 1)
    first, last = max(0, math.floor(n * q - reach)), min(n, math.ceil(n * q + reach))
    below = [0.0]  # below[r - first] is the chance that fewer than r values lie under the quantile
    for k in range(first, last + 1):
        log_chance = log_all - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * log_q + (n - k) * log_p
        below.append(below[-1] + math.exp(log_chance))
    best: tuple[int, float, int, int] | None = None
    high = 2
    for low in range(max(1, first), last):
        high = max(high, low + 1)
        while high < last and below[high - first] - below[low - first] < confidence - 1e-12:
            high += 1
        if below[high - first] - below[low - first] < confidence - 1e-9:
            break
        candidate = (high - low, abs(below[low - first] - (1 - below[high - first])), low, high)
        best = min(best, candidate) if best else candidate
    assert best is not None  # n is at least values_for_percentile
    _, _, low, high = best
    return low, high, below[high - first] - below[low - first]


# Suites


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Bounds | None:
    """Bounds of the mean of a variable in 0..1 from independent draws; None for none.

    Gaffke's bound: the values get Dirichlet(1, ..., 1) weights, as in the Bayesian bootstrap, together with one more
    value at 0 (for the lower bound) or 1 (for the upper). Nothing is assumed of the distribution, so it also holds for
    suites whose scenarios pass always or never, where intervals from the variance collapse. For values of 0 and 1 it is
    the interval of Clopper and Pearson; in general its coverage is a conjecture that no example contradicts.
    """
    if not values:
        return None
    if not all(0 <= value <= 1 for value in values):
        raise ValueError("the mean needs values between 0 and 1")
    tail = (1 - confidence) / 2
    counts = Counter(values)
    return _lower_mean(counts, tail), 1 - _lower_mean(Counter({1 - value: n for value, n in counts.items()}), tail)


def suite_percentile(groups: Iterable[Iterable[float]], q: float, confidence: float = 0.95) -> Percentile:
    """The `q` quantile of a suite's times, each scenario counting once, with an interval over scenarios.

    A time is the quantile if a share `q` of trials takes no longer. The interval holds the times for which the suite's
    share of such trials, by `mean_interval`, may be `q`: trials are clustered by scenario as for the pass rate. `n` and
    `needed` count scenarios; those without a time are left out.
    """
    scenarios = [sorted(group) for group in groups]
    scenarios = [group for group in scenarios if group]
    if any(map(has_nan, scenarios)):
        raise ValueError("a percentile of values that are not numbers")
    n, needed = len(scenarios), scenarios_for_percentile(q, confidence)
    if n < needed:
        return Percentile(q=q, n=n, needed=needed, confidence=confidence)
    times = sorted({value for group in scenarios for value in group})
    tail = (1 - confidence) / 2

    def shares(time: float) -> list[float]:
        return [bisect_right(group, time) / len(group) for group in scenarios]

    def surely_above(time: float) -> bool:
        """Whether a share of more than `q` takes no longer."""
        return _chance_of_mean_below([*shares(time), 0.0], q) < tail

    def surely_below(time: float) -> bool:
        return _chance_of_mean_below([*(1 - share for share in shares(time)), 0.0], 1 - q) < tail

    return Percentile(
        q=q,
        n=n,
        needed=needed,
        confidence=confidence,
        value=_first(times, lambda time: math.fsum(shares(time)) / n >= q - 1e-12),
        low=_first(times, lambda time: not surely_below(time)),
        high=_first(times, surely_above),
    )


@lru_cache(maxsize=256)
def scenarios_for_percentile(q: float, confidence: float = 0.95) -> int:
    """The fewest scenarios whose times bound the `q` quantile of a suite on both sides: 6 at p50, 72 at p95."""
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError(f"expected a quantile and a confidence between 0 and 1, got {q} and {confidence}")
    return math.floor(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q))) + 1


def _first(times: Sequence[float], holds: Callable[[float], bool]) -> float:
    """The first of the sorted times for which it holds, as it does for all later ones and for the last."""
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(times[middle]) else (middle + 1, high)
    return times[low]


def _chance_of_mean_below(values: Sequence[float], t: float) -> float:
    return 1.0 if max(values) <= t else _weighted_mean_below(Counter(values), t)


def _lower_mean(counts: Counter[float], tail: float) -> float:
    """The mean that is exceeded except with the chance `tail`, to 1e-7, by regula falsi with Illinois's halving."""
    if counts.keys() == {0.0}:
        return 0.0
    atoms = counts + Counter({0.0: 1})
    low, high = 0.0, math.fsum(value * n for value, n in counts.items()) / counts.total()
    at_low, at_high = -tail, _weighted_mean_below(atoms, high) - tail
    moved = 0
    while high - low > 1e-7:
        guess = high - at_high * (high - low) / (at_high - at_low)
        # A little inside, so that the far end comes close too.
        guess = min(max(guess, low + 4e-8), high - 4e-8)
        at_guess = _weighted_mean_below(atoms, guess) - tail
        if at_guess < 0:
            low, at_low = guess, at_guess
            at_high /= 2 if moved == -1 else 1
            moved = -1
        else:
            high, at_high = guess, at_guess
            at_low /= 2 if moved == 1 else 1
            moved = 1
    return low


def _weighted_mean_below(atoms: Counter[float], t: float) -> float:
    """The chance that a mean with Dirichlet(1, ..., 1) weights is at most `t`.

    It is the chance that a sum of exponential variables times (value - t) is negative, which Imhof's inversion of the
    characteristic function gives. In log u the integrand is smooth, so the trapezoid rule converges fast.
    """
    weights = [(value - t, n) for value, n in atoms.items() if value != t]
    spread = math.sqrt(math.fsum(n * weight * weight for weight, n in weights))
    # While the integrand is not yet damped away, its angle turns by less than about 4 * sqrt(n) for each 1 in log u.
    step = min(0.125, 1 / math.sqrt(atoms.total()))
    first, last = round(-9 / step), round(30 / step)
    # Below the first step the integrand is proportional to u, so the sum over those steps is a geometric series.
    total = math.fsum(n * weight for weight, n in weights) / spread * math.exp(first * step) / math.expm1(step)
    for at in range(first, last):
        u = math.exp(at * step) / spread
        angle = damping = 0.0
        for weight, n in weights:
            x = weight * u
            angle += n * math.atan(x)
            damping += n * math.log1p(x * x)
        if damping > 80:
            break
        total += math.sin(angle) * math.exp(-damping / 2)
    return 0.5 - step * total / math.pi
