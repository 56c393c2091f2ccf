"""Checks a run against a baseline: one statistical rule, and absolute rules that can be switched off.

`GateResult` is the record of it; renderings and other programs read that.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec

from steadyhand.errors import ExitCode
from steadyhand.judging.comparison import Pair, either_as_small, fisher_drop_p, permutation_test, step_down_min_p
from steadyhand.judging.comparison_side import Matched, Sample, Side, match_samples, tier_lost
from steadyhand.judging.statistics import Tries, crossing, normal_quantile
from steadyhand.records.base import Record, doc, record_schema
from steadyhand.records.location import Place
from steadyhand.records.run import JUDGE_PART, SCENARIO_PART

GATE_FORMAT = 1
PROMISED_POWER = 0.8


class Rule(enum.StrEnum):
    """The absolute rules. `drop` is the statistical one, and cannot be switched off."""

    DROP = "drop"
    NEW_CLASS_A = "new-class-a"
    VANISHED_SCENARIO = "vanished-scenario"
    VANISHED_CHECK = "vanished-check"
    CHANGED_SCENARIO = "changed-scenario"
    CHANGED_JUDGE = "changed-judge"
    LOST_TIER = "lost-tier"
    STALE_BASELINE = "stale-baseline"
    EMPTY_BASELINE = "empty-baseline"


ABSOLUTE = tuple(rule for rule in Rule if rule is not Rule.DROP)
Doubt = Literal[
    "nothing_to_compare",
    "too_few_trials",
    "no_decided_trial",
    "unfinished",
    "stopped_early",
    "undecided_trials",
    "not_whole",
]


class ScenarioDrop(Record):
    pair: Annotated[Pair, doc("The counts; A is the baseline")]
    p_value: Annotated[float, doc("One-sided by Fisher, adjusted for all scenarios and for the test of the suite")]


class GateTest(Record):
    """Whether the pass rates dropped. `dropped` is wrong with a chance of at most `alpha` when nothing changed."""

    alpha: Annotated[float, doc("Chance of a false alarm when nothing changed")]
    scenarios: Annotated[list[ScenarioDrop], doc("Each scenario that was tested")]
    suite_p_value: Annotated[
        float, doc("p-value of a drop over all scenarios, adjusted for the tests of the scenarios")
    ]
    decidable: Annotated[
        bool, doc("False if there is too little data: even B failing every trial would not be significant")
    ]
    left_out: Annotated[
        list[str], doc("Scenarios where one side has no decided trial: not tested, and so not cleared")
    ] = []

    @property
    def suite_dropped(self) -> bool:
        return self.suite_p_value <= self.alpha

    @property
    def dropped_scenarios(self) -> list[ScenarioDrop]:
        return [each for each in self.scenarios if each.p_value <= self.alpha]

    @property
    def dropped(self) -> bool:
        return self.suite_dropped or bool(self.dropped_scenarios)


class Violation(Record):
    """What broke a rule. `unit` is the scenario, empty for the run as a whole; `detail` is data, such as the check."""

    rule: Annotated[Rule, doc("The rule that was broken")]
    unit: Annotated[str, doc("The scenario; empty for the run as a whole")] = ""
    detail: Annotated[str, doc("Details, such as the check")] = ""
    place: Annotated[Place | None, doc("Where in the scenario file")] = None


class DoubtFound(Record):
    """Why the gate cannot say that nothing got worse."""

    kind: Annotated[Doubt, doc("Why it cannot be said that nothing got worse")]
    units: Annotated[tuple[str, ...], doc("The scenarios concerned; the runs, for `not_whole`")] = ()


class GateResult(Record):
    """`catches` is the drop in every scenario's pass rate that would have been caught with chance `power`."""

    format: Annotated[int, doc("Version of this format")]
    run: Annotated[str, doc("Id of the run")]
    baseline: Annotated[str, doc("Id of the baseline's run")]
    exit_code: Annotated[ExitCode, doc("Exit code of the command")]
    alpha: Annotated[float, doc("Chance of a false alarm when nothing changed")]
    power: Annotated[float, doc("Chance with which a drop of `catches` would have been caught")]
    catches: Annotated[float | None, doc("Drop in every scenario's pass rate that would have been caught")]
    statistics: Annotated[GateTest, doc("The test of the pass rates")]
    violations: Annotated[tuple[Violation, ...], doc("Rules that were broken")]
    doubts: Annotated[tuple[DoubtFound, ...], doc("Why it cannot be said that nothing got worse")]
    ignored: Annotated[tuple[Rule, ...], doc("Rules that were switched off")] = ()
    new_units: Annotated[
        tuple[str, ...], doc("Scenarios that the baseline does not have: not gated, except for failures of class A")
    ] = ()


def gate_schema() -> dict[str, Any]:
    return record_schema(GateResult, "Steadyhand gate")


def hold_against(
    baseline: Side,
    run: Side,
    *,
    alpha: float = 0.05,
    ignore: Collection[Rule] = (),
    now: datetime,
    max_age: timedelta = timedelta(days=90),
) -> GateResult:
    """The statistical rule fails a run that is no worse with a chance of at most `alpha`, over all scenarios together.

    A changed scenario is tested only when its rule is switched off: then its trials count as comparable.
    """
    matched = match_samples(baseline.samples, run.samples)
    paired = [each for each in matched.both if not _is_apart(each[1], each[2], ignore)]
    pairs = [Pair.of(unit, a.tries, b.tries) for unit, a, b in paired]
    test = gate_test(pairs, alpha)
    broken = [*_drops(test, paired), *_broken(matched), *_baseline_rules(baseline, now, max_age)]
    violations = tuple(each for each in broken if each.rule not in ignore)
    doubts = tuple(_doubts(baseline, run, paired, test))
    exit_code = ExitCode.PASSED
    if violations:
        exit_code = ExitCode.FAILED
    elif doubts:
        exit_code = ExitCode.UNDECIDED
    if any(each.rule is Rule.EMPTY_BASELINE for each in violations):
        exit_code = ExitCode.USAGE
    trials = min((pair.b_decided for pair in pairs if pair.comparable), default=0)
    known = [(pair.a_passed, pair.a_decided) for pair in pairs if pair.comparable]
    return GateResult(
        format=GATE_FORMAT,
        run=run.name,
        baseline=baseline.name,
        exit_code=exit_code,
        alpha=alpha,
        power=PROMISED_POWER,
        catches=detectable_drop(known, trials, alpha=alpha, power=PROMISED_POWER),
        statistics=test,
        violations=violations,
        doubts=doubts,
        ignored=tuple(rule for rule in Rule if rule in ignore),
        new_units=matched.only_b,
    )


_Paired = tuple[str, Sample, Sample]


def _is_apart(a: Sample, b: Sample, ignore: Collection[Rule]) -> bool:
    changed = a.changed(b)
    return (SCENARIO_PART in changed and Rule.CHANGED_SCENARIO not in ignore) or (
        JUDGE_PART in changed and Rule.CHANGED_JUDGE not in ignore
    )


def _drops(test: GateTest, paired: Sequence[_Paired]) -> Iterator[Violation]:
    places = {unit: b.place for unit, _, b in paired}
    for drop in test.dropped_scenarios:
        pair = drop.pair
        rates = f"{pair.a_passed}/{pair.a_decided} to {pair.b_passed}/{pair.b_decided}"
        detail = f"{rates}, p = {drop.p_value:.2g}"
        yield Violation(rule=Rule.DROP, unit=pair.scenario_id, detail=detail, place=places[pair.scenario_id])
    if test.suite_dropped:
        yield Violation(rule=Rule.DROP, detail=f"over all scenarios, p = {test.suite_p_value:.2g}")


def _broken(matched: Matched) -> Iterator[Violation]:
    """Every absolute rule that scenarios break."""
    for unit in matched.only_a:
        yield Violation(rule=Rule.VANISHED_SCENARIO, unit=unit)
    for unit, a, b in matched.both:
        changed = a.changed(b)
        if SCENARIO_PART in changed:
            yield Violation(rule=Rule.CHANGED_SCENARIO, unit=unit, place=b.place)
        if JUDGE_PART in changed:
            detail = f"{', '.join(a.judges) or 'none'} to {', '.join(b.judges) or 'none'}"
            yield Violation(rule=Rule.CHANGED_JUDGE, unit=unit, detail=detail, place=b.place)
        if b.decided:
            # Without a decided trial nothing was checked at all, which is reported as a separate doubt.
            for check in a.checks:
                if check not in b.checks:
                    yield Violation(rule=Rule.VANISHED_CHECK, unit=unit, detail=check, place=b.place)
        if b.class_a and not a.class_a:
            yield Violation(rule=Rule.NEW_CLASS_A, unit=unit, detail=f"{b.class_a} of {b.total} trials", place=b.place)
        if tier_lost(a.tier, b.tier):
            yield Violation(rule=Rule.LOST_TIER, unit=unit, detail=f"{a.tier} to {b.tier}", place=b.place)
    for unit, sample in matched.alone_b.items():
        if sample.class_a:
            detail = f"{sample.class_a} of {sample.total} trials; not in the baseline"
            yield Violation(rule=Rule.NEW_CLASS_A, unit=unit, detail=detail, place=sample.place)


def _baseline_rules(baseline: Side, now: datetime, max_age: timedelta) -> Iterator[Violation]:
    if not any(each.decided for each in baseline.samples):
        yield Violation(rule=Rule.EMPTY_BASELINE)
        return
    try:
        made = datetime.fromisoformat(baseline.started_at)
        age = now - made
    except (ValueError, TypeError):
        yield Violation(rule=Rule.STALE_BASELINE, detail="its date cannot be read")
        return
    if age < -timedelta(days=1):
        yield Violation(rule=Rule.STALE_BASELINE, detail="its date is in the future")
    elif age > max_age:
        yield Violation(rule=Rule.STALE_BASELINE, detail=f"{age.days} days old, at most {max_age.days} allowed")


def _doubts(baseline: Side, run: Side, paired: Sequence[_Paired], test: GateTest) -> Iterator[DoubtFound]:
    if not run.finished:
        yield DoubtFound(kind="unfinished")
    if run.stopped_early or baseline.stopped_early:
        yield DoubtFound(kind="stopped_early")
    if not any(a.decided for _, a, _ in paired):
        yield DoubtFound(kind="nothing_to_compare")
        return
    without = tuple(unit for unit, a, b in paired if a.decided and not b.decided)
    if without:
        yield DoubtFound(kind="no_decided_trial", units=without)
    # Where the baseline passed nothing, nothing can get worse, however many trials there are.
    if any(a.passed and b.decided for _, a, b in paired) and not test.decidable:
        yield DoubtFound(kind="too_few_trials")
    if not any(a.undecided or b.undecided for _, a, b in paired):
        return
    # An agent that breaks instead of failing must not pass: would the rule have tripped if undecided trials of both
    # sides counted as not passed?
    of_all = [Pair.of(unit, (len(a.passed), a.total), (len(b.passed), b.total)) for unit, a, b in paired]
    hidden = gate_test(of_all, test.alpha)
    if hidden.dropped and not test.dropped:
        units = tuple(drop.pair.scenario_id for drop in hidden.dropped_scenarios)
        yield DoubtFound(kind="undecided_trials", units=units)


def gate_test(pairs: Sequence[Pair], alpha: float = 0.05) -> GateTest:
    """A joint one-sided test for a drop from A (the baseline) to B at the family-wise error rate `alpha`.

    It looks at the suite (`permutation_test`: a small drop everywhere) and at the scenarios one by one
    (`step_down_min_p`: a large drop in one), and adjusts for looking twice. All of it is exact, so the level holds for
    any number of trials.
    """
    usable = [pair for pair in pairs if pair.comparable]
    scenarios, suite = _drop_p_values(usable, alpha)
    return GateTest(
        alpha=alpha,
        scenarios=[ScenarioDrop(pair=pair, p_value=p) for pair, p in zip(usable, scenarios, strict=True)],
        suite_p_value=suite,
        decidable=min([suite, *scenarios]) <= alpha or _is_decidable(usable, alpha),
        left_out=[pair.scenario_id for pair in pairs if not pair.comparable],
    )


def _drop_p_values(pairs: Sequence[Pair], alpha: float) -> tuple[list[float], float]:
    """The p-values of a drop in each scenario and in the suite, adjusted for one another.

    That nothing dropped at all is rejected by whichever is smaller. Once it is, the suite did drop, and the scenarios
    are left to themselves (closed testing).
    """
    scenarios, suite = step_down_min_p(pairs), permutation_test(pairs).drop
    smallest = min(scenarios, default=1.0)
    of_suite = _adjusted(pairs, suite, alpha)
    of_either = of_suite if suite <= smallest else _adjusted(pairs, smallest, alpha)
    return [max(p, of_either) for p in scenarios], of_suite


def _adjusted(pairs: Sequence[Pair], p: float, alpha: float) -> float:
    """`p` adjusted for looking twice. Twice `p` is never too small, and enough where it decides nothing."""
    return max(p, either_as_small(pairs, p)) if p <= alpha else min(1.0, 2 * p)


def _is_decidable(pairs: Sequence[Pair], alpha: float) -> bool:
    """Whether B with no trial passed would be a drop: that gives the smallest p-values there can be."""
    worst = [msgspec.structs.replace(pair, b_passed=0) for pair in pairs]
    if worst and 2 * len(worst) * min(map(fisher_drop_p, worst)) <= alpha:
        return True  # even by Bonferroni, which takes no time
    smallest = min([permutation_test(worst).drop, *step_down_min_p(worst)])
    return 2 * smallest <= alpha or _adjusted(worst, smallest, alpha) <= alpha


def detectable_drop(baseline: Sequence[Tries], trials: int, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """The smallest drop of every scenario's rate that `gate_test` catches with chance `power`; None when none is.

    By the normal approximation of the suite's test at half of `alpha`, less a step of its lattice. Takes the baseline's
    rates, shrunk towards one half by one trial, as the true ones; a scenario cannot drop below zero.
    """
    alike = Counter((passed, decided) for passed, decided in baseline if decided)
    if not alike or trials < 1:
        return None
    counted = [((passed + 0.5) / (decided + 1), decided, times) for (passed, decided), times in alike.items()]
    z_alpha, z_power = normal_quantile(1 - alpha / 2), normal_quantile(power)
    correction = min(1 / decided + 1 / trials for _, decided, _ in counted)

    def margin(drop: float) -> float:
        total = null = other = 0.0
        for rate, decided, times in counted:
            after = max(rate - drop, 0.0)
            pooled = (rate * decided + after * trials) / (decided + trials)
            total += times * (rate - after)
            null += times * pooled * (1 - pooled) * (1 / decided + 1 / trials)
            other += times * (rate * (1 - rate) / decided + after * (1 - after) / trials)
        return total - correction - z_alpha * math.sqrt(null) - z_power * math.sqrt(other)

    return crossing(margin, 0.0, 1.0) if margin(1.0) >= 0 else None
