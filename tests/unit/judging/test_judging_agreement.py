"""A judge's agreement with labels, compared with published values, brute force and scipy."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.judging.agreement import Case, agreement, cohens_kappa, kappa_interval, shortfall
from steadyhand.records.config import CalibrationConfig
from support.late import Late

stats = Late("scipy.stats")

COUNTS = st.integers(0, 60)


def cases(both_pass, wrongly_failed, wrongly_passed, both_fail, silent=0):
    return [
        *[Case(label="pass", judged="pass")] * both_pass,
        *[Case(label="pass", judged="fail")] * wrongly_failed,
        *[Case(label="fail", judged="pass")] * wrongly_passed,
        *[Case(label="fail", judged="fail")] * both_fail,
        *[Case(label="fail", judged=None)] * silent,
    ]


def kappa_by_pairs(found):
    """Chance agreement by pairing every label with every judgement, the definition taken literally."""
    labels = [case.label for case in found]
    judged = [case.judged for case in found]
    observed = sum(a == b for a, b in zip(labels, judged, strict=True)) / len(found)
    chance = sum(a == b for a, b in itertools.product(labels, judged)) / len(found) ** 2
    return None if chance == 1 else (observed - chance) / (1 - chance)


def test_the_textbook_example():
    """Two readers of 50 proposals: 20 both yes, 15 both no, 5 and 10 apart. Kappa is 0.4, its interval 0.15 to 0.65."""
    assert cohens_kappa(20, 5, 10, 15) == pytest.approx(0.4)
    assert kappa_interval(20, 5, 10, 15) == pytest.approx((0.15, 0.65), abs=0.005)


def test_the_same_accuracy_at_two_prevalences():
    """60 of 100 agree in both tables, but kappa differs: 0.1304 and 0.2593."""
    assert cohens_kappa(45, 15, 25, 15) == pytest.approx(0.1304, abs=5e-5)
    assert cohens_kappa(25, 35, 5, 35) == pytest.approx(0.2593, abs=5e-5)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_kappa_is_what_pairing_everything_gives(a, b, c, d):
    found = cases(a, b, c, d)
    expected = kappa_by_pairs(found) if found else None
    kappa = cohens_kappa(a, b, c, d)
    assert (kappa is None) == (expected is None)
    if kappa is not None:
        assert kappa == pytest.approx(expected)
        assert -1 <= kappa <= 1


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_the_interval_is_that_of_the_delta_method_done_numerically(a, b, c, d):
    """The variance of a smooth function of multinomial shares, with its gradient from finite differences."""
    bounds = kappa_interval(a, b, c, d)
    if bounds is None:
        return
    n = a + b + c + d
    shares = [count / n for count in (a, b, c, d)]

    def kappa(p):
        rows, columns = (p[0] + p[1], p[2] + p[3]), (p[0] + p[2], p[1] + p[3])
        total = sum(p)
        chance = (rows[0] * columns[0] + rows[1] * columns[1]) / total**2
        return ((p[0] + p[3]) / total - chance) / (1 - chance)

    step = 1e-6
    gradient = []
    for at in range(4):
        up, down = list(shares), list(shares)
        up[at] += step
        down[at] -= step
        gradient.append((kappa(up) - kappa(down)) / (2 * step))
    mean = sum(p * g for p, g in zip(shares, gradient, strict=True))
    variance = (sum(p * g * g for p, g in zip(shares, gradient, strict=True)) - mean**2) / n
    reach = stats.norm.ppf(0.975) * math.sqrt(max(0.0, variance))
    centre = kappa(shares)
    assert bounds == pytest.approx((max(-1, centre - reach), min(1, centre + reach)), abs=2e-4)


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.integers(0, 5))
def test_rates_and_their_exact_intervals(a, b, c, d, silent):
    found = agreement(cases(a, b, c, d, silent))
    assert (found.cases, found.no_judgement) == (a + b + c + d, silent)
    for rate, count, of in (
        (found.accuracy, a + d, a + b + c + d),
        (found.false_pass, c, c + d),
        (found.false_fail, b, a + b),
    ):
        assert (rate.count, rate.of) == (count, of)
        if of == 0:
            assert (rate.rate, rate.low, rate.high) == (None, None, None)
        else:
            exact = stats.binomtest(count, of).proportion_ci(0.95, method="exact")
            assert (rate.rate, rate.low, rate.high) == pytest.approx((count / of, exact.low, exact.high), abs=1e-9)


def test_one_and_the_same_answer_throughout_has_no_kappa():
    found = agreement(cases(30, 0, 0, 0))
    assert (found.kappa, found.kappa_low, found.false_pass.rate) == (None, None, None)


def test_perfect_agreement_has_a_kappa_and_no_interval_that_would_look_certain():
    found = agreement(cases(30, 0, 0, 10))
    assert (found.kappa, found.kappa_low, found.kappa_high) == (1.0, None, None)
    assert found.false_pass.high == pytest.approx(1 - 0.025 ** (1 / 10))


@pytest.mark.parametrize(
    ("counts", "bars", "said"),
    [
        ((30, 0, 0, 10), {}, None),
        ((10, 0, 0, 5), {}, "compared with 15 labels, and `min_labels` is 20"),
        ((20, 5, 10, 15), {"max_false_pass": None}, "kappa is 0.4, and `min_kappa` is 0.6"),
        ((40, 0, 3, 17), {}, "false-pass rate is 0.15, and `max_false_pass` is 0.1"),
        ((40, 8, 0, 20), {"max_false_fail": 0.1}, "false-fail rate is 0.167"),
        ((30, 0, 0, 0), {"min_kappa": None}, "false-pass rate is not known"),
        ((30, 0, 0, 0), {}, "kappa is not known"),
        ((30, 0, 0, 0), {"min_kappa": None, "max_false_pass": None}, None),
    ],
)
def test_the_bars(counts, bars, said):
    """What cannot be known meets no threshold."""
    found = shortfall(agreement(cases(*counts)), CalibrationConfig(**bars))
    assert (found is None) if said is None else (found is not None and said in found), found
