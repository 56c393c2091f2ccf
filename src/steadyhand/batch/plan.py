"""Which trials a run consists of."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import overload

from steadyhand.errors import SetupError
from steadyhand.records.base import Record
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import Scenario

MOST = 1_000_000


class PlannedTrial(Record):
    """`seed` is the trial's own, which models are asked with; `mock_seed` is what the chance of mocks is drawn from."""

    scenario: Scenario
    key: TrialKey
    seed: int
    mock_seed: int


class Plan(Sequence[PlannedTrial]):
    """Every scenario as often as `trials`, else the scenario itself, asks for, in order.

    Trials are made when they are asked for: a long run takes no more memory than a short one. A trial's seed depends on
    the run's seed and on its key alone. In a combination of a matrix, and for each of several targets, the chance of
    mocks depends on the key that the trial would have in the base scenario: a service fails for all of them alike.
    """

    def __init__(self, scenarios: Sequence[Scenario], *, seed: int, trials: int | None = None) -> None:
        """Raises `SetupError` for more than a run can hold."""
        self._scenarios = tuple(scenarios)
        self._seed = seed
        self._ends = list(accumulate(trials or scenario.trials or 1 for scenario in scenarios))
        if len(self) > MOST:
            raise SetupError(
                f"{len(self)} trials of {len(scenarios)} scenarios are more than the {MOST} of a run; split it"
            )

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def per_scenario(self) -> dict[str, int]:
        """The number of trials of each scenario, in order."""
        begins = [0, *self._ends]
        return {
            scenario.id: end - begin for scenario, begin, end in zip(self._scenarios, begins, self._ends, strict=False)
        }

    def __iter__(self) -> Iterator[PlannedTrial]:
        begin = 0
        for scenario, end in zip(self._scenarios, self._ends, strict=True):
            for index in range(end - begin):
                yield self._trial(scenario, index)
            begin = end

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
        return self._trial(self._scenarios[which], number - begin)

    def _trial(self, scenario: Scenario, index: int) -> PlannedTrial:
        key = TrialKey(scenario_id=scenario.id, index=index)
        own = mocks = trial_seed(self._seed, key)
        base = scenario.cell or scenario.target
        if base is not None:
            mocks = trial_seed(self._seed, TrialKey(scenario_id=base.base_id, index=index))
        return PlannedTrial(scenario=scenario, key=key, seed=own, mock_seed=mocks)


def trial_seed(seed: int, key: TrialKey) -> int:
    digest = hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


Predicate = Callable[[str], bool]
_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")


def select(scenarios: Sequence[Scenario], *, tags: Sequence[str] = (), expression: str | None = None) -> list[Scenario]:
    """Those that carry every tag and match the expression. Raises `SetupError` for a malformed expression."""
    wanted = {tag.casefold() for tag in tags}
    matches = _Parser(expression).parse() if expression else None
    return [
        scenario
        for scenario in scenarios
        if wanted <= {tag.casefold() for tag in scenario.tags}
        and (matches is None or matches(f"{scenario.id} {scenario.name}".casefold()))
    ]


class _Parser:
    """`word`, `not`, `and`, `or` and parentheses, with the precedence of Python."""

    def __init__(self, text: str) -> None:
        self._text: str = text
        self._tokens: list[str] = _TOKEN.findall(text)

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
