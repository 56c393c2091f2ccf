"""The trials of a run, and an estimate of their cost."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import overload

from steadyhand.errors import SetupError
from steadyhand.records.base import Record, counted
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.run import PlannedTrial, TrialKey
from steadyhand.records.scenario import Ask, Converse, Scenario

MOST = 1_000_000
Predicate = Callable[[str], bool]
_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")


class Plan(Sequence[PlannedTrial]):
    """The planned trials, in order. The number per scenario is `trials` or, without it, set by the scenario.

    Trials are created on demand, so a long run takes no more memory than a short one. A trial's seed depends only on
    the run's seed and its key; that of a variant on the key of its original. For combinations of a matrix, for several
    targets and for variants, random failures of mocks depend on the key that the trial would have in the base scenario,
    so a service fails in the same trials for all of them.
    """

    def __init__(
        self,
        scenarios: Sequence[Scenario],
        *,
        seed: int,
        trials: int | None = None,
        numbers: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """`numbers` are the trials to run, by scenario, for scenarios of which only some trials run. Raises
        `SetupError` if there are too many trials for one run.
        """
        self._scenarios = tuple(scenarios)
        self._seed = seed
        self._by_id: dict[str, tuple[Scenario, Sequence[int]]] | None = None
        parts = numbers or {}
        self._numbers: list[Sequence[int]] = [
            parts[each.id] if each.id in parts else range(trials or each.trials or 1) for each in scenarios
        ]
        self._ends = list(accumulate(map(len, self._numbers)))
        if len(self) > MOST:
            raise SetupError(
                f"{len(self)} trials of {len(scenarios)} scenarios exceed the limit of {MOST} trials per run; split it"
            )

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def per_scenario(self) -> dict[str, int]:
        """The number of trials of each scenario, in order."""
        return {scenario.id: len(numbers) for scenario, numbers in zip(self._scenarios, self._numbers, strict=True)}

    def wanted(self, wants: Callable[[TrialKey], bool]) -> Iterator[PlannedTrial]:
        """Trials, created on demand. A scenario ends with the first trial that is no longer wanted: creating the rest
        only to skip them would block the event loop."""
        for scenario, numbers in zip(self._scenarios, self._numbers, strict=True):
            for index in numbers:
                if not wants(TrialKey(scenario_id=scenario.id, index=index)):
                    break
                yield self._trial(scenario, index)

    def has(self, key: TrialKey) -> bool:
        """Whether a trial with this key is planned."""
        return key.index in self._known().get(key.scenario_id, (None, ()))[1]

    def trial(self, key: TrialKey) -> PlannedTrial:
        """Raises `KeyError` if it is not planned."""
        if not self.has(key):
            raise KeyError(key)
        return self._trial(self._known()[key.scenario_id][0], key.index)

    def _known(self) -> dict[str, tuple[Scenario, Sequence[int]]]:
        """By its id, each scenario and the numbers of its trials."""
        if self._by_id is None:
            pairs = zip(self._scenarios, self._numbers, strict=True)
            self._by_id = {scenario.id: (scenario, numbers) for scenario, numbers in pairs}
        return self._by_id

    def __iter__(self) -> Iterator[PlannedTrial]:
        for scenario, numbers in zip(self._scenarios, self._numbers, strict=True):
            for index in numbers:
                yield self._trial(scenario, index)

    @overload
    def __getitem__(self, at: int) -> PlannedTrial: ...

    @overload
    def __getitem__(self, at: slice) -> list[PlannedTrial]: ...

    def __getitem__(self, at: int | slice) -> PlannedTrial | list[PlannedTrial]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(at)
        which = bisect_right(self._ends, number)
        begin = self._ends[which - 1] if which else 0
        return self._trial(self._scenarios[which], self._numbers[which][number - begin])

    def _trial(self, scenario: Scenario, index: int) -> PlannedTrial:
        key = TrialKey(scenario_id=scenario.id, index=index)
        variant = scenario.variant
        original = key if variant is None else TrialKey(scenario_id=variant.original, index=index)
        own = mocks = trial_seed(self._seed, original)
        base = variant or scenario.cell or scenario.target
        if base is not None:
            mocks = trial_seed(self._seed, TrialKey(scenario_id=base.base_id, index=index))
        return PlannedTrial(scenario=scenario, key=key, seed=own, mock_seed=mocks)


class PlannedPart(Sequence[PlannedTrial]):
    """Some trials of a plan, in the order of their keys, also created on demand."""

    def __init__(self, plan: Plan, keys: Sequence[TrialKey]) -> None:
        self._plan = plan
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[PlannedTrial]:
        return map(self._plan.trial, self._keys)

    @overload
    def __getitem__(self, at: int) -> PlannedTrial: ...

    @overload
    def __getitem__(self, at: slice) -> list[PlannedTrial]: ...

    def __getitem__(self, at: int | slice) -> PlannedTrial | list[PlannedTrial]:
        if isinstance(at, slice):
            return [self._plan.trial(key) for key in self._keys[at]]
        return self._plan.trial(self._keys[at])


def trial_seed(seed: int, key: TrialKey) -> int:
    """Depends only on the run's seed and the key."""
    digest = hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def select(scenarios: Sequence[Scenario], *, tags: Sequence[str] = (), expression: str | None = None) -> list[Scenario]:
    """The scenarios that have every tag and match the expression. Raises `SetupError` for a malformed expression."""
    wanted = {tag.casefold() for tag in tags}
    matches = matcher(expression) if expression else None
    return [
        scenario
        for scenario in scenarios
        if wanted <= {tag.casefold() for tag in scenario.tags}
        and (matches is None or matches(f"{scenario.id} {scenario.name}".casefold()))
    ]


def matcher(expression: str) -> Predicate:
    """Whether a lower-case text matches. Raises `SetupError` for a malformed expression."""
    return _Parser(expression).parse()


class _Parser:
    """`word`, `not`, `and`, `or` and parentheses, with the precedence of Python."""

    def __init__(self, text: str) -> None:
        self._text: str = text
        self._tokens: list[str] = _TOKEN.findall(text.rstrip())

    def parse(self) -> Predicate:
        predicate = self._either()
        if self._tokens:
            raise self._wrong()
        return predicate

    def _either(self) -> Predicate:
        first = self._both()
        while self._take("or"):
            first = _or(first, self._both())
        return first

    def _both(self) -> Predicate:
        first = self._one()
        while self._take("and"):
            first = _and(first, self._one())
        return first

    def _one(self) -> Predicate:
        if self._take("not"):
            inner = self._one()
            return lambda text: not inner(text)
        if self._take("("):
            inner = self._either()
            if not self._take(")"):
                raise self._wrong()
            return inner
        if not self._tokens or self._tokens[0] in {")", "and", "or"}:
            raise self._wrong()
        word = self._tokens.pop(0).casefold()
        return lambda text: word in text

    def _take(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token:
            self._tokens.pop(0)
            return True
        return False

    def _wrong(self) -> SetupError:
        return SetupError(f"-k {self._text!r}: expected words joined by `and`, `or`, `not` and parentheses")


def _or(left: Predicate, right: Predicate) -> Predicate:
    return lambda text: left(text) or right(text)


def _and(left: Predicate, right: Predicate) -> Predicate:
    return lambda text: left(text) and right(text)


class Estimate(Record):
    """Bounds on the number of model calls: turns of the agent and of the simulated user, and checks that may need a
    judge.

    `asks_model` is what the agents involved declare; the number of model calls per turn is known only if it is `once`.
    """

    trials: int = 0
    scenarios: int = 0
    combinations: int = 0
    turns_at_least: int = 0
    turns_at_most: int = 0
    user_turns: int = 0
    judge_checks: int = 0
    asks_model: frozenset[str] = frozenset()

    def __str__(self) -> str:
        least, most = self.turns_at_least, self.turns_at_most
        turns = f"{least}" if least == most else f"{least} to {most}"
        if self.asks_model <= {"once"}:
            parts = [f"{turns} model call{'' if most == 1 else 's'}"]
        else:
            noun = f"turn{'' if most == 1 else 's'} of the agent"
            parts = [f"{turns} {noun}" + (", each at least one model call" if "unknown" not in self.asks_model else "")]
        if self.user_turns:
            parts.append(f"up to {counted(self.user_turns, 'model call')} for the simulated user")
        if self.judge_checks:
            parts.append(f"up to {counted(self.judge_checks, 'check')} by a judge")
        noun = "combination" if self.combinations == self.scenarios else "scenario"
        many = f"{counted(self.trials, 'trial')} of {counted(self.scenarios, noun)}"
        return f"{many}: {'; '.join(parts)}"


class _Cost(Record):
    least: int = 0
    most: int = 0
    user: int = 0
    judged: int = 0


def estimate(
    planned: Iterable[PlannedTrial],
    asks_model: Callable[[Scenario], str],
    asks_judge: Callable[[Scenario, EvaluationSpec], bool],
    scores_rubric: Callable[[Scenario], bool] = lambda scenario: False,
) -> Estimate:
    """`asks_model` returns what the agent of a scenario declares (`AgentFacts`), `asks_judge` whether one of its checks
    needs a judge, and `scores_rubric` whether there is a judge for its rubric."""
    of: dict[str, _Cost] = {}
    asked: set[str] = set()
    total = [0, 0, 0, 0]
    trials = combinations = 0
    for trial in planned:
        scenario = trial.scenario
        cost = of.get(scenario.id)
        if cost is None:
            cost = of[scenario.id] = _of_one(scenario, asks_judge, rubric=scores_rubric(scenario))
            combinations += scenario.cell is not None
            asked.update([asks_model(scenario)] if cost.most else [])
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
        asks_model=frozenset(asked),
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
