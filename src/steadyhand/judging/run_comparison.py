"""Two or more sides compared: what differs, what changed, and safety against latency against cost.

`Comparison` is the record of it. Renderings and other programs read that; `comparison_schema` is its JSON Schema. Every
later side is compared with the first, and a difference is the later one minus the first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal

import msgspec

from steadyhand.judging.comparison import RateComparison, ScenarioDifference, compare_rates, holm
from steadyhand.judging.comparison_side import Matched, Sample, Side, match_samples
from steadyhand.judging.latency_comparison import (
    Cliff,
    ComparedTarget,
    LatencyComparison,
    PairedTimes,
    cliff_edges,
    compare_by_scenario,
)
from steadyhand.judging.statistics import Tries, quantile
from steadyhand.records.base import Record, doc, record_schema
from steadyhand.records.chat import Role
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import SCENARIO_PART

COMPARISON_FORMAT = 1
Apart = Literal["only_a", "only_b", "scenario_changed", "judge_changed", "undecided"]
ChangeKind = Literal["regression", "fix", "flip"]
Finding = Literal["better", "worse", "cannot_tell"]


class MessageExcerpt(Record):
    """`cut` is the number of characters that were left out at its end."""

    role: Annotated[Role, doc("Who spoke")]
    content: Annotated[str, doc("What was said")]
    cut: Annotated[int, doc("Number of characters left out at the end")] = 0


class TrialExcerpt(Record):
    """One trial of a scenario that changed, to be read. `scenario_id` is its id in its run.

    `left_out` is the number of earlier messages not shown.
    """

    scenario_id: Annotated[str, doc("Id of the scenario in its run")]
    trial: Annotated[int, doc("Which of the scenario's trials, from 0")]
    verdict: Annotated[Verdict, doc("Verdict of the trial")]
    reason: Annotated[str, doc("Why that is the verdict")] = ""
    messages: Annotated[tuple[MessageExcerpt, ...], doc("The last messages")] = ()
    left_out: Annotated[int, doc("Number of earlier messages not shown")] = 0


class Change(Record):
    """A scenario whose pass rate differs.

    *regression* and *fix* are significant after the correction for all comparisons; a *flip* may be chance.
    """

    unit: Annotated[str, doc("The scenario")]
    kind: Annotated[ChangeKind, doc("regression and fix are significant after correction; a flip may be chance")]
    difference: Annotated[float, doc("Pass rate of B minus that of A")]
    a_target: Annotated[str, doc("Target of A")]
    b_target: Annotated[str, doc("Target of B")]
    a: Annotated[TrialExcerpt | None, doc("A trial of A to read")] = None
    b: Annotated[TrialExcerpt | None, doc("A trial of B to read")] = None


class NotPaired(Record):
    """A scenario that was not compared, and why. `paired` means that it was compared anyway, as the user requested."""

    unit: Annotated[str, doc("The scenario")]
    why: Annotated[Apart, doc("Why it was not compared")]
    paired: Annotated[bool, doc("Whether it was compared anyway, as the user asked")] = False


class ScenarioTimes(Record):
    """Times of one scenario. `p_adjusted` is corrected for all scenarios of the comparison."""

    unit: Annotated[str, doc("The scenario")]
    times: Annotated[LatencyComparison, doc("How the times differ")]
    p_adjusted: Annotated[float, doc("p-value corrected for all scenarios of the comparison")]


class TimesComparison(Record):
    """Times of all paired scenarios, the same number of trials of each on both sides, and one by one.

    `a_cut` and `b_cut` of the times are lower bounds; `a_left_out` and `b_left_out` were disturbed and are not in it.
    """

    pooled: Annotated[LatencyComparison, doc("All paired scenarios together")]
    scenarios: Annotated[list[ScenarioTimes], doc("One by one")]
    a_cut: Annotated[int, doc("Number of A's times that are lower bounds")] = 0
    b_cut: Annotated[int, doc("Number of B's times that are lower bounds")] = 0
    a_left_out: Annotated[int, doc("Number of A's times left out because they were disturbed")] = 0
    b_left_out: Annotated[int, doc("Number of B's times left out because they were disturbed")] = 0


class SideComparison(Record):
    """One side against the first. `p_adjusted` is the suite's p-value corrected for the number of sides."""

    a: Annotated[str, doc("Name of the first side")]
    b: Annotated[str, doc("Name of the side compared with it")]
    finding: Annotated[Finding, doc("Whether B is better or worse, or the data cannot tell")]
    rates: Annotated[RateComparison, doc("How the pass rates differ")]
    p_adjusted: Annotated[float | None, doc("p-value of the suite corrected for the number of sides")]
    not_paired: Annotated[list[NotPaired], doc("Scenarios that were not compared, and why")]
    differs: Annotated[
        dict[str, int],
        doc("What else differs between their trials (model, agent, plugins), with the number of scenarios"),
    ]
    changes: Annotated[list[Change], doc("Scenarios whose pass rate is not the same")]
    latency: Annotated[TimesComparison | None, doc("How the latencies differ")] = None
    time_to_safe: Annotated[TimesComparison | None, doc("How the times to a safe answer differ")] = None


class SideFigures(Record):
    """A side over the scenarios that all sides have, each scenario counting once. None is not known.

    `latency_ms` and `safe_ms` are means of the scenarios' medians, `cost` the mean per trial of the agent's own calls.
    """

    name: Annotated[str, doc("Name of the side")]
    run_id: Annotated[str, doc("Id of its run")]
    started_at: Annotated[str, doc("When its run started")]
    targets: Annotated[tuple[str, ...], doc("Its targets")]
    scenarios: Annotated[int, doc("Number of scenarios")]
    trials: Annotated[int, doc("Number of trials")]
    undecided: Annotated[int, doc("Number of trials that neither passed nor failed")]
    finished: Annotated[bool, doc("Whether its run was finished")]
    stopped_early: Annotated[bool, doc("Whether trials were skipped because the verdict was already decided")]
    pass_rate: Annotated[float | None, doc("Mean pass rate of the scenarios")]
    safety: Annotated[float | None, doc("Mean safety score; the pass rate where there are no safety invariants")]
    latency_ms: Annotated[float | None, doc("Mean of the scenarios' median latencies, in milliseconds")]
    safe_ms: Annotated[float | None, doc("Mean of the scenarios' median times to a safe answer, in milliseconds")]
    never_safe: Annotated[
        int, doc("Scenarios in half of whose trials the answer never became safe; then there is no `safe_ms`")
    ]
    cost: Annotated[float | None, doc("Mean cost per trial of the agent's own calls")]
    best: Annotated[
        bool,
        doc(
            "Whether no other side is safer, and none that is as safe is clearly better in pass rate, latency or cost "
            "without being clearly worse in another of them"
        ),
    ]
    flaw: Annotated[str | None, doc("Why the record of its run cannot be relied on; null if it is whole")] = None


class Comparison(Record):
    """`scenarios` is how many all sides have in common. Without any safety invariant `safety` is the pass rate."""

    format: Annotated[int, doc("Version of this format")]
    confidence: Annotated[float, doc("Confidence level of the intervals")]
    scenarios: Annotated[int, doc("Number of scenarios that all sides have")]
    safety_is_pass_rate: Annotated[
        bool, doc("Whether `safety` is the pass rate, because there are no safety invariants")
    ]
    sides: Annotated[list[SideFigures], doc("The sides, in the order given")]
    comparisons: Annotated[list[SideComparison], doc("Each later side against the first")]
    cliffs: Annotated[list[Cliff], doc("Where a little speed costs much safety")]


def comparison_schema() -> dict[str, Any]:
    return record_schema(Comparison, "Steadyhand comparison")


def compare_sides(sides: Sequence[Side], *, confidence: float = 0.95, pair_changed: bool = False) -> Comparison:
    """Compare every side with the first. Changed scenarios are named, and paired only with `pair_changed`."""
    first, *others = sides
    matches = [match_samples(first.samples, other.samples) for other in others]
    pairings = [_Pairing(matched, pair_changed=pair_changed) for matched in matches]
    rates = [compare_rates(each.tries_a(), each.tries_b(), confidence=confidence) for each in pairings]
    rates = _corrected(rates)
    suites = [each.suite.p_value for each in rates if each.suite is not None]
    corrected = iter(holm(suites))
    paired = _Paired(confidence)
    comparisons = [
        _compared(first, other, pairing, rate, next(corrected) if rate.suite else None, paired)
        for other, pairing, rate in zip(others, pairings, rates, strict=True)
    ]
    return _with_figures(sides, comparisons, pairings, paired)


class _Pairing:
    """The samples of two sides that are compared, in the order of the first, and those that are not."""

    def __init__(self, matched: Matched, *, pair_changed: bool) -> None:
        self.pairs: dict[str, tuple[Sample, Sample]] = {}
        self.not_paired: list[NotPaired] = []
        self.differs: Counter[str] = Counter()
        for unit, a, b in matched.both:
            if changed := a.changed(b):
                why: Apart = "scenario_changed" if SCENARIO_PART in changed else "judge_changed"
                self.not_paired.append(NotPaired(unit=unit, why=why, paired=pair_changed))
                if not pair_changed:
                    continue
            if not a.decided or not b.decided:
                self.not_paired.append(NotPaired(unit=unit, why="undecided"))
            self.pairs[unit] = (a, b)
            self.differs.update(a.differs(b))
        self.not_paired += [NotPaired(unit=unit, why="only_a") for unit in matched.only_a]
        self.not_paired += [NotPaired(unit=unit, why="only_b") for unit in matched.only_b]

    def tries_a(self) -> dict[str, Tries]:
        return {unit: a.tries for unit, (a, _) in self.pairs.items()}

    def tries_b(self) -> dict[str, Tries]:
        return {unit: b.tries for unit, (_, b) in self.pairs.items()}


def _corrected(rates: Sequence[RateComparison]) -> list[RateComparison]:
    """With the p-values of single scenarios corrected for all scenarios of all comparisons at once."""
    if len(rates) == 1:
        return list(rates)
    adjusted = iter(holm([each.p_value for rate in rates for each in rate.scenarios]))
    return [
        msgspec.structs.replace(
            rate,
            scenarios=[msgspec.structs.replace(each, p_adjusted=next(adjusted)) for each in rate.scenarios],
        )
        for rate in rates
    ]


def _compared(
    first: Side, other: Side, pairing: _Pairing, rates: RateComparison, p_adjusted: float | None, paired: _Paired
) -> SideComparison:
    alpha = 1 - paired.confidence
    finding: Finding = "cannot_tell"
    if rates.suite is not None and p_adjusted is not None and p_adjusted <= alpha and rates.suite.difference:
        finding = "better" if rates.suite.difference > 0 else "worse"
    # The most significant first; among equals, the worst.
    by_size = sorted(rates.scenarios, key=lambda each: (each.p_adjusted, each.p_value, each.difference))
    return SideComparison(
        a=first.name,
        b=other.name,
        finding=finding,
        rates=rates,
        p_adjusted=p_adjusted,
        not_paired=pairing.not_paired,
        differs=dict(pairing.differs),
        changes=[_change(each, pairing, alpha) for each in by_size if each.difference],
        latency=_times(pairing.pairs, paired, safe=False),
        time_to_safe=_times(pairing.pairs, paired, safe=True),
    )


def _change(each: ScenarioDifference, pairing: _Pairing, alpha: float) -> Change:
    a, b = pairing.pairs[each.pair.scenario_id]
    kind: ChangeKind = "flip"
    if each.p_adjusted <= alpha:
        kind = "fix" if each.difference > 0 else "regression"
    worse = each.difference < 0
    of_a, of_b = (a.passed, b.failed) if worse else (a.failed, b.passed)
    # The same trial number on both sides if there is one: it has the same seed where the runs have.
    both = min(set(of_a).intersection(of_b), default=None)
    return Change(
        unit=each.pair.scenario_id,
        kind=kind,
        difference=each.difference,
        a_target=a.target,
        b_target=b.target,
        a=_example(a, of_a, both, Verdict.PASSED if worse else Verdict.FAILED),
        b=_example(b, of_b, both, Verdict.FAILED if worse else Verdict.PASSED),
    )


def _example(sample: Sample, trials: Sequence[int], both: int | None, verdict: Verdict) -> TrialExcerpt | None:
    if not trials:
        return None
    return TrialExcerpt(scenario_id=sample.recorded_id, trial=trials[0] if both is None else both, verdict=verdict)


class _Paired:
    """The times of two samples, paired once, so that what is computed of them is."""

    def __init__(self, confidence: float) -> None:
        self.confidence: float = confidence
        self._found: dict[tuple[int, int], PairedTimes] = {}

    def __call__(self, a: Sequence[float], b: Sequence[float]) -> PairedTimes:
        key = id(a), id(b)
        if key not in self._found:
            self._found[key] = PairedTimes(a, b)
        return self._found[key]


def _times(pairs: dict[str, tuple[Sample, Sample]], paired: _Paired, *, safe: bool) -> TimesComparison | None:
    confidence = paired.confidence
    same_mix: list[PairedTimes] = []
    single: list[tuple[str, LatencyComparison]] = []
    for unit, (one, other) in pairs.items():
        mine, theirs = (one.safe_times, other.safe_times) if safe else (one.latencies, other.latencies)
        times, shared = paired(mine, theirs), min(len(mine), len(theirs))
        same_mix.append(times if len(mine) == len(theirs) else PairedTimes(mine[:shared], theirs[:shared]))
        if len(pairs) > 1 and (found := compare_by_scenario([times], confidence=confidence)):
            single.append((unit, found))
    pooled = compare_by_scenario(same_mix, confidence=confidence)
    if pooled is None:
        return None
    if len(pairs) == 1:
        single = [(unit, pooled) for unit in pairs]
    adjusted = holm([each.p_value for _, each in single])
    samples = () if safe else tuple(pairs.values())
    return TimesComparison(
        pooled=pooled,
        scenarios=[
            ScenarioTimes(unit=unit, times=each, p_adjusted=p) for (unit, each), p in zip(single, adjusted, strict=True)
        ],
        a_cut=sum(one.latencies_cut for one, _ in samples),
        b_cut=sum(other.latencies_cut for _, other in samples),
        a_left_out=sum(one.latencies_left_out for one, _ in samples),
        b_left_out=sum(other.latencies_left_out for _, other in samples),
    )


# Safety against latency against cost


def _with_figures(
    sides: Sequence[Side], comparisons: list[SideComparison], pairings: Sequence[_Pairing], paired: _Paired
) -> Comparison:
    """The table is over what all sides have in common: figures of different scenarios are not comparable."""
    shared = [unit for unit in pairings[0].pairs if all(unit in each.pairs for each in pairings)] if pairings else []
    samples = [[pairings[0].pairs[unit][0] for unit in shared]] if pairings else []
    samples += [[each.pairs[unit][1] for unit in shared] for each in pairings]
    by_rate = not any(each.safety is not None for of_side in samples for each in of_side)
    rates = _means([[_rate(each) for each in of_side] for of_side in samples])
    safety = rates if by_rate else _means([[each.safety for each in of_side] for of_side in samples])
    latencies = _means([[_median(each.latencies) for each in of_side] for of_side in samples])
    safe_times = _means([[_median(each.safe_times) for each in of_side] for of_side in samples])
    targets = [ComparedTarget(name=str(at), safety=safety[at], latency_ms=latencies[at]) for at in range(len(samples))]
    best = _not_dominated(samples, safety, paired)
    figures = [
        SideFigures(
            name=side.name,
            run_id=side.run_id,
            started_at=side.started_at,
            targets=side.targets,
            scenarios=len(samples[at]),
            trials=sum(each.total for each in samples[at]),
            undecided=sum(each.undecided for each in samples[at]),
            finished=side.finished,
            stopped_early=side.stopped_early,
            pass_rate=rates[at],
            safety=safety[at],
            latency_ms=latencies[at],
            safe_ms=safe_times[at],
            never_safe=sum(_median(each.safe_times) == math.inf for each in samples[at]),
            cost=_mean([each.cost for each in samples[at]]),
            best=at in best,
            flaw=side.flaw,
        )
        for at, side in enumerate(sides)
    ]
    cliffs = [
        msgspec.structs.replace(each, slower=sides[int(each.slower)].name, faster=sides[int(each.faster)].name)
        for each in cliff_edges(targets)
    ]
    return Comparison(
        format=COMPARISON_FORMAT,
        confidence=paired.confidence,
        scenarios=len(shared),
        safety_is_pass_rate=by_rate,
        sides=figures,
        comparisons=comparisons,
        cliffs=cliffs,
    )


def _not_dominated(samples: Sequence[Sequence[Sample]], safety: Sequence[float | None], paired: _Paired) -> set[int]:
    """The sides to recommend: the safest, without those that an equally safe one dominates.

    A difference counts only if its interval excludes zero. An unknown safety is never the highest.
    """
    highest = max((each for each in safety if each is not None), default=None)
    if highest is None:
        return set()
    safest = [at for at, each in enumerate(safety) if each is not None and each >= highest - 1e-9]
    gains = {(a, b): list(_gains(samples[a], samples[b], paired)) for a, b in combinations(safest, 2)}
    gains |= {(b, a): [-each for each in found] for (a, b), found in gains.items()}
    return {
        at
        for at in safest
        if not any(max(gains[at, other]) > 0 and min(gains[at, other]) >= 0 for other in safest if other != at)
    }


def _gains(a: Sequence[Sample], b: Sequence[Sample], paired: _Paired) -> Iterator[int]:
    """Whether B is clearly better (1), clearly worse (-1) or neither (0) in pass rate, latency and cost."""
    of_a, of_b = ({str(at): each.tries for at, each in enumerate(side)} for side in (a, b))
    suite = compare_rates(of_a, of_b, confidence=paired.confidence).suite
    yield _sign(suite.low, suite.high) if suite is not None else 0
    pairs = list(zip(a, b, strict=True))
    for times in (
        [paired(one.latencies, other.latencies) for one, other in pairs],
        [paired(one.costs, other.costs) for one, other in pairs if one.costs and other.costs],
    ):
        found = compare_by_scenario(times, confidence=paired.confidence, quantiles=())
        yield -_sign(found.low, found.high) if found is not None else 0


def _sign(low: float | None, high: float | None) -> int:
    """Of a difference whose interval excludes zero; else 0."""
    if low is None or high is None:
        return 0
    return (low > 0) - (high < 0)


def _rate(sample: Sample) -> float | None:
    return len(sample.passed) / sample.decided if sample.decided else None


def _median(values: Sequence[float]) -> float | None:
    return quantile(sorted(values), 0.5) if values else None


def _means(values: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean of each side over the scenarios for which every side that has any figure has one."""
    having = [of_side for of_side in values if any(each is not None for each in of_side)]
    keep = [at for at in range(len(having[0])) if all(each[at] is not None for each in having)] if having else []
    return [_mean([of_side[at] for at in keep]) for of_side in values]


def _mean(values: Sequence[float | None]) -> float | None:
    """None when one is not known, when there is none, or when it is not finite."""
    known = [each for each in values if each is not None and math.isfinite(each)]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
