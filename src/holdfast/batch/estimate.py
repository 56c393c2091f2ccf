"""What a run would take, before it is run."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.batch.plan import PlannedTrial
from holdfast.records.base import Record
from holdfast.records.scenario import Ask, Converse, Scenario

_JUDGED = frozenset(("llm_judge", "judge", "context_retention", "conversation_flow", "user_satisfaction"))


class Estimate(Record):
    """Bounds on the calls to models: of the agent and the simulated user, and checks that may ask a judge."""

    trials: int = 0
    scenarios: int = 0
    calls_at_least: int = 0
    calls_at_most: int = 0
    judge_checks: int = 0

    def __str__(self) -> str:
        calls = f"{self.calls_at_least} to {self.calls_at_most}"
        if self.calls_at_least == self.calls_at_most:
            calls = f"{self.calls_at_least}"
        judged = f", up to {self.judge_checks} checks by a judge" if self.judge_checks else ""
        return f"{self.trials} trials of {self.scenarios} scenarios, {calls} model calls{judged}"


def estimate(planned: Iterable[PlannedTrial]) -> Estimate:
    """An agent with tools makes more calls than one a turn; that is not known before."""
    of: dict[str, tuple[int, int, int]] = {}
    total = [0, 0, 0]
    trials = 0
    for trial in planned:
        scenario = trial.scenario
        if scenario.id not in of:
            of[scenario.id] = _of_one(scenario)
        trials += 1
        for at, count in enumerate(of[scenario.id]):
            total[at] += count
    return Estimate(
        trials=trials,
        scenarios=len(of),
        calls_at_least=total[0],
        calls_at_most=total[1],
        judge_checks=total[2],
    )


def _of_one(scenario: Scenario) -> tuple[int, int, int]:
    least = most = judged = 0
    for step in scenario.steps:
        judged += sum(spec.type in _JUDGED for spec in step.evaluations)
        if isinstance(step.task, Ask):
            least += 1
            most += 1
        elif isinstance(step.task, Converse):
            config = step.task.config
            least += 1
            most += config.max_turns * (2 if config.user_simulator else 1)
            judged += sum(spec.type in _JUDGED for spec in config.final_evaluations)
            judged += config.max_turns * sum(spec.type in _JUDGED for spec in config.turn_evaluations)
    return least, most, judged
