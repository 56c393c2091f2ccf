"""Is B better than A? The pass rates of two runs or targets, paired by scenario, and the tests of their differences.

The scenarios of a comparison are fixed: both sides ran the same ones, and the question is about them. The tests
therefore permute trials within a scenario, never scenarios. Trials of one scenario and side are assumed to be
independent. Everything here works on counts per scenario; a difference is always B minus A.
"""

from __future__ import annotations

import math
import operator
import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Self

from steadyhand.judging.statistics import (
    Bounds,
    Tries,
    normal_quantile,
    wilson_interval,
)
from steadyhand.records.base import Record, doc

_SLACK = 1 + 1e-9
"""Outcomes whose chances differ only by rounding are equally likely."""


class Pair(Record):
    """One scenario on both sides: how many trials passed, of how many that were decided."""

    scenario_id: Annotated[str, doc("The scenario")]
    a_passed: Annotated[int, doc("Number of A's trials that passed")]
    a_decided: Annotated[int, doc("Number of A's trials that passed or failed")]
    b_passed: Annotated[int, doc("Number of B's trials that passed")]
    b_decided: Annotated[int, doc("Number of B's trials that passed or failed")]

    @classmethod
    def of(cls, scenario_id: str, a: Tries, b: Tries) -> Self:
        return cls(scenario_id=scenario_id, a_passed=a[0], a_decided=a[1], b_passed=b[0], b_decided=b[1])

    def __post_init__(self) -> None:
        if not (0 <= self.a_passed <= self.a_decided and 0 <= self.b_passed <= self.b_decided):
            raise ValueError(f"{self.scenario_id}: more trials passed than were decided")

    @property
    def comparable(self) -> bool:
        return self.a_decided > 0 and self.b_decided > 0

    @property
    def difference(self) -> float:
        return self.b_passed / self.b_decided - self.a_passed / self.a_decided


class ScenarioDifference(Record):
    """How one scenario changed. `p_value` is two-sided by Fisher; `p_adjusted` is it after Holm's correction."""

    pair: Annotated[Pair, doc("The counts")]
    difference: Annotated[float, doc("Pass rate of B minus that of A")]
    low: Annotated[float, doc("Lower end of its interval")]
    high: Annotated[float, doc("Upper end of its interval")]
    effect: Annotated[float, doc("Cohen's h: 0.2 is small, 0.5 medium, 0.8 large")]
    p_value: Annotated[float, doc("Two-sided p-value by Fisher's exact test")]
    p_adjusted: Annotated[float, doc("p-value after Holm's correction")]
    trials_to_tell: Annotated[
        int | None, doc("Trials per side needed to detect a difference of this size; null if no difference was seen")
    ]


class SuiteDifference(Record):
    """The mean of the scenarios' differences, each scenario counting once.

    The interval is about that mean; `p_value` asks whether anything differs at all, and uses the mean to tell. Where
    scenarios moved far in opposite directions, the interval can exclude zero before the p-value is small.
    """

    scenarios: Annotated[int, doc("Number of scenarios")]
    difference: Annotated[float, doc("Mean of the scenarios' differences")]
    low: Annotated[float, doc("Lower end of its interval")]
    high: Annotated[float, doc("Upper end of its interval")]
    p_value: Annotated[float, doc("Two-sided p-value by permutation")]
    exact: Annotated[bool, doc("False when the test drew permutations; their seed is fixed")]
    trials_to_tell: Annotated[int | None, doc("Trials per scenario and side")]


class RateComparison(Record):
    """`suite` is None when nothing could be paired."""

    scenarios: Annotated[list[ScenarioDifference], doc("Each paired scenario")]
    suite: Annotated[SuiteDifference | None, doc("All of them together; null when nothing could be paired")]
    only_a: Annotated[list[str], doc("Scenarios that only A has")] = []
    only_b: Annotated[list[str], doc("Scenarios that only B has")] = []
    undecided: Annotated[list[str], doc("Scenarios on both sides where one side has no decided trial")] = []


def pair_up(a: Mapping[str, Tries], b: Mapping[str, Tries]) -> list[Pair]:
    """The scenarios that both sides have, in the order of A."""
    return [Pair.of(each, a[each], b[each]) for each in a if each in b]


def compare_rates(a: Mapping[str, Tries], b: Mapping[str, Tries], *, confidence: float = 0.95) -> RateComparison:
    """Pass rates of two sides by scenario and as a suite. What cannot be paired is listed, never silently dropped."""
    pairs = pair_up(a, b)
    usable = [pair for pair in pairs if pair.comparable]
    alpha = 1 - confidence
    p_values = [fisher_p(pair) for pair in usable]
    bounds = [newcombe_interval(pair, confidence) for pair in usable]
    scenarios = [
        ScenarioDifference(
            pair=pair,
            difference=pair.difference,
            low=low,
            high=high,
            effect=cohens_h(pair.a_passed / pair.a_decided, pair.b_passed / pair.b_decided),
            p_value=p_value,
            p_adjusted=p_adjusted,
            trials_to_tell=trials_to_tell([pair], alpha=alpha),
        )
        for pair, (low, high), p_value, p_adjusted in zip(usable, bounds, p_values, holm(p_values), strict=True)
    ]
    return RateComparison(
        scenarios=scenarios,
        suite=_suite(usable, bounds, alpha) if usable else None,
        only_a=[each for each in a if each not in b],
        only_b=[each for each in b if each not in a],
        undecided=[pair.scenario_id for pair in pairs if not pair.comparable],
    )


def _suite(pairs: Sequence[Pair], bounds: Sequence[Bounds], alpha: float) -> SuiteDifference:
    """The interval is MOVER (Zou and Donner): the reach of each scenario's Newcombe bounds, added in quadrature.

    It never has zero width, which an interval from the observed variance has when every trial passed.
    """
    k = len(pairs)
    difference = math.fsum(pair.difference for pair in pairs) / k
    down = math.sqrt(math.fsum((pair.difference - low) ** 2 for pair, (low, _) in zip(pairs, bounds, strict=True))) / k
    up = math.sqrt(math.fsum((high - pair.difference) ** 2 for pair, (_, high) in zip(pairs, bounds, strict=True))) / k
    test = permutation_test(pairs)
    return SuiteDifference(
        scenarios=k,
        difference=difference,
        low=max(-1.0, difference - down),
        high=min(1.0, difference + up),
        p_value=test.two_sided,
        exact=test.exact,
        trials_to_tell=trials_to_tell(pairs, alpha=alpha),
    )


def newcombe_interval(pair: Pair, confidence: float = 0.95) -> Bounds:
    """Bounds of the difference of two independent rates: Newcombe's hybrid of Wilson's intervals (his method 10)."""
    a, b = pair.a_passed / pair.a_decided, pair.b_passed / pair.b_decided
    of_a = wilson_interval(pair.a_passed, pair.a_decided, confidence)
    of_b = wilson_interval(pair.b_passed, pair.b_decided, confidence)
    assert of_a is not None
    assert of_b is not None
    return b - a - math.hypot(b - of_b[0], of_a[1] - a), b - a + math.hypot(of_b[1] - b, a - of_a[0])


def cohens_h(a: float, b: float) -> float:
    """Effect size of the change from rate `a` to rate `b`: a difference of arcsines, finite also at 0 and 1."""
    return 2 * math.asin(math.sqrt(b)) - 2 * math.asin(math.sqrt(a))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: p-values that hold the family-wise error rate whatever their dependence."""
    adjusted, floor = [1.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, p_values[at] * (len(p_values) - rank)))
        adjusted[at] = floor
    return adjusted


def trials_to_tell(pairs: Sequence[Pair], *, alpha: float = 0.05) -> int | None:
    """Trials per scenario and side needed to detect the observed mean difference with a chance of 0.8, two-sided; None
    if there is no difference.

    The normal approximation with Fleiss's continuity correction, which fits Fisher's test for one scenario and the
    permutation test for several. An observed difference is a guess at the true one, so this is too.
    """
    total = abs(math.fsum(pair.difference for pair in pairs))
    if total < 1e-9:
        return None
    null = other = 0.0
    for pair in pairs:
        a, b = pair.a_passed / pair.a_decided, pair.b_passed / pair.b_decided
        null += (a + b) * (1 - (a + b) / 2)
        other += a * (1 - a) + b * (1 - b)
    z_alpha, z_power = normal_quantile(1 - alpha / 2), normal_quantile(0.8)
    n = (z_alpha * math.sqrt(null) + z_power * math.sqrt(other)) ** 2 / (total * total)
    return math.ceil(n / 4 * (1 + math.sqrt(1 + 4 / (n * total))) ** 2)


# Exact tests


def fisher_p(pair: Pair) -> float:
    """Two-sided p-value of Fisher's exact test that both sides have one rate.

    Fisher's and not Barnard's: it is exact at any size without a search over a nuisance rate, and given the margins its
    null distribution is known, so that scenarios can be combined exactly. It is somewhat conservative for few trials.
    """
    chances = _null_chances(pair.a_decided, pair.b_decided, pair.a_passed + pair.b_passed)
    bar = chances[pair.b_passed - _least_b(pair)] * _SLACK
    return min(1.0, math.fsum(chance for chance in chances if chance <= bar))


def fisher_drop_p(pair: Pair) -> float:
    """One-sided p-value of Fisher's exact test that B's rate is not below A's."""
    chances = _null_chances(pair.a_decided, pair.b_decided, pair.a_passed + pair.b_passed)
    return min(1.0, math.fsum(chances[: pair.b_passed - _least_b(pair) + 1]))


def _least_b(pair: Pair) -> int:
    """The fewest passes B can have, given how many both sides have together."""
    return max(0, pair.a_passed + pair.b_passed - pair.a_decided)


@lru_cache(maxsize=4096)
def _null_chances(a_decided: int, b_decided: int, passed: int) -> tuple[float, ...]:
    """Chances of B's passes from the fewest possible to the most, given the margins: hypergeometric."""
    least, most = max(0, passed - a_decided), min(passed, b_decided)
    logs = [_log_choose(b_decided, x) + _log_choose(a_decided, passed - x) for x in range(least, most + 1)]
    top = max(logs)
    weights = [math.exp(each - top) for each in logs]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


class PermutationTest(Record):
    """P-values of the sum of the scenarios' differences. `drop` is one-sided: B is worse."""

    two_sided: float
    drop: float
    exact: bool


def permutation_test(
    pairs: Sequence[Pair], *, seed: int = 0, draws: int = 20_000, exact_steps: int = 1_000_000
) -> PermutationTest:
    """Whether the two sides pass alike in every scenario, by shuffling the trials of each scenario between the sides.

    Exact for any number of trials: the null distribution of the sum is convolved scenario by scenario. When that takes
    more than `exact_steps` steps (many scenarios with unlike numbers of trials), permutations are drawn with a fixed
    seed instead, and p is (hits + 1) / (draws + 1), which keeps the level.
    """
    moving, scenarios, seen = _lattice(pairs)
    if not moving:
        return PermutationTest(two_sided=1.0, drop=1.0, exact=True)
    null = _convolve(scenarios, exact_steps)
    if null is not None:
        drop = math.fsum(chance for total, chance in null.items() if total <= seen)
        both = math.fsum(chance for total, chance in null.items() if abs(total) >= abs(seen))
        return PermutationTest(two_sided=min(1.0, both), drop=min(1.0, drop), exact=True)
    return _draw(scenarios, seen, seed, max(1000, min(draws, 2_000_000 // len(scenarios))))


_Lattice = list[tuple[tuple[float, ...], int, int]]
"""For each scenario the chances of its outcomes under the null, the step between them, and the first."""


def _lattice(pairs: Sequence[Pair]) -> tuple[list[Pair], _Lattice, int]:
    """The scenarios that shuffling can change, the outcomes of each, and the sum that was seen.

    A scenario that all or no trials passed is the same however they are shuffled.
    """
    moving = [pair for pair in pairs if 0 < pair.a_passed + pair.b_passed < pair.a_decided + pair.b_decided]
    unit = math.lcm(*(pair.a_decided for pair in moving), *(pair.b_decided for pair in moving))
    # In whole units, so that equal sums are equal: B's share as it is, less what is expected of it under the null.
    scenarios = [
        (
            _null_chances(pair.a_decided, pair.b_decided, pair.a_passed + pair.b_passed),
            unit // pair.a_decided + unit // pair.b_decided,
            unit // pair.b_decided * _least_b(pair)
            - unit // pair.a_decided * (pair.a_passed + pair.b_passed - _least_b(pair)),
        )
        for pair in moving
    ]
    seen = sum(unit // pair.b_decided * pair.b_passed - unit // pair.a_decided * pair.a_passed for pair in moving)
    return moving, scenarios, seen


def _convolve(scenarios: _Lattice, most_steps: int) -> dict[int, float] | None:
    """The distribution of the sum, or None when it takes too many steps."""
    ordered = sorted(scenarios, key=lambda each: (each[1], len(each[0])))
    alike = sum(step == ordered[0][1] for _, step, _ in ordered)
    dense, steps = [1.0], 0
    for chances, _, _ in ordered[:alike]:  # their sums are one step apart, which a list adds up faster than a dict
        steps += len(dense) * len(chances)
        if steps > most_steps:
            return None
        dense = _multiplied(dense, chances)
    lowest = sum(start for _, _, start in ordered[:alike])
    null = {lowest + ordered[0][1] * at: chance for at, chance in enumerate(dense)}
    for chances, step, start in ordered[alike:]:
        steps += len(null) * len(chances)
        if steps > most_steps:
            return None
        shifts = [(start + step * at, chance) for at, chance in enumerate(chances)]
        wider: dict[int, float] = {}
        for total, weight in null.items():
            for shift, chance in shifts:
                at = total + shift
                wider[at] = wider.get(at, 0.0) + weight * chance
        null = wider
    return null


def _multiplied(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """The coefficients of the product of two polynomials."""
    few, many = sorted((a, b), key=len)
    product = [0.0] * (len(a) + len(b) - 1)
    for at, factor in enumerate(few):
        product[at : at + len(many)] = [
            so_far + factor * each for so_far, each in zip(product[at : at + len(many)], many, strict=True)
        ]
    return product


def _draw(scenarios: _Lattice, seen: int, seed: int, draws: int) -> PermutationTest:
    drawn = random.Random(seed)  # noqa: S311 -- a reproducible draw, not a secret
    totals = [0] * draws
    for chances, step, start in scenarios:
        values = [start + step * at for at in range(len(chances))]
        totals = list(map(operator.add, totals, drawn.choices(values, weights=chances, k=draws)))
    drop = sum(total <= seen for total in totals)
    both = sum(abs(total) >= abs(seen) for total in totals)
    return PermutationTest(two_sided=(both + 1) / (draws + 1), drop=(drop + 1) / (draws + 1), exact=False)


def step_down_min_p(pairs: Sequence[Pair]) -> list[float]:
    """One-sided Fisher p-values adjusted for many scenarios: the discrete step-down min-p of Westfall and Wolfinger.

    Scenarios are independent, and given its margins each has a known set of p-values it can take, so the chance that
    any is as small as the one seen is known too. A scenario that cannot drop significantly costs the others nothing,
    where Bonferroni and Holm charge for it.
    """
    p_values = [fisher_drop_p(pair) for pair in pairs]
    order = sorted(range(len(pairs)), key=p_values.__getitem__)
    attainable = [_attainable(pair) for pair in pairs]
    adjusted, floor = [1.0] * len(pairs), 0.0
    for rank, at in enumerate(order):
        none_as_small = 0.0
        for other in order[rank:]:
            levels = attainable[other]
            fit = bisect_right(levels, p_values[at] * _SLACK)
            if fit:
                none_as_small += math.log1p(-min(levels[fit - 1], 1 - 1e-16))
        floor = max(floor, -math.expm1(none_as_small))
        adjusted[at] = floor
        if floor >= 1 - 1e-12:
            break
    return adjusted


def _attainable(pair: Pair) -> list[float]:
    """The p-values that `fisher_drop_p` can take under the null, ascending. Each is also the chance of one as small."""
    total, levels = 0.0, list[float]()
    for chance in _null_chances(pair.a_decided, pair.b_decided, pair.a_passed + pair.b_passed):
        total += chance
        levels.append(min(total, 1.0))
    return levels


def either_as_small(pairs: Sequence[Pair], level: float, *, exact_steps: int = 1_000_000) -> float:
    """The chance under the null that the p-value of the suite, or the smallest adjusted one of a scenario, is at most
    `level`.

    `permutation_test` and `step_down_min_p` read the same trials: their chances overlap, and neither can take just any
    value. Both are counted here, so this is less than twice `level`. It is at most that sum where the distribution is
    too wide to be counted.
    """
    moving, scenarios, _ = _lattice(pairs)
    limit, chance = _scenarios_within([_attainable(pair) for pair in moving], level)
    null = _convolve(scenarios, exact_steps) if moving else {}
    if null is None:
        return min(1.0, level + chance)
    threshold, reached = -math.inf, 0.0
    for total in sorted(null):
        reached += null[total]
        if reached > level * _SLACK:
            break
        threshold = total
    unremarkable = [
        (
            tuple(
                0.0 if at < bisect_right(_attainable(pair), limit * _SLACK) else each for at, each in enumerate(chances)
            ),
            step,
            start,
        )
        for pair, (chances, step, start) in zip(moving, scenarios, strict=True)
    ]
    neither = _convolve(unremarkable, exact_steps) if moving else {0: 1.0}
    return 1.0 - math.fsum(each for total, each in (neither or {}).items() if total > threshold)


def _scenarios_within(attainable: Sequence[Sequence[float]], level: float) -> tuple[float, float]:
    """The largest p-value such that the chance of a scenario with one as small is at most `level`, and that chance."""

    def chance(limit: float) -> float:
        fits = ((levels, bisect_right(levels, limit * _SLACK)) for levels in attainable)
        return -math.expm1(sum(math.log1p(-min(levels[fit - 1], 1 - 1e-16)) for levels, fit in fits if fit))

    limits = sorted({each for levels in attainable for each in levels if each <= level * _SLACK})
    fit = bisect_right(limits, level * _SLACK, key=chance)
    return (limits[fit - 1], chance(limits[fit - 1])) if fit else (0.0, 0.0)
