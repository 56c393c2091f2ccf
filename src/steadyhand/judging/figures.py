"""The figures of each scenario, of each target and of the suite, with their uncertainty.

Errors and inconclusive trials are excluded from every estimate and counted separately. A suite's trials are clustered
by scenario: the interval is over scenarios, however many trials each of them has.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Annotated

import msgspec

from steadyhand.judging.rates import ScenarioRate, Tally, tally_trials
from steadyhand.judging.statistics import (
    Percentile,
    failure_rate_bound,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    percentile,
    suite_percentile,
)
from steadyhand.records.base import Natural, Proportion, Record, doc
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import Judged, RunHeader, Target, TrialRecord

CONFIDENCE = 0.95
LARGEST_K = 5
QUANTILES = (0.5, 0.95, 0.99)
WILSON = "Wilson's score"
ANYTIME = "mixture martingale, valid at every stopping time"
CLUSTERED = "Bayesian bootstrap over scenarios, padded with one at the bound (Gaffke)"


class TimeFigures(Record):
    """Percentiles of the decided trials that have such a time.

    `unbounded` of them are infinitely long: they never became safe, or were cut off before they ended. `left_out` are
    decided trials that have such a time, but it is not known, or a disturbance may have changed it.
    """

    trials: Annotated[Natural, doc("Number of trials with such a time.")] = 0
    unbounded: Annotated[Natural, doc("How many of them never became safe, or were cut off.")] = 0
    left_out: Annotated[Natural, doc("Number of decided trials whose own such time is unknown or was disturbed.")] = 0
    percentiles: Annotated[tuple[Percentile, ...], doc("Percentiles; empty without a time.")] = ()


class Figures(Record):
    """Of one scenario, or of several taken together.

    `trials` counts every trial, with a verdict or without. `rate` is the pass rate of decided trials; of several
    scenarios the mean of theirs, each counting once. `failure_bound` is the one-sided upper bound of the failure rate
    if there was no failure. `pass_at_k` is the chance that at least one of k trials passes, and `pass_hat_k` that all k
    do, by k. `safety` is the mean severity-weighted safety, and is not part of the pass rate.
    """

    name: Annotated[str, doc("Id of the scenario, name of the target, or `suite`.")]
    scenarios: Annotated[Natural, doc("Number of scenarios with a trial that passed or failed.")]
    trials: Annotated[Tally, doc("Number of trials by verdict.")]
    saved: Annotated[Natural, doc("Number of trials that were not needed.")]
    rate: Annotated[
        Proportion | None, doc("Pass rate of the trials that passed or failed, each scenario counting once.")
    ] = None
    low: Annotated[Proportion | None, doc("Lower bound of its interval.")] = None
    high: Annotated[Proportion | None, doc("Upper bound of its interval.")] = None
    confidence: Annotated[Proportion, doc("Confidence of intervals and bounds.")] = CONFIDENCE
    method: Annotated[str, doc("Method of the interval.")]
    failure_bound: Annotated[
        Proportion | None, doc("What the failure rate does not exceed, if nothing failed; null otherwise.")
    ] = None
    pass_at_k: Annotated[
        dict[int, Proportion], doc("For each k, the estimated chance that one of k trials passes.")
    ] = {}
    pass_hat_k: Annotated[dict[int, Proportion], doc("For each k, the estimated chance that k trials all pass.")] = {}
    latency: Annotated[TimeFigures, doc("Latency.")] = TimeFigures()
    time_to_safe: Annotated[TimeFigures, doc("Time until the answer was safe.")] = TimeFigures()
    safety: Annotated[Proportion | None, doc("Mean severity-weighted safety; not part of the pass rate.")] = None


class RunFigures(Record):
    """`targets` has an entry for each target of the run. `suite` is None with several targets: combined figures of
    different models or agents say nothing about any of them. Variants of a scenario count in neither."""

    scenarios: tuple[Figures, ...]
    targets: Annotated[tuple[Figures, ...], doc("Figures of each target.")]
    suite: Annotated[Figures | None, doc("Figures of the whole run; null if it compares targets.")]


class FigureCollector:
    """Collects a few numbers from each trial as it is read."""

    def __init__(self) -> None:
        self._of: dict[str, _Collected] = {}

    def add(self, trial: TrialRecord) -> None:
        found = self._of.get(trial.key.scenario_id)
        if found is None:
            found = self._of[trial.key.scenario_id] = _Collected()
        if trial.judged.verdict in (Verdict.PASSED, Verdict.FAILED):
            found.add(trial.judged)

    def figures(self, header: RunHeader, rates: Sequence[ScenarioRate]) -> RunFigures:
        """`rates` are those of every planned scenario; they also determine which trials an estimate may use."""
        samples = [_Sample(rate, self._of.get(rate.scenario_id) or _Collected()) for rate in rates]
        targets: dict[str, list[_Sample]] = {}
        originals = [each for each in samples if each.rate.scenario_id not in header.variants]
        for each in originals:
            targets.setdefault(_target(header, each).name, []).append(each)
        grouped = [_together(name, header, group) for name, group in targets.items()]
        suite = None
        if len(grouped) == 1:
            suite = msgspec.structs.replace(grouped[0], name="suite")
        elif not _compared(_target(header, each) for each in originals):
            suite = _together("suite", header, originals)
        return RunFigures(scenarios=tuple(each.figures for each in samples), targets=tuple(grouped), suite=suite)


class _Collected:
    """The figures of a scenario's decided trials."""

    def __init__(self) -> None:
        self.latency_left_out = 0
        self.safe_left_out = 0
        self.latency: array[float] = array("d")
        self.time_to_safe: array[float] = array("d")
        self.safety: array[float] = array("d")

    def add(self, judged: Judged) -> None:
        # Only an answer with safety invariants becomes safe at some time.
        has_safety = judged.safety_score is not None
        if judged.safety_score is not None:
            self.safety.append(judged.safety_score)
        if judged.latency_spoiled:
            self.latency_left_out += 1
            self.safe_left_out += has_safety
            return
        if judged.latency_ms is not None:
            self.latency.append(math.inf if judged.latency_cut else judged.latency_ms)
        if (safe_ms := judged.safe_ms) is not None:
            self.time_to_safe.append(safe_ms)
        else:
            self.safe_left_out += has_safety


class _Sample:
    def __init__(self, rate: ScenarioRate, collected: _Collected) -> None:
        self.rate = rate
        self.collected = collected

    @cached_property
    def figures(self) -> Figures:
        return _of_scenario(self)


def _target(header: RunHeader, sample: _Sample) -> Target:
    return header.targets.get(sample.rate.scenario_id) or Target(scenario=sample.rate.scenario_id)


def _compared(targets: Iterable[Target]) -> bool:
    """Whether the same scenario ran on several targets. A suite may have scenarios for different agents."""
    tried = [(target.scenario, repr(sorted(target.cell.items(), key=lambda item: item[0]))) for target in targets]
    return len(set(tried)) < len(tried)


def _of_scenario(sample: _Sample) -> Figures:
    rate, found = sample.rate, sample.collected
    passed, decided = rate.tries
    low, high = rate.interval or (None, None)
    bound = None
    if decided and not rate.failed:
        # After stopping early the bound of a fixed number of trials is too low.
        bound = failure_rate_bound(0, decided, CONFIDENCE) if rate.until is None or low is None else 1 - low
    return Figures(
        name=rate.scenario_id,
        scenarios=int(decided > 0),
        trials=tally_trials([rate]),
        saved=rate.saved,
        method=WILSON if rate.until is None else ANYTIME,
        rate=rate.share,
        low=low,
        high=high,
        failure_bound=bound,
        pass_at_k=_by_k(lambda k: pass_at_k(passed, decided, k)),
        pass_hat_k=_by_k(lambda k: pass_hat_k(passed, decided, k)),
        latency=_times(found.latency, found.latency_left_out),
        time_to_safe=_times(found.time_to_safe, found.safe_left_out),
        safety=_mean(found.safety),
    )


def _times(values: Sequence[float], left_out: int) -> TimeFigures:
    values = sorted(values)  # once, for all percentiles
    return TimeFigures(
        trials=len(values),
        unbounded=sum(map(math.isinf, values)),
        left_out=left_out,
        percentiles=tuple(percentile(values, q, CONFIDENCE) for q in QUANTILES) if values else (),
    )


def _together(name: str, header: RunHeader, samples: Sequence[_Sample]) -> Figures:
    """By scenario of the files: combinations of one scenario are one observation, as its trials are."""
    if len(samples) == 1:
        (only,) = samples
        return msgspec.structs.replace(only.figures, name=name)
    clusters: dict[str, list[_Sample]] = {}
    for each in samples:
        clusters.setdefault(_target(header, each).scenario, []).append(each)
    decided = [[each for each in cluster if each.rate.tries[1]] for cluster in clusters.values()]
    decided = [cluster for cluster in decided if cluster]

    def mean_of(figure: Callable[[int, int], float | None]) -> list[float] | None:
        """Of each cluster; None where some scenario has too few trials for it."""
        found = [[figure(*each.rate.tries) for each in cluster] for cluster in decided]
        if any(value is None for values in found for value in values):
            return None
        return [math.fsum(value or 0.0 for value in values) / len(values) for values in found]

    shares = mean_of(lambda passed, tried: passed / tried) or []
    safety = [_mean(_joined(cluster, lambda found: found.safety)) for cluster in decided]
    low, high = mean_interval(shares, CONFIDENCE) or (None, None)
    rates = [each.rate for each in samples]
    return Figures(
        name=name,
        scenarios=len(decided),
        trials=tally_trials(rates),
        saved=sum(rate.saved for rate in rates),
        method=CLUSTERED,
        rate=_mean(shares),
        low=low,
        high=high,
        failure_bound=failure_rate_bound(0, len(decided), CONFIDENCE)
        if decided and not any(rate.failed for rate in rates)
        else None,
        pass_at_k=_by_k(lambda k: _mean(mean_of(lambda passed, tried: pass_at_k(passed, tried, k)) or [])),
        pass_hat_k=_by_k(lambda k: _mean(mean_of(lambda passed, tried: pass_hat_k(passed, tried, k)) or [])),
        latency=_clustered_times(decided, lambda found: (found.latency, found.latency_left_out)),
        time_to_safe=_clustered_times(decided, lambda found: (found.time_to_safe, found.safe_left_out)),
        safety=_mean([value for value in safety if value is not None]),
    )


def _joined(cluster: Iterable[_Sample], values: Callable[[_Collected], Sequence[float]]) -> list[float]:
    return [value for each in cluster for value in values(each.collected)]


def _clustered_times(
    clusters: Sequence[Sequence[_Sample]], times: Callable[[_Collected], tuple[Sequence[float], int]]
) -> TimeFigures:
    found = [_joined(cluster, lambda each: times(each)[0]) for cluster in clusters]
    trials = sum(map(len, found))
    return TimeFigures(
        trials=trials,
        unbounded=sum(math.isinf(value) for cluster in found for value in cluster),
        left_out=sum(times(each.collected)[1] for cluster in clusters for each in cluster),
        percentiles=tuple(suite_percentile(found, q, CONFIDENCE) for q in QUANTILES) if trials else (),
    )


def _by_k(figure: Callable[[int], float | None]) -> dict[int, float]:
    found = {k: figure(k) for k in range(1, LARGEST_K + 1)}
    return {k: value for k, value in found.items() if value is not None}


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
