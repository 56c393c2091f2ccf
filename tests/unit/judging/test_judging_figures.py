"""Figures of scenarios, targets and suites, compared with values computed by other means."""

import math
import random
from collections import Counter
from itertools import combinations

import msgspec
import pytest

from steadyhand.judging.figures import ANYTIME, CLUSTERED, WILSON, FigureCollector, RunFigures
from steadyhand.judging.rates import scenario_rates, until_decided
from steadyhand.judging.statistics import mean_interval, scenarios_for_percentile, suite_percentile
from steadyhand.records.chat import SafetyAtDeadline, Spoiled, SpoiledBy
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import Judged, RunHeader, Target, TrialRecord
from support.late import Late
from support.sample_trials import sample_trial

stats = Late("scipy.stats")

P, F, E, U = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.INCONCLUSIVE
HEADER = RunHeader(id="r", started_at="2026-11-16T10:44:55+00:00", steadyhand_version="0")


def trial(scenario_id: str, index: int, verdict: Verdict, **judged: object) -> TrialRecord:
    return sample_trial(scenario_id, index, judged=Judged(verdict=verdict, reason="", **judged))


def figures(trials: list[TrialRecord], header: RunHeader = HEADER, planned: dict[str, int] | None = None) -> RunFigures:
    verdicts: dict[str, dict[int, Verdict]] = {}
    for each in trials:
        verdicts.setdefault(each.key.scenario_id, {})[each.key.index] = each.judged.verdict
    planned = planned or {scenario_id: len(found) for scenario_id, found in verdicts.items()}
    counts = Counter((each.key.scenario_id, each.judged.verdict) for each in trials)
    rates = scenario_rates(counts, planned=planned, until=until_decided(header, planned, verdicts))
    collector = FigureCollector()
    for each in trials:
        collector.add(each)
    return collector.figures(header, rates)


def of_verdicts(**scenarios: list[Verdict]) -> list[TrialRecord]:
    return [trial(name, at, verdict) for name, found in scenarios.items() for at, verdict in enumerate(found)]


def test_errors_and_inconclusive_trials_are_beside_the_estimate():
    (found,) = figures(of_verdicts(a=[P] * 9 + [E] * 90 + [U])).scenarios
    assert (found.rate, found.method) == (1.0, WILSON)
    assert (found.low, found.high) == pytest.approx((0.7009, 1.0), abs=1e-4)
    assert found.failure_bound == pytest.approx(1 - 0.05 ** (1 / 9))
    assert (found.trials.error, found.trials.inconclusive, found.trials.total) == (90, 1, 100)


def test_pass_at_k_and_pass_hat_k_are_what_counting_all_choices_gives():
    verdicts = [P, P, F, P, F, P, P]
    (found,) = figures(of_verdicts(a=verdicts)).scenarios
    for k in range(1, 6):
        choices = list(combinations(verdicts, k))
        assert found.pass_hat_k[k] == pytest.approx(sum(F not in each for each in choices) / len(choices))
        assert found.pass_at_k[k] == pytest.approx(sum(P in each for each in choices) / len(choices))
    assert found.failure_bound is None


def test_a_suite_counts_scenarios_and_not_trials():
    found = figures(of_verdicts(a=[P] * 100, b=[P] * 100, c=[F] * 2)).suite
    assert found is not None
    assert (found.scenarios, found.trials.decided, found.method) == (3, 202, CLUSTERED)
    assert found.rate == pytest.approx(2 / 3)
    assert (found.low, found.high) == mean_interval([1.0, 1.0, 0.0])
    assert found.pass_hat_k == {1: pytest.approx(2 / 3), 2: pytest.approx(2 / 3)}, "only k that every scenario has"
    none = figures(of_verdicts(a=[P] * 100, b=[P] * 100)).suite
    assert none is not None
    assert none.failure_bound == pytest.approx(1 - 0.05 ** (1 / 2)), "two observations, not two hundred"


def test_a_scenario_without_a_decided_trial_is_left_out_and_counted():
    found = figures(of_verdicts(a=[P, F], b=[E, E], c=[P, P])).suite
    assert found is not None
    assert (found.scenarios, found.rate, found.trials.error) == (2, 0.75, 2)


def test_combinations_of_one_scenario_are_one_observation():
    trials = of_verdicts(a1=[P], a2=[P], a3=[F], a4=[F], b=[P])
    targets = {name: Target(scenario=name[0], model="m/x") for name in ("a1", "a2", "a3", "a4", "b")}
    found = figures(trials, msgspec.structs.replace(HEADER, targets=targets)).suite
    assert found is not None
    assert (found.scenarios, found.rate) == (2, 0.75)


def test_each_target_has_figures_of_its_own_and_several_have_none_together():
    trials = of_verdicts(a1=[P, P], a2=[F, F], b1=[P, P], b2=[F, P])
    targets = {name: Target(scenario=name[0], model=f"m/{name[1]}") for name in ("a1", "a2", "b1", "b2")}
    found = figures(trials, msgspec.structs.replace(HEADER, targets=targets))
    assert [(each.name, each.scenarios, each.rate) for each in found.targets] == [("m/1", 2, 1.0), ("m/2", 2, 0.25)]
    assert found.suite is None


def test_scenarios_for_different_agents_are_one_suite():
    targets = {"a": Target(scenario="a", agent="model"), "b": Target(scenario="b", agent="runtime")}
    found = figures(of_verdicts(a=[P], b=[F]), msgspec.structs.replace(HEADER, targets=targets))
    assert [each.name for each in found.targets] == ["model", "runtime"]
    assert found.suite is not None
    assert (found.suite.scenarios, found.suite.rate) == (2, 0.5)


def test_one_scenario_is_its_own_suite():
    found = figures(of_verdicts(a=[P, P, F]))
    assert found.suite == msgspec.structs.replace(found.scenarios[0], name="suite")


def test_percentiles_are_refused_below_the_number_they_need():
    times = [trial("a", at, P, latency_ms=float(at)) for at in range(58)]
    (found,) = figures(times).scenarios
    p50, p95, p99 = found.latency.percentiles
    assert (p50.refused, p50.value) == (False, 28.0)
    assert (p95.refused, p95.value, p95.needed, p95.n) == (True, None, 59, 58)
    assert p99.needed == 299
    assert found.time_to_safe.percentiles == ()


def test_times_that_do_not_count():
    spoiled = (Spoiled(kind=SpoiledBy.RETRIED, detail="retried"),)
    never = SafetyAtDeadline(target=False, acceptable=False, critical=False)
    trials = [
        trial("a", 0, P, latency_ms=1.0, time_to_safe_ms=1.0, safety_score=1.0),
        trial("a", 1, F, latency_ms=2.0, safety_at_deadline=never, safety_score=0.0),
        trial("a", 2, F, latency_ms=3.0, latency_cut=True, safety_score=0.0),
        trial("a", 3, P, latency_ms=9.0, time_to_safe_ms=9.0, latency_spoiled=spoiled, safety_score=1.0),
        trial("a", 4, E, latency_ms=9.0, time_to_safe_ms=9.0),
        trial("a", 5, U, latency_ms=9.0, time_to_safe_ms=9.0),
        trial("a", 6, P),
    ]
    (found,) = figures(trials).scenarios
    assert (found.latency.trials, found.latency.unbounded, found.latency.left_out) == (3, 1, 1)
    assert (found.time_to_safe.trials, found.time_to_safe.unbounded, found.time_to_safe.left_out) == (2, 1, 2)


def test_a_trial_without_invariants_has_no_time_to_safe_to_leave_out():
    trials = [
        trial("a", 0, P, latency_ms=1.0, time_to_safe_ms=1.0, safety_score=1.0),
        trial("b", 0, P, latency_ms=1.0),
        trial("c", 0, P),
    ]
    found = figures(trials).suite
    assert found is not None
    assert (found.time_to_safe.left_out, found.latency.left_out) == (0, 0)


def test_safety_stands_beside_the_pass_rate():
    trials = [trial("a", 0, P, safety_score=1.0), trial("a", 1, F, safety_score=0.5), trial("b", 0, P)]
    found = figures(trials)
    assert [each.safety for each in found.scenarios] == [0.75, None]
    assert [each.rate for each in found.scenarios] == [0.5, 1.0]
    assert found.suite is not None
    assert found.suite.safety == 0.75


def test_after_stopping_early_the_interval_holds_whenever_one_stops():
    header = msgspec.structs.replace(HEADER, until="decided", pass_rate=0.5)
    (found,) = figures(of_verdicts(a=[P] * 12), header, {"a": 100}).scenarios
    assert (found.method, found.saved, found.trials.not_run) == (ANYTIME, 88, 0)
    assert found.low is not None
    assert found.low < stats.binomtest(12, 12).proportion_ci(method="wilson").low
    assert found.failure_bound == 1 - found.low


def test_the_fewest_scenarios_of_a_percentile():
    assert [scenarios_for_percentile(q) for q in (0.5, 0.95, 0.99)] == [6, 72, 368]
    assert suite_percentile([[1.0]] * 5, 0.5).refused
    found = suite_percentile([[float(at)] for at in range(6)], 0.5)
    assert (found.low, found.value, found.high) == (0.0, 2.0, 5.0)


def test_one_value_a_scenario_is_a_sample_of_scenarios():
    """Shares are then 0 or 1, and the bounds of the mean equal those of Clopper and Pearson."""
    values = [float(at) for at in range(1, 41)]
    found = suite_percentile([[value] for value in values], 0.5)
    assert found.value == 20.0
    for rank, bound in ((found.low, "high"), (found.high, "low")):
        at = stats.binomtest(int(rank), 40).proportion_ci(0.95)
        before = stats.binomtest(int(rank) - 1, 40).proportion_ci(0.95)
        assert getattr(before, bound) < 0.5 <= getattr(at, bound)


@pytest.mark.no_cover
def test_the_clustered_percentile_covers_where_pooling_does_not():
    """Scenarios differ but their trials do not: the true median is that of the scenarios' own levels."""
    missed = Counter()
    for seed in range(60):
        drawn = random.Random(seed)
        groups = [[drawn.gauss(level, 0.01) for _ in range(30)] for level in (drawn.gauss(0, 1) for _ in range(12))]
        clustered = suite_percentile(groups, 0.5)
        pooled = suite_percentile([[value] for group in groups for value in group], 0.5)
        for name, found in (("clustered", clustered), ("pooled", pooled)):
            missed[name] += not (found.low or -math.inf) <= 0 <= (found.high or math.inf)
    assert missed["clustered"] <= stats.binom.ppf(0.999, 60, 0.05)
    assert missed["pooled"] > stats.binom.ppf(0.999, 60, 0.05)
