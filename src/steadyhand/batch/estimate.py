"""What a run would take, before it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from steadyhand.batch.plan import PlannedTrial
from steadyhand.records.base import Record
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.scenario import Ask, Converse, Scenario

_OURS = frozenset(("model", "runtime"))


class Estimate(Record):
    """Bounds on what asks a model: turns of the agent and of the simulated user, and checks that may need a judge.

    `agents` are the kinds of agent that take part: what a turn of theirs costs is known of `model` alone.
    """

    trials: int = 0
    scenarios: int = 0
    combinations: int = 0
    turns_at_least: int = 0
    turns_at_most: int = 0
    user_turns: int = 0
    judge_checks: int = 0
    agents: frozenset[str] = frozenset()

    def __str__(self) -> str:
        least, most = self.turns_at_least, self.turns_at_most
        turns = f"{least}" if least == most else f"{least} to {most}"
        if self.agents <= {"model"}:
            told = [f"{turns} model call{'' if most == 1 else 's'}"]
        else:
            noun = f"turn{'' if most == 1 else 's'} of the agent"
            told = [f"{turns} {noun}" + (", each a model call or more" if self.agents <= _OURS else "")]
        if self.user_turns:
            told.append(f"up to {_count(self.user_turns, 'model call')} for the simulated user")
        if self.judge_checks:
            told.append(f"up to {_count(self.judge_checks, 'check')} by a judge")
        noun = "combination" if self.combinations == self.scenarios else "scenario"
        many = f"{_count(self.trials, 'trial')} of {_count(self.scenarios, noun)}"
        return f"{many}: {'; '.join(told)}"


class _Cost(Record):
    least: int = 0
    most: int = 0
    user: int = 0
    judged: int = 0


def estimate(
    planned: Iterable[PlannedTrial],
    agent_of: Callable[[Scenario], str],
    asks_judge: Callable[[Scenario, EvaluationSpec], bool],
    scores_rubric: Callable[[Scenario], bool] = lambda scenario: False,
) -> Estimate:
    """`agent_of` gives the kind of agent of a scenario, `asks_judge` whether a check of it asks a judge and
    `scores_rubric` whether there is a judge for its rubric."""
    of: dict[str, _Cost] = {}
    agents: set[str] = set()
    total = [0, 0, 0, 0]
    trials = combinations = 0
    for trial in planned:
        scenario = trial.scenario
        cost = of.get(scenario.id)
        if cost is None:
            cost = of[scenario.id] = _of_one(scenario, asks_judge, rubric=scores_rubric(scenario))
            combinations += scenario.cell is not None
            agents.update([agent_of(scenario)] if cost.most else [])
        trials += 1
        for at, count in enumerate((cost.least, cost.most, cost.user, cost.judged)):
            total[at] += count
    return Estimate(
        trials=trials,
        scenarios=len(of),
        combinations=combinations,
        turns_at_least=total[0],
        turns_at_most=total[1],
        user_turns=total[2],
        judge_checks=total[3],
        agents=frozenset(agents),
    )


def _of_one(scenario: Scenario, asks_judge: Callable[[Scenario, EvaluationSpec], bool], *, rubric: bool) -> _Cost:
    def count(specs: Iterable[EvaluationSpec]) -> int:
        return sum(asks_judge(scenario, spec) for spec in specs)

    least = most = user = 0
    judged = int(rubric)
    for step in scenario.steps:
        judged += count(step.evaluations)
        if isinstance(step.task, Ask):
            least += 1
            most += 1
        elif isinstance(step.task, Converse):
            config = step.task.config
            least += 1
            most += config.max_turns
            user += config.max_turns if config.user_simulator else 0
            conditions = sum(condition.llm_judge is not None for condition in config.termination_conditions)
            judged += config.max_turns * (count(config.turn_evaluations) + conditions)
            judged += count(config.final_evaluations) + sum(count(turn.evaluations) for turn in config.script)
    return _Cost(least=least, most=most, user=user, judged=judged)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
