import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand.judging.comparison import (
    Pair,
    cohens_h,
    compare_rates,
    fisher_drop_p,
    fisher_p,
    holm,
    newcombe_interval,
    pair_up,
    permutation_test,
    step_down_min_p,
    trials_to_tell,
)
from steadyhand.judging.gate import gate_test
from support.late import Late
from support.sides import RATES, draw_pairs, pair

stats = Late("scipy.stats")

steady = settings(derandomize=True, database=None)


@st.composite
def pairs(draw: st.DrawFn, most: int = 40) -> Pair:
    a, b = draw(st.integers(1, most)), draw(st.integers(1, most))
    return pair((draw(st.integers(0, a)), a), (draw(st.integers(0, b)), b))


def test_known_intervals_of_a_difference():
    """Newcombe's own table (1998, method 10): 56/70 against 48/80 and others."""
    assert newcombe_interval(pair((48, 80), (56, 70))) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert newcombe_interval(pair((3, 10), (9, 10))) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    assert newcombe_interval(pair((0, 10), (10, 10))) == pytest.approx((0.6075, 1.0), abs=5e-5)
    assert newcombe_interval(pair((10, 10), (10, 10))) == pytest.approx((-0.2775, 0.2775), abs=5e-5)


@steady
@given(pairs())
def test_a_difference_lies_in_its_interval_and_turns_with_its_sides(seen: Pair):
    low, high = newcombe_interval(seen)
    assert -1 - 1e-12 <= low <= seen.difference <= high <= 1 + 1e-12
    turned = pair((seen.b_passed, seen.b_decided), (seen.a_passed, seen.a_decided))
    assert newcombe_interval(turned) == pytest.approx((-high, -low))


@steady
@given(pairs())
def test_fisher_agrees_with_scipy(seen: Pair):
    table = [
        [seen.a_passed, seen.a_decided - seen.a_passed],
        [seen.b_passed, seen.b_decided - seen.b_passed],
    ]
    assert fisher_p(seen) == pytest.approx(stats.fisher_exact(table).pvalue, rel=1e-7)
    assert fisher_drop_p(seen) == pytest.approx(stats.fisher_exact(table, "greater").pvalue, rel=1e-7)


def test_an_effect_size_behaves_at_zero_variance():
    assert cohens_h(1.0, 1.0) == 0.0
    assert cohens_h(0.0, 1.0) == pytest.approx(math.pi)
    assert cohens_h(0.5, 0.7) == pytest.approx(0.4115, abs=5e-5)


def test_holm_is_the_step_down_of_bonferroni():
    assert holm([]) == []
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.6]) == [1.0, 1.0]


@steady
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_raw_and_bonferroni(raw: list[float]):
    for p, adjusted in zip(raw, holm(raw), strict=True):
        assert p <= adjusted <= min(1.0, p * len(raw)) or adjusted == max(p, adjusted)
    order = sorted(range(len(raw)), key=raw.__getitem__)
    assert [holm(raw)[at] for at in order] == sorted(holm(raw))


def brute_force(seen: list[Pair]) -> tuple[float, float]:
    """Every way to deal the trials of each scenario to the two sides."""
    dealt = []
    for each in seen:
        trials = [1] * (each.a_passed + each.b_passed)
        trials += [0] * (each.a_decided + each.b_decided - len(trials))
        dealt.append(
            [
                sum(trials[at] for at in chosen) / each.b_decided
                - sum(trials[at] for at in range(len(trials)) if at not in chosen) / each.a_decided
                for chosen in map(set, itertools.combinations(range(len(trials)), each.b_decided))
            ]
        )
    sums = [sum(each) for each in itertools.product(*dealt)]
    found = sum(each.difference for each in seen)
    two_sided = sum(abs(each) >= abs(found) - 1e-9 for each in sums) / len(sums)
    return two_sided, sum(each <= found + 1e-9 for each in sums) / len(sums)


@steady
@given(st.lists(pairs(most=3), min_size=1, max_size=3))
def test_the_permutation_test_is_that_of_every_deal(seen: list[Pair]):
    test = permutation_test(seen)
    assert test.exact
    assert (test.two_sided, test.drop) == pytest.approx(brute_force(seen))


@steady
@given(st.lists(pairs(most=12), min_size=1, max_size=6))
def test_drawn_permutations_come_to_the_exact_ones(seen: list[Pair]):
    exact, drawn = permutation_test(seen), permutation_test(seen, exact_steps=0, draws=4000)
    if drawn.exact:
        assert exact.two_sided == 1.0, "nothing to shuffle"
        return
    assert drawn.two_sided == pytest.approx(exact.two_sided, abs=0.04)
    assert drawn.drop == pytest.approx(exact.drop, abs=0.04)
    assert drawn == permutation_test(seen, exact_steps=0, draws=4000), "the seed is fixed"


def test_a_drawn_p_value_is_never_zero():
    drawn = permutation_test([pair((40, 40), (0, 40))], exact_steps=0, draws=4000)
    assert (drawn.exact, drawn.two_sided, drawn.drop) == (False, 1 / 4001, 1 / 4001)


def test_one_scenario_is_fishers_test():
    seen = pair((9, 10), (4, 10))
    assert permutation_test([seen]).drop == pytest.approx(fisher_drop_p(seen))
    assert permutation_test([]).two_sided == 1.0


def test_compared_rates():
    a = {"up": (2, 20), "same": (20, 20), "down": (19, 20), "lost": (1, 1), "out": (0, 0)}
    b = {"up": (18, 20), "same": (20, 20), "down": (12, 20), "new": (1, 1), "out": (5, 5)}
    seen = compare_rates(a, b)
    assert (seen.only_a, seen.only_b, seen.undecided) == (["lost"], ["new"], ["out"])
    up, same, down = seen.scenarios
    assert up.difference == pytest.approx(0.8)
    assert up.p_adjusted == pytest.approx(3 * up.p_value)
    assert (same.difference, same.p_value, same.effect, same.trials_to_tell) == (0.0, 1.0, 0.0, None)
    assert same.low < 0 < same.high, "twenty passes on either side do not prove that nothing changed"
    assert down.difference == pytest.approx(-0.35)
    assert down.low < down.difference < down.high < 0
    assert seen.suite.scenarios == 3
    assert seen.suite.difference == pytest.approx(0.15)
    assert seen.suite.low > 0
    assert seen.suite.exact
    assert seen.suite.p_value == pytest.approx(0.0526, abs=1e-4), "both moved far, in opposite directions"
    assert compare_rates({"x": (1, 1)}, {"y": (1, 1)}).suite is None
    with pytest.raises(ValueError, match="more trials passed"):
        pair((2, 1), (0, 1))


def test_the_suite_interval_covers_the_difference():
    drawn, runs, missed = random.Random(11), 400, 0
    after = tuple(max(rate - 0.1, 0.0) for rate in RATES)
    for _ in range(runs):
        seen = draw_pairs(drawn, RATES, after, 10)
        suite = compare_rates(
            {each.scenario_id: (each.a_passed, each.a_decided) for each in seen},
            {each.scenario_id: (each.b_passed, each.b_decided) for each in seen},
        ).suite
        missed += not suite.low <= -0.1 <= suite.high
    assert missed <= stats.binom.ppf(0.999, runs, 0.05)


@pytest.mark.parametrize(("a", "b"), [((50, 100), (60, 100)), ((90, 100), (50, 100)), ((100, 100), (80, 100))])
def test_the_computed_number_of_trials_detects_the_difference(a: tuple[int, int], b: tuple[int, int]):
    n = trials_to_tell([pair(a, b)])

    def power(n: int) -> float:
        of_a = [stats.binom.pmf(x, n, a[0] / a[1]) for x in range(n + 1)]
        of_b = [stats.binom.pmf(y, n, b[0] / b[1]) for y in range(n + 1)]
        likely = [(x, y) for x in range(n + 1) for y in range(n + 1) if of_a[x] * of_b[y] > 1e-7]
        return sum(of_a[x] * of_b[y] for x, y in likely if fisher_p(pair((x, n), (y, n))) <= 0.05)

    if n < 100:
        assert 0.78 <= power(n) <= 0.9
    else:
        assert n == 408, "Fleiss's table"
    assert trials_to_tell([pair(a, a)]) is None


def test_several_scenarios_need_fewer_trials_each():
    one = pair((90, 100), (80, 100))
    assert trials_to_tell([one] * 10) < trials_to_tell([one]) / 5
    opposite = pair((80, 100), (90, 100))
    assert trials_to_tell([one, opposite]) is None


@steady
@given(st.lists(pairs(most=8), min_size=1, max_size=5))
def test_the_step_down_is_the_chance_of_any_p_value_as_small(seen: list[Pair]):
    raw, adjusted = [fisher_drop_p(each) for each in seen], step_down_min_p(seen)
    smallest = min(raw)
    none_as_small = 1.0
    for each in seen:
        passed = each.a_passed + each.b_passed
        null = stats.hypergeom(each.a_decided + each.b_decided, passed, each.b_decided)
        levels = [(null.pmf(x), null.cdf(x)) for x in range(passed + 1)]
        none_as_small *= 1 - sum(chance for chance, level in levels if level <= smallest * (1 + 1e-7))
    assert min(adjusted) == pytest.approx(1 - none_as_small, abs=1e-9)
    for p, corrected, by_holm in zip(raw, adjusted, holm(raw), strict=True):
        assert p - 1e-9 <= corrected <= by_holm + 1e-9, "never weaker than Holm"


def test_scenarios_that_cannot_drop_cost_nothing():
    hit, idle = pair((10, 10), (3, 10), "hit"), pair((0, 10), (0, 10), "idle")
    assert step_down_min_p([hit, *[idle] * 500])[0] == pytest.approx(fisher_drop_p(hit))


@pytest.mark.no_cover
def test_a_hundred_thousand_trials():
    drawn = random.Random(2)
    a = {f"s{at}": (drawn.randint(30, 50), 50) for at in range(1000)}
    b = {scenario_id: (max(passed - 1, 0), 50) for scenario_id, (passed, _) in a.items()}
    seen = compare_rates(a, b)
    assert seen.suite.difference == pytest.approx(-0.02)
    assert not seen.suite.exact
    assert seen.suite.p_value <= 0.001
    gate = gate_test(pair_up(a, b))
    assert gate.suite_dropped
    assert gate.dropped_scenarios == []
