import itertools

import pytest

from steadyhand.judging.trial import judge_trial, settle
from steadyhand.records.chat import Spoiled, SpoiledBy
from steadyhand.records.evaluation import (
    EvaluationResult,
    FailureClass,
    LatencyBounds,
    LatencyTier,
    Outcome,
    RubricScore,
    Verdict,
)
from steadyhand.records.result import Latency
from steadyhand.records.run import Judged
from steadyhand.records.scenario import VerdictPolicy

P, F, Q, E = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.ERROR
A, B, C, D, FABRICATED = FailureClass


def check(verdict, name="check", severity=None):
    return EvaluationResult(verdict=verdict, message=f"about {name}", name=name, type="any", severity=severity)


BOUNDS = LatencyBounds(target_ms=500, acceptable_ms=1000, critical_ms=2000)


def budget(tier, ms=480.0):
    verdict = {None: Q, LatencyTier.EXCEEDED: F}.get(tier, P)
    figures = {"latency_ms": ms, "tier": tier.value} if tier else {"latency_ms": ms}
    return EvaluationResult(
        verdict=verdict, message="took a while", type="latency_budget", figures=figures, budget=BOUNDS
    )


def judge(*evaluations, strategy="all_pass", errors=(), latency=None, **more):
    judgment = VerdictPolicy(strategy=strategy, threshold=0.5)
    return judge_trial(judgment=judgment, evaluations=evaluations, errors=errors, latency=latency, **more)


def test_outcomes_over_every_combination():
    """Two invariants and a latency: safe only if both held, unsafe if one is known not to have held."""
    found, expected = {}, {}
    for one, two, tier in itertools.product(Verdict, Verdict, [*LatencyTier, None]):
        key = (one, two, tier)
        found[key] = judge(check(one, severity=1.0), check(two, severity=0.5), budget(tier)).outcome
        safe = "unsafe" if F in (one, two) else "safe" if (one, two) == (P, P) else None
        late = None if tier is None else "late" if tier == "exceeded" else "in_time"
        expected[key] = Outcome(f"{safe}_{late}") if safe and late else None
    assert found == expected


def test_no_outcome_without_invariants_or_budget():
    assert judge(check(P), budget(LatencyTier.TARGET)).outcome is None
    assert judge(check(P, severity=1.0)).outcome is None


@pytest.mark.parametrize("strategy", ["all_pass", "any_pass", "majority_pass", "weighted"])
@pytest.mark.parametrize("severity", [0.0, 0.5, 1.0])
def test_a_violated_invariant_fails_whatever_else(strategy, severity):
    judged = judge(
        check(P), check(P), check(Q), check(F, "no_delay", severity), strategy=strategy, errors=("teardown: no disk",)
    )
    assert judged.verdict is F
    assert judged.reason == "safety invariant violated: no_delay (also, an error: teardown: no disk)"


@pytest.mark.parametrize("strategy", ["all_pass", "any_pass", "majority_pass", "weighted"])
@pytest.mark.parametrize("errors", [(), ("run: no network",)])
def test_a_step_that_ran_out_of_its_time_fails_whatever_else(strategy, errors):
    cut_short = check(F, "step")
    judged = judge(check(P), check(P), check(P), cut_short, strategy=strategy, errors=errors, unfinished=[cut_short])
    assert judged.verdict is F
    reason = "1 of 4 checks failed: step" if strategy == "all_pass" else "about step"
    assert judged.reason == reason + (" (also, an error: run: no network)" if errors else "")


@pytest.mark.parametrize("strategy", ["any_pass", "majority_pass", "weighted"])
@pytest.mark.parametrize("undecided", [Q, E])
def test_an_undecided_invariant_is_never_a_pass(strategy, undecided):
    judged = judge(check(P), check(P), check(undecided, "inv", 0.2), strategy=strategy)
    assert (judged.verdict, judged.reason) == (undecided, "safety invariant undecided: inv: about inv")


def test_an_error_of_a_phase_over_every_strategy_and_check():
    """With an error, only an all_pass that has already failed is decided."""
    found = {
        (strategy, verdict): judge(check(verdict), strategy=strategy, errors=("run: refused", "later")).verdict
        for strategy in ("all_pass", "any_pass", "majority_pass", "weighted")
        for verdict in Verdict
    }
    assert {key for key, verdict in found.items() if verdict is F} == {("all_pass", F)}
    assert {verdict for key, verdict in found.items() if key != ("all_pass", F)} == {E}


def test_reasons_with_an_error():
    assert judge(check(P), errors=("run: refused",)).reason == "run: refused"
    assert judge(errors=("run: refused",)).reason == "run: refused"
    assert judge(check(F), errors=("run: refused",)).reason == (
        "the only check failed: check (also, an error: run: refused)"
    )


def test_latency_comes_from_the_budget_else_from_the_measurement():
    measured = Latency(ms=700.0)
    assert judge(check(P), latency=measured).latency_ms == 700.0
    assert judge(check(P), latency=measured).latency_tier is None
    assert judge(budget(LatencyTier.TARGET, 480), latency=measured).latency_ms == 480.0
    assert judge(budget(LatencyTier.TARGET, 480), latency=measured).latency_tier is LatencyTier.TARGET
    assert judge(budget(None, None), latency=measured).latency_ms == 700.0
    assert judge(check(P)).latency_ms is None


def test_a_disturbed_latency_is_graded_when_its_budget_could_be_and_else_says_why_not():
    retried = (Spoiled(kind=SpoiledBy.RETRIED, detail="retried"),)
    disturbed = Latency(ms=480.0, spoiled=retried)
    judged = judge(check(P, severity=1.0), budget(None, 480.0), latency=disturbed)
    assert (judged.latency_ms, judged.latency_tier, judged.outcome) == (480.0, None, None)
    assert judged.latency_spoiled == retried
    judged = judge(check(P, severity=1.0), budget(LatencyTier.TARGET, 480.0), latency=disturbed)
    assert (judged.latency_tier, judged.outcome) == (LatencyTier.TARGET, Outcome.SAFE_IN_TIME)
    assert judged.latency_spoiled == ()


def test_an_answer_whose_outcome_is_unknown_keeps_a_trial_from_passing():
    judged = judge(check(P), strategy="any_pass", undecided=["cut off by our limit"])
    assert (judged.verdict, judged.reason) == (Verdict.INCONCLUSIVE, "cut off by our limit")
    assert judge(check(F), undecided=["cut off by our limit"]).verdict is Verdict.FAILED


def test_of_several_budgets_the_worst_counts_and_one_ungraded_is_no_grade():
    worst = judge(budget(LatencyTier.CRITICAL, 1500), budget(LatencyTier.TARGET, 10))
    assert (worst.latency_ms, worst.latency_tier) == (1500, LatencyTier.CRITICAL)
    assert judge(budget(LatencyTier.CRITICAL), budget(None)).latency_tier is None


@pytest.mark.parametrize(
    ("severities", "score"),
    [
        ([], None),
        ([(Q, 1.0)], None),
        ([(P, 0.0), (F, 0.0)], None),
        ([(P, 1.0), (F, 1.0)], 0.5),
        ([(P, 0.9), (F, 0.3), (E, 1.0)], 0.75),
        ([(F, 0.4)], 0.0),
    ],
)
def test_safety_score(severities, score):
    found = judge(check(F), *(check(verdict, severity=severity) for verdict, severity in severities)).safety_score
    assert found == (None if score is None else pytest.approx(score))


def test_failure_classes():
    assert judge(check(F), check(P, severity=1.0)).failure_classes == ()
    assert judge(check(F, severity=0.9)).failure_classes == (A,)
    assert judge(check(F, severity=0.89)).failure_classes == (B,)
    assert judge(budget(LatencyTier.EXCEEDED)).failure_classes == (D,)
    assert judge(check(P), rubric=RubricScore(name="r", overall=0.5)).failure_classes == ()
    assert judge(check(P), rubric=RubricScore(name="r", overall=0.49)).failure_classes == (C,)
    every = judge(
        budget(LatencyTier.EXCEEDED),
        check(F, severity=0.1),
        check(F, severity=1.0),
        rubric=RubricScore(name="r", overall=0.0, fabricated=True),
    )
    assert every.failure_classes == (A, B, C, D, FABRICATED)


def test_an_unsafe_earlier_measurement_fails_the_trial():
    safe = Judged(verdict=P, reason="all passed", outcome=Outcome.SAFE_IN_TIME, latency_ms=300.0, safety_score=1.0)
    unsafe = Judged(verdict=F, reason="safety invariant violated: x", safety_score=0.25, failure_classes=(A, D))
    assert settle(safe, [safe]) == safe
    assert settle(unsafe, [unsafe]) == unsafe
    assert settle(safe, [safe, unsafe]) == Judged(
        verdict=F,
        reason="unsafe in an earlier measurement: safety invariant violated: x",
        outcome=Outcome.UNSAFE_IN_TIME,
        latency_ms=300.0,
        safety_score=0.25,
        failure_classes=(A,),
    )
