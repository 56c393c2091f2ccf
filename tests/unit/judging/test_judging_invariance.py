"""Variants: the three answers, how often they are wrong, and that the planned number of trials suffices."""

import random

import pytest

from steadyhand.judging.invariance import (
    find_variants,
    mcnemar_p,
    paired_interval,
    trials_to_tell,
    with_variants,
)
from steadyhand.judging.rates import scenario_rates
from steadyhand.records.evaluation import Verdict
from steadyhand.records.scenario import VariantOrigin

PASSED, FAILED = Verdict.PASSED, Verdict.FAILED


def origin(original, kind="same", shown="person", margin=0.1):
    return VariantOrigin(shown=shown, kind=kind, original=original, base_id=original, margin=margin)


def rates_of(verdicts, required=None):
    counts = {
        (name, verdict): list(found.values()).count(verdict) for name, found in verdicts.items() for verdict in Verdict
    }
    return scenario_rates(counts, planned={name: len(found) for name, found in verdicts.items()}, required=required)


def judged(origins, verdicts, required=None):
    rates = rates_of(verdicts, required)
    found = find_variants(origins, {}, verdicts, rates)
    return found, {rate.scenario_id: rate.verdict for rate in with_variants(rates, found)}


def numbered(verdicts):
    return dict(enumerate(verdicts))


def drawn(draw, rate, trials):
    return numbered(PASSED if draw.random() < rate else FAILED for _ in range(trials))


def one(pairs, required=0.8, kind="same"):
    """The finding of a single variant, and the variant's verdict."""
    first, second = zip(*pairs, strict=True)
    origins = {"S[person]": origin("S", kind)}
    needed = {"S": required, "S[person]": required} if required else None
    found, verdicts = judged(origins, {"S": numbered(first), "S[person]": numbered(second)}, needed)
    return (found.same or found.changes)[0], verdicts["S[person]"]


SAME, LOST, WON = (PASSED, PASSED), (PASSED, FAILED), (FAILED, PASSED)


def test_what_does_not_move_is_invariant_once_there_are_enough_trials():
    found, verdict = one([SAME] * 20)
    assert (found.answer, verdict) == ("cannot_tell", Verdict.INCONCLUSIVE)
    assert found.trials_needed > 20
    found, verdict = one([SAME] * found.trials_needed)
    assert (found.answer, verdict, found.trials_needed) == ("invariant", PASSED, None)


def test_what_moves_fails():
    found, verdict = one([SAME] * 30 + [LOST] * 12)
    assert (found.answer, verdict) == ("not_invariant", FAILED)
    assert found.difference == pytest.approx(-12 / 42)
    assert found.scenarios[0].differing == tuple(range(30, 42))


def test_a_single_pair_tells_nothing():
    found, verdict = one([LOST])
    assert (found.answer, verdict) == ("cannot_tell", Verdict.INCONCLUSIVE)


def test_where_every_trial_must_pass_one_that_failed_is_a_failure_in_a_variant_too():
    found, verdict = one([SAME] * 300 + [LOST], required=None)
    assert (found.answer, verdict) == ("invariant", FAILED)


def test_what_is_missing_is_held_against_the_variant_before_it_is_called_invariant():
    missing = (PASSED, Verdict.ERROR)
    assert one([SAME] * 150 + [missing] * 2)[0].answer == "invariant"
    found, verdict = one([SAME] * 150 + [missing] * 20)
    assert (found.answer, found.missing, verdict) == ("cannot_tell", 20, Verdict.INCONCLUSIVE)


def test_scenarios_that_move_in_opposite_directions_are_not_invariant():
    trials = 40
    verdicts = {
        "A": numbered([PASSED] * trials),
        "A[person]": numbered([FAILED] * trials),
        "B": numbered([FAILED] * trials),
        "B[person]": numbered([PASSED] * trials),
    }
    found, _ = judged({"A[person]": origin("A"), "B[person]": origin("B")}, verdicts)
    assert found.same[0].difference == 0
    assert found.same[0].answer == "not_invariant"


def test_one_scenario_of_many_that_moves_is_found():
    verdicts, origins = {}, {}
    for number in range(30):
        verdicts[f"S{number}"] = numbered([PASSED] * 20)
        verdicts[f"S{number}[person]"] = numbered([FAILED if number == 7 else PASSED] * 20)
        origins[f"S{number}[person]"] = origin(f"S{number}")
    found, verdict = judged(origins, verdicts, dict.fromkeys(verdicts, 0.8))
    assert found.same[0].answer == "not_invariant"
    assert verdict["S7[person]"] is FAILED
    assert verdict["S8[person]"] is Verdict.INCONCLUSIVE


def test_many_single_trials_that_flip_more_than_the_margin_are_not_called_invariant():
    """Nothing is known of how often the unchanged scenario flips, so nothing excuses the flips."""
    verdicts, origins = {}, {}
    for number in range(400):
        verdicts[f"S{number}"] = {0: PASSED if number % 2 else FAILED}
        verdicts[f"S{number}[person]"] = {0: FAILED if number % 2 else PASSED}
        origins[f"S{number}[person]"] = origin(f"S{number}")
    found, _ = judged(origins, verdicts)
    assert found.same[0].difference == 0
    assert found.same[0].answer == "cannot_tell"


def test_a_decision_that_followed_needs_an_original_that_was_right():
    found, verdict = one([SAME], required=None, kind="changes")
    assert (found.answer, found.chances, found.followed, verdict) == ("followed", 1, 1, PASSED)
    found, verdict = one([LOST, SAME], required=None, kind="changes")
    assert (found.answer, found.chances, found.followed, verdict) == ("not_followed", 2, 1, FAILED)
    found, verdict = one([WON, WON], required=None, kind="changes")
    assert (found.answer, verdict) == ("cannot_tell", Verdict.INCONCLUSIVE)


def test_a_larger_margin_needs_fewer_trials_and_more_variants_need_more():
    needed = trials_to_tell(0.09, 0.09, margin=0.1, variants=1)
    assert trials_to_tell(0.09, 0.09, margin=0.2, variants=1) < needed
    assert trials_to_tell(0.09, 0.09, margin=0.1, variants=6) > needed
    assert trials_to_tell(0.09, 0.09, margin=0.1, variants=1, scenarios=4) == pytest.approx(needed / 4, abs=1)


@pytest.mark.parametrize("count", [1, 30, 400])
def test_the_interval_of_pairs_that_all_agree_is_not_empty(count):
    z2 = 1.959963984540054**2
    low, high = paired_interval(0, 0, count, 0.95)
    assert (low, high) == pytest.approx((-z2 / (count + z2), z2 / (count + z2)))


def test_the_interval_covers_the_difference():
    draw, covered = random.Random(4), 0
    for _ in range(1000):
        drawn_pairs = draw.choices(["lost", "won", "same"], [0.2, 0.08, 0.72], k=50)
        low, high = paired_interval(drawn_pairs.count("lost"), drawn_pairs.count("won"), 50, 0.95)
        covered += low <= -0.12 <= high
    assert 930 <= covered <= 970


def test_mcnemar_is_exact():
    assert mcnemar_p(0, 0) == 1
    assert mcnemar_p(0, 5) == pytest.approx(2 / 32)
    assert mcnemar_p(2, 8) == pytest.approx(2 * (1 + 10 + 45) / 1024)
    assert mcnemar_p(700, 800) == pytest.approx(0.0105, abs=0.001)


# How often it is wrong


def share_of(answer, rates, trials, runs=300, scenarios=1):
    """Of simulated runs, those in which any variant gets the answer. `rates` are the original's and the variants'."""
    draw = random.Random(f"{answer} {rates} {trials} {scenarios}")
    hits = 0
    for _ in range(runs):
        verdicts, origins = {}, {}
        for number in range(scenarios):
            verdicts[f"S{number}"] = drawn(draw, rates[0], trials)
            for at, rate in enumerate(rates[1:]):
                verdicts[f"S{number}[{at}]"] = drawn(draw, rate, trials)
                origins[f"S{number}[{at}]"] = origin(f"S{number}", shown=str(at))
        found = find_variants(origins, {}, verdicts, rates_of(verdicts))
        hits += any(each.answer == answer for each in found.same)
    return hits / runs


@pytest.mark.parametrize(("trials", "scenarios"), [(20, 1), (60, 1), (20, 5)])
def test_an_agent_that_flips_by_chance_is_not_failed_by_its_variants(trials, scenarios):
    assert share_of("not_invariant", [0.9] * 7, trials, scenarios=scenarios) <= 0.05


def test_a_difference_as_large_as_the_margin_is_not_called_invariant():
    assert share_of("invariant", [0.9, 0.8], 250) <= 0.05


@pytest.mark.parametrize("scenarios", [1, 4])
def test_the_planned_trials_find_twenty_points(scenarios):
    lost, won = 0.9 * 0.3, 0.1 * 0.7
    trials = trials_to_tell(lost, won, margin=0.1, variants=3, scenarios=scenarios)
    assert share_of("not_invariant", [0.9, 0.9, 0.9, 0.7], trials, scenarios=scenarios) >= 0.77
    assert share_of("not_invariant", [0.9, 0.9, 0.9, 0.7], trials // 2, scenarios=scenarios) < 0.77


@pytest.mark.parametrize("scenarios", [1, 4])
def test_the_planned_trials_show_that_nothing_moves(scenarios):
    trials = trials_to_tell(0.09, 0.09, margin=0.1, variants=1, scenarios=scenarios)
    assert share_of("invariant", [0.9, 0.9], trials, scenarios=scenarios) >= 0.77
    assert share_of("invariant", [0.9, 0.9], trials // 2, scenarios=scenarios) < 0.77
