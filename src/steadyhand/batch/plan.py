"""Which trials a run consists of."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
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
    the run's seed and on its key alone. In a combination of a matrix the chance of mocks depends on the key that the
    trial would have in the base scenario: a service fails in all combinations alike.
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
        if scenario.cell is not None:
            mocks = trial_seed(self._seed, TrialKey(scenario_id=scenario.cell.base_id, index=index))
        return PlannedTrial(scenario=scenario, key=key, seed=own, mock_seed=mocks)


def trial_seed(seed: int, key: TrialKey) -> int:
    digest = hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
