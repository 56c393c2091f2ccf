"""The samples of a run by scenario and target, for comparisons and gates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from steadyhand.judging.comparison_side import Sample, SampleCollector, TrialFacts
from steadyhand.judging.cost import spent_on
from steadyhand.records.event import ModelCalled
from steadyhand.records.run import Target, TrialRecord

if TYPE_CHECKING:
    from steadyhand.reading.run import Reading


def unit_of(recorded_id: str, agent: str, model: str | None, target: Target | None = None) -> tuple[str, str]:
    """The key for pairing trials: the scenario, which is the same for all targets, and the target.

    The target is the model if it was asked directly, else the agent, with its model if the run chose one. What a matrix
    varies besides the two is part of the scenario.
    """
    label = model if model is not None and agent == f"model:{model}" else agent
    if target is None:
        return recorded_id, label
    if label and target.model is not None and target.model not in label:
        label = f"{label}, {target.model}"
    return paired_id(target), label


def paired_id(target: Target) -> str:
    cell = ",".join(f"{name}={value}" for name, value in sorted(target.cell.items()))
    return f"{target.scenario}[{cell}]" if cell else target.scenario


def check_label(type_: str, name: str | None, path: str | None) -> str:
    return name or f"{type_} ({path or 'no path'})"


class TrialSamples:
    """The samples of a run, gathered as its trials are read."""

    def __init__(self, reading: Reading) -> None:
        self._reading: Reading = reading
        self._collector: SampleCollector = SampleCollector()

    def add(self, trial: TrialRecord) -> None:
        judged = trial.judged
        targets = self._reading.header.targets
        scenario_id, target = unit_of(
            trial.key.scenario_id, trial.agent, trial.model, targets.get(trial.key.scenario_id)
        )
        self._collector.add(
            TrialFacts(
                recorded_id=trial.key.scenario_id,
                scenario_id=scenario_id,
                index=trial.key.index,
                target=target,
                place=trial.place,
                verdict=judged.verdict,
                latency_ms=judged.latency_ms,
                latency_cut=judged.latency_cut,
                latency_spoiled=bool(judged.latency_spoiled),
                tier=judged.latency_tier,
                safe_ms=judged.safe_ms,
                safety=judged.safety_score,
                classes=judged.failure_classes,
                checks=tuple(
                    [check_label(each.type, each.name, each.place and each.place.path) for each in trial.evaluations]
                ),
                judges=tuple([each.judge.model for each in trial.evaluations if each.judge is not None]),
                cost=self._cost(trial),
            )
        )

    def _cost(self, trial: TrialRecord) -> float | None:
        """Of the agent's calls; None if unknown."""
        calls = list(_paid_for(trial))
        spent = [spent_on(call, self._reading.prices) for call in calls if call.purpose == "agent"]
        return sum(each.cost for each in spent) if calls and all(each.cost_known for each in spent) else None

    def samples(self) -> tuple[Sample, ...]:
        reading = self._reading
        needed = reading.planned
        if reading.header.until is not None:
            needed = {rate.scenario_id: rate.total for rate in reading.rates}
        paired = {recorded_id: paired_id(target) for recorded_id, target in reading.header.targets.items()}
        return self._collector.samples(planned=needed, fingerprints=reading.header.fingerprints, paired=paired)


def _paid_for(trial: TrialRecord) -> Iterator[ModelCalled]:
    for each in (trial, *trial.earlier, *trial.replaced):
        if each is trial:
            yield from (event for event in trial.events if type(event) is ModelCalled)
        else:
            yield from _paid_for(each)
