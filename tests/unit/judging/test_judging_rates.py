import itertools
from collections import Counter

import pytest

from steadyhand.errors import ExitCode
from steadyhand.judging.rates import ScenarioRate, scenario_rates, tally_scenarios
from steadyhand.judging.statistics import pass_hat_k, wilson_interval
from steadyhand.records.evaluation import Verdict

P, F, I, E = Verdict  # noqa: E741


def rate(verdicts, required=None, planned=None):
    planned = len(verdicts) if planned is None else planned
    counts = Counter(("s", verdict) for verdict in verdicts)
    (found,) = scenario_rates(counts, planned={"s": planned}, required={"s": required} if required else {})
    return found


@pytest.mark.parametrize(
    ("verdicts", "required", "planned", "expected"),
    [
        ([P], None, None, P),
        ([F], None, None, F),
        ([I], None, None, I),
        ([E], None, None, E),
        ([P, F], None, None, F),
        ([P, E], None, None, E),
        ([P, I, E], None, None, I),
        ([P, F, E], None, None, F),
        ([P] * 9 + [F], 0.9, None, P),
        ([P] * 8 + [F] * 2, 0.9, None, F),
        ([P] * 9 + [E], 0.9, None, P),
        ([P] * 8 + [F, E], 0.9, None, E),
        ([P] * 8 + [F, I], 0.9, None, I),
        ([P] * 8 + [F], 0.9, 10, I),
        ([P], 0.5, 10, I),
        ([P] * 5, 0.5, 10, I),
        ([F] * 6, 0.5, 10, F),
        ([P] * 7 + [F] * 3, 0.7, None, P),
        ([], None, 3, I),
        ([], None, 0, I),
    ],
)
def test_verdict(verdicts, required, planned, expected):
    assert rate(verdicts, required, planned).verdict is expected


def test_a_decided_verdict_never_changes_when_the_undecided_trials_come_in():
    for required, size in itertools.product((0.3, 0.5, 2 / 3, 0.9, 1.0), range(1, 6)):
        for verdicts in itertools.product((P, F, I, E), repeat=size):
            early = rate(verdicts, required).verdict
            if early not in (P, F):
                continue
            open_ = [at for at, verdict in enumerate(verdicts) if verdict in (I, E)]
            for later in itertools.product((P, F), repeat=len(open_)):
                settled = list(verdicts)
                for at, verdict in zip(open_, later, strict=True):
                    settled[at] = verdict
                assert rate(settled, required).verdict is early


def test_the_option_goes_before_the_scenario_and_order_is_the_plans():
    verdicts = [("b", P), ("a", P), ("b", F), ("a", F)]
    rates = scenario_rates(Counter(verdicts), planned={"a": 2, "b": 2}, required={"a": 0.5})
    assert [(each.scenario_id, each.verdict) for each in rates] == [("a", P), ("b", F)]
    assert tally_scenarios(rates).exit_code == ExitCode.FAILED
    lenient = scenario_rates(Counter(verdicts), planned={"a": 2, "b": 2}, required={"a": 1.0}, required_of_all=0.5)
    assert tally_scenarios(lenient).exit_code == ExitCode.PASSED
    assert tally_scenarios(scenario_rates({("a", P): 1}, planned={"a": 1, "b": 1})).exit_code == ExitCode.UNDECIDED
    assert tally_scenarios([]).exit_code == ExitCode.UNDECIDED


def test_interval_and_share():
    assert wilson_interval(0, 0) is None
    assert wilson_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert wilson_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert ScenarioRate(scenario_id="s", passed=1, error=2).share == 1.0
    assert ScenarioRate(scenario_id="s", error=2, not_run=1).share is None


def test_pass_hat_k():
    assert pass_hat_k(8, 10, 1) == pytest.approx(0.8)
    assert pass_hat_k(8, 10, 4) == pytest.approx(70 / 210)
    assert pass_hat_k(3, 10, 4) == 0.0
    assert pass_hat_k(3, 3, 4) is None
