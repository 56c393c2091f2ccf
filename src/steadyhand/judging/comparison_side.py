"""One side of a comparison: a run, or one target of it, as figures per scenario."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from steadyhand.judging.statistics import Tries
from steadyhand.records.base import Record
from steadyhand.records.evaluation import FailureClass, LatencyTier, Verdict
from steadyhand.records.location import Place
from steadyhand.records.run import JUDGE_PART, SCENARIO_PART

if TYPE_CHECKING:
    Numbers: TypeAlias = "array[int]"
    Times: TypeAlias = "array[float]"
else:  # arrays take a parameter from Python 3.12 on
    Numbers = Times = array
_TIERS = tuple(LatencyTier)


class TrialFacts(Record):
    """The data of one trial that a comparison needs. `cost` is that of the agent's calls; None if unknown.
    `recorded_id` is the scenario's id in the run; `scenario_id`, which is the same for all targets, is used for
    pairing.
    """

    recorded_id: str
    scenario_id: str
    index: int
    target: str
    place: Place
    verdict: Verdict
    latency_ms: float | None = None
    latency_cut: bool = False
    latency_spoiled: bool = False
    tier: LatencyTier | None = None
    safe_ms: float | None = None
    """Infinite if the answer never became safe; None if unknown."""
    safety: float | None = None
    classes: tuple[FailureClass, ...] = ()
    checks: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    cost: float | None = None


class Sample(Record):
    """The trials of one scenario by one target. `passed` and `failed` are their numbers, so that they can be shown.

    Arrays, as there may be a million trials; nobody changes them.
    """

    recorded_id: str
    scenario_id: str
    target: str
    place: Place
    parts: dict[str, str] = {}
    """Digests of what its trials depend on, as in the header of a run."""
    passed: Numbers = array("q")
    failed: Numbers = array("q")
    undecided: int = 0
    """Inconclusive, in error, or planned but not run."""
    latencies: Times = array("d")
    latencies_cut: int = 0
    """How many of them are lower bounds, because the call was cut off at its deadline."""
    latencies_left_out: int = 0
    """Measured, but disturbed."""
    left_out_ms: float = 0.0
    """The sum of those."""
    safe_times: Times = array("d")
    safety: float | None = None
    tier: LatencyTier | None = None
    """The tier that at least half of the graded trials met."""
    class_a: int = 0
    checks: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    costs: Times = array("d")
    """Of all its trials; empty if any is unknown."""

    @property
    def decided(self) -> int:
        return len(self.passed) + len(self.failed)

    @property
    def tries(self) -> Tries:
        return len(self.passed), self.decided

    @property
    def cost(self) -> float | None:
        """The mean of all its trials; None if any is unknown."""
        return math.fsum(self.costs) / len(self.costs) if self.costs else None

    @property
    def total(self) -> int:
        return self.decided + self.undecided

    def changed(self, other: Sample) -> list[str]:
        """Whether the scenario or the judge differs or may differ, by its name in the fingerprint."""
        found = [part for part in (SCENARIO_PART, JUDGE_PART) if self.parts.get(part) != other.parts.get(part)]
        if SCENARIO_PART not in found and SCENARIO_PART not in self.parts:
            found.append(SCENARIO_PART)
        if JUDGE_PART not in found and self.judges and other.judges and self.judges != other.judges:
            found.append(JUDGE_PART)
        return found

    def differs(self, other: Sample) -> list[str]:
        """Everything else that the trials depend on and that differs."""
        names = dict.fromkeys((*self.parts, *other.parts))
        aside = (SCENARIO_PART, JUDGE_PART)
        return [each for each in names if each not in aside and self.parts.get(each) != other.parts.get(each)]


class Side(Record):
    """`finished` is false when trials that were planned have no verdict.

    `stopped_early`: its trials ended when the pass rate was decided, so their number depends on their results. `flaw`
    says why the record it was read from cannot be relied on, where that was asked.
    """

    name: str
    run_id: str
    started_at: str
    samples: tuple[Sample, ...]
    finished: bool = True
    stopped_early: bool = False
    flaw: str | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.target for each in self.samples))


class _Gathered:
    """Mutable on purpose: a hundred thousand trials pass through it."""

    def __init__(self, first: TrialFacts) -> None:
        self.first: TrialFacts = first
        self.passed: array[int] = array("q")
        self.failed: array[int] = array("q")
        self.undecided: int = 0
        self.latencies: array[float] = array("d")
        self.cut: int = 0
        self.left_out: int = 0
        self.left_out_ms: float = 0.0
        self.safe_times: array[float] = array("d")
        self.safety: array[float] = array("d")
        self.tiers: Counter[LatencyTier] = Counter()
        self.class_a: int = 0
        self.checks: dict[str, None] = {}
        self.judges: dict[str, None] = {}
        self.costs: array[float] = array("d")
        self.cost_known: bool = True

    def add(self, trial: TrialFacts) -> None:
        match trial.verdict:
            case Verdict.PASSED:
                self.passed.append(trial.index)
            case Verdict.FAILED:
                self.failed.append(trial.index)
            case _:
                self.undecided += 1
        self.checks.update(dict.fromkeys(trial.checks))
        self.judges.update(dict.fromkeys(trial.judges))
        self.class_a += FailureClass.CRITICAL_INVARIANT in trial.classes
        if trial.cost is None:
            self.cost_known = False
        else:
            self.costs.append(trial.cost)
        if trial.verdict is Verdict.ERROR:
            return  # its times are not those of an answer
        if trial.latency_ms is not None and trial.latency_spoiled and trial.tier is None:
            self.left_out += 1
            self.left_out_ms += trial.latency_ms
        elif trial.latency_ms is not None:
            self.latencies.append(trial.latency_ms)
            self.cut += trial.latency_cut
        if trial.tier is not None:
            self.tiers[trial.tier] += 1
        if trial.safe_ms is not None:
            self.safe_times.append(trial.safe_ms)
        if trial.safety is not None:
            self.safety.append(trial.safety)

    def sample(self, parts: Mapping[str, str], not_run: int) -> Sample:
        return Sample(
            recorded_id=self.first.recorded_id,
            scenario_id=self.first.scenario_id,
            target=self.first.target,
            place=self.first.place,
            parts=dict(parts),
            passed=self.passed,
            failed=self.failed,
            undecided=self.undecided + not_run,
            latencies=self.latencies,
            latencies_cut=self.cut,
            latencies_left_out=self.left_out,
            left_out_ms=self.left_out_ms,
            safe_times=self.safe_times,
            safety=math.fsum(self.safety) / len(self.safety) if self.safety else None,
            tier=kept_tier(self.tiers),
            class_a=self.class_a,
            checks=tuple(sorted(self.checks)),
            judges=tuple(sorted(self.judges)),
            costs=self.costs if self.cost_known else array("d"),
        )


def kept_tier(tiers: Mapping[LatencyTier, int]) -> LatencyTier | None:
    """The tier that at least half of them met; None if there are none."""
    graded = sum(tiers.values())
    kept = 0
    for tier in _TIERS:
        kept += tiers.get(tier, 0)
        if graded and 2 * kept >= graded:
            return tier
    return None


def tier_lost(before: LatencyTier | None, now: LatencyTier | None) -> bool:
    return before is not None and now is not None and _TIERS.index(now) > _TIERS.index(before)


class SampleCollector:
    """Samples by scenario and target, from trials that are added one by one."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, _Gathered]] = {}

    def add(self, trial: TrialFacts) -> None:
        of_scenario = self._found.setdefault(trial.recorded_id, {})
        gathered = of_scenario.get(trial.target)
        if gathered is None:
            gathered = of_scenario[trial.target] = _Gathered(trial)
        gathered.add(trial)

    def samples(
        self,
        *,
        planned: Mapping[str, int],
        fingerprints: Mapping[str, Mapping[str, str]],
        paired: Mapping[str, str] | None = None,
    ) -> tuple[Sample, ...]:
        """Scenarios in the order of the plan. To be asked once.

        `paired` gives the id by which a recorded one is paired, for scenarios of which no trial ran.

        A planned trial without a verdict is undecided. If several targets ran under one recorded id, its target is
        unknown; it counts for each that has fewer trials than the others.
        """
        samples: list[Sample] = []
        for recorded_id in dict.fromkeys((*planned, *self._found)):
            of_scenario = self._found.get(recorded_id, {})
            parts = fingerprints.get(recorded_id, {})
            missing = planned.get(recorded_id, 0) - sum(_size(each) for each in of_scenario.values())
            if not of_scenario:
                scenario_id = (paired or {}).get(recorded_id, recorded_id)
                samples.append(
                    Sample(
                        recorded_id=recorded_id,
                        scenario_id=scenario_id,
                        target="",
                        place=Place(file=""),
                        parts=dict(parts),
                        undecided=missing,
                    )
                )
            _attribute(of_scenario)
            most = max((_size(each) for each in of_scenario.values()), default=0)
            several = len(of_scenario) > 1
            samples += [
                each.sample(parts, max((most - _size(each)) if several else missing, 0))
                for each in of_scenario.values()
            ]
        return tuple(samples)


def _attribute(of_scenario: dict[str, _Gathered]) -> None:
    """A trial that broke before it had an agent names no target: it is undecided for all that the scenario has."""
    nameless = of_scenario.get("")
    if nameless is None or len(of_scenario) == 1 or nameless.passed or nameless.failed:
        return
    del of_scenario[""]
    for each in of_scenario.values():
        each.undecided += nameless.undecided
        each.cost_known = False


def _size(gathered: _Gathered) -> int:
    return len(gathered.passed) + len(gathered.failed) + gathered.undecided


class Matched(Record):
    """The samples of two sides that correspond to each other, and those without a counterpart."""

    both: tuple[tuple[str, Sample, Sample], ...]
    alone_a: dict[str, Sample]
    alone_b: dict[str, Sample]

    @property
    def only_a(self) -> tuple[str, ...]:
        return tuple(self.alone_a)

    @property
    def only_b(self) -> tuple[str, ...]:
        return tuple(self.alone_b)


def match_samples(a: Sequence[Sample], b: Sequence[Sample]) -> Matched:
    """By scenario; where a side has several targets of one scenario, by scenario and target."""
    one, other = _by_scenario(a), _by_scenario(b)
    both: list[tuple[str, Sample, Sample]] = []
    alone_a: dict[str, Sample] = {}
    alone_b: dict[str, Sample] = {}
    for scenario_id in dict.fromkeys((*one, *other)):
        left, right = one.get(scenario_id, []), other.get(scenario_id, [])
        if len(left) == len(right) == 1:
            both.append((scenario_id, left[0], right[0]))
            continue
        several = len(left) > 1 or len(right) > 1
        mine = {_unit(each, several=several): each for each in left}
        theirs = {_unit(each, several=several): each for each in right}
        both += [(unit, mine[unit], theirs[unit]) for unit in mine if unit in theirs]
        alone_a.update({unit: each for unit, each in mine.items() if unit not in theirs})
        alone_b.update({unit: each for unit, each in theirs.items() if unit not in mine})
    return Matched(both=tuple(both), alone_a=alone_a, alone_b=alone_b)


def _by_scenario(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for each in samples:
        found.setdefault(each.scenario_id, []).append(each)
    return found


def _unit(sample: Sample, *, several: bool) -> str:
    return f"{sample.scenario_id} @ {sample.target}" if several else sample.scenario_id
