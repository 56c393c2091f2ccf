"""Which trials a run consists of."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from holdfast.errors import SetupError
from holdfast.records.base import Record
from holdfast.records.run import TrialKey
from holdfast.records.scenario import Scenario

MOST = 1_000_000


class PlannedTrial(Record):
    """`seed` is the trial's own, which models are asked with; `mock_seed` is what the chance of mocks is drawn from."""

    scenario: Scenario
    key: TrialKey
    seed: int
    mock_seed: int


def plan(scenarios: Sequence[Scenario], *, seed: int, trials: int | None = None) -> list[PlannedTrial]:
    """Every scenario as often as `trials`, else the scenario itself, asks for, in order.

    A trial's seed depends on the run's seed and on its key alone. In a combination of a matrix the chance of mocks
    depends on the key that the trial would have in the base scenario: a service fails in all combinations alike. Raises
    `SetupError` for more than a run can hold.
    """
    total = sum(trials or scenario.trials or 1 for scenario in scenarios)
    if total > MOST:
        raise SetupError(f"{total} trials of {len(scenarios)} scenarios are more than the {MOST} of a run; split it")
    planned: list[PlannedTrial] = []
    for scenario in scenarios:
        for index in range(trials or scenario.trials or 1):
            key = TrialKey(scenario_id=scenario.id, index=index)
            own = mocks = trial_seed(seed, key)
            if scenario.cell is not None:
                mocks = trial_seed(seed, TrialKey(scenario_id=scenario.cell.base_id, index=index))
            planned.append(PlannedTrial(scenario=scenario, key=key, seed=own, mock_seed=mocks))
    return planned


def trial_seed(seed: int, key: TrialKey) -> int:
    digest = hashlib.blake2b(f"{seed}/{key}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1
