"""Every combination of up to three verdicts, against the definition by possible worlds: an undecided check could have
passed or failed; the verdict is decided only when it is the same in every such world."""

import itertools
from fractions import Fraction

import pytest

from steadyhand.judging.trial import decide
from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.scenario import VerdictPolicy

P, F, Q, E = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.ERROR
UP_TO_THREE = [verdicts for n in (1, 2, 3) for verdicts in itertools.product(Verdict, repeat=n)]


def evaluations(verdicts, weights=None):
    weights = weights or ["1"] * len(verdicts)
    return [
        EvaluationResult(verdict=verdict, message=f"m{i}", name=f"c{i}", weight=float(weight))
        for i, (verdict, weight) in enumerate(zip(verdicts, weights, strict=True))
    ]


def by_possible_worlds(verdicts, accepts):
    choices = [(True,) if v is P else (False,) if v is F else (True, False) for v in verdicts]
    found = {accepts(world) for world in itertools.product(*choices)}
    if found == {True}:
        return P
    if found == {False}:
        return F
    return E if E in verdicts else Q


@pytest.mark.parametrize(
    ("strategy", "accepts"),
    [("all_pass", all), ("any_pass", any), ("majority_pass", lambda world: sum(world) > len(world) / 2)],
)
def test_every_combination(strategy, accepts):
    judgment = VerdictPolicy(strategy=strategy)
    expected = {verdicts: by_possible_worlds(verdicts, accepts) for verdicts in UP_TO_THREE}
    assert {verdicts: decide(judgment, evaluations(verdicts))[0] for verdicts in UP_TO_THREE} == expected


@pytest.mark.parametrize("threshold", ["0.1", "0.25", "0.5", "0.8", "1"])
@pytest.mark.parametrize("weights", [("1", "1", "1"), ("0.7", "0.1", "0.2"), ("3", "0.5", "2")])
def test_every_combination_weighted(weights, threshold):
    judgment = VerdictPolicy(strategy="weighted", threshold=float(threshold))
    expected, found = {}, {}
    for verdicts in UP_TO_THREE:
        used = [Fraction(weight) for weight in weights[: len(verdicts)]]

        def accepts(world, used=used):
            return sum(w for w, passed in zip(used, world, strict=True) if passed) / sum(used) >= Fraction(threshold)

        expected[verdicts] = by_possible_worlds(verdicts, accepts)
        found[verdicts] = decide(judgment, evaluations(verdicts, weights[: len(verdicts)]))[0]
    assert found == expected


def test_a_check_without_weight_does_not_decide():
    judgment = VerdictPolicy(strategy="weighted", threshold=0.5)
    assert decide(judgment, evaluations([P, E], ["1", "0"]))[0] is P
    assert decide(judgment, evaluations([F, Q], ["1", "0"]))[0] is F
    assert decide(judgment, evaluations([F, Q, E], ["1", "1", "0"]))[0] is Q
    assert decide(judgment, evaluations([P, P], ["0", "0"])) == (
        Q,
        "2 checks with a total weight of 0, so nothing decides",
    )


def test_weighted_without_threshold_wants_everything():
    judgment = VerdictPolicy(strategy="weighted")
    assert decide(judgment, evaluations([P, P]))[0] is P
    assert decide(judgment, evaluations([P, F], ["99", "0.1"]))[0] is F


@pytest.mark.parametrize("strategy", ["all_pass", "any_pass", "majority_pass", "weighted"])
def test_nothing_evaluated(strategy):
    assert decide(VerdictPolicy(strategy=strategy), []) == (Q, "nothing was evaluated")


def test_reasons():
    reasons = {
        (strategy, verdicts): decide(VerdictPolicy(strategy=strategy, threshold=0.5), evaluations(verdicts))[1]
        for strategy, verdicts in [
            ("all_pass", (P,)),
            ("all_pass", (P, P)),
            ("all_pass", (F, P, F)),
            ("all_pass", (F, F, F, F, F)),
            ("all_pass", (Q, E)),
            ("any_pass", (F, P)),
            ("any_pass", (F, F)),
            ("any_pass", (F, Q)),
            ("majority_pass", (P, P, F)),
            ("majority_pass", (P, F)),
            ("majority_pass", (P, Q, Q)),
            ("weighted", (P, F)),
            ("weighted", (F, F, P)),
        ]
    }
    assert list(reasons.values()) == [
        "the only check passed",
        "all 2 checks passed",
        "2 of 3 checks failed: c0, c2",
        "5 of 5 checks failed: c0, c1, c2 and 2 more",
        "1 check raised an error: c1: m1",
        "1 of 2 checks passed, and one is enough: c1",
        "none of 2 checks passed: c0, c1",
        "1 check could not be decided: c1: m1",
        "2 of 3 checks passed, more than half",
        "1 of 2 checks passed, but more than half must pass; failed: c1",
        "2 checks could not be decided: c1: m1",
        "weight 1 of 2 passed; at least 1 needed",
        "weight 1 of 3 passed; at least 1.5 needed; failed: c0, c1",
    ]
