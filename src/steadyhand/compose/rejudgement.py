"""Judging stored trials: those of a run that is judged again, and outside a run."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from steadyhand.compose.builder import Builder, RunParts
from steadyhand.compose.cast import Casts
from steadyhand.compose.models import Tape, build_gate, providers_of
from steadyhand.compose.settings import Settings, restore_options
from steadyhand.compose.trust import require_trusted_record
from steadyhand.engine.limits import LagMonitor, SpendingLimit
from steadyhand.errors import SetupError, StoreError
from steadyhand.judging.cost import Prices
from steadyhand.records.base import first_few
from steadyhand.records.config import RunOptions, Selection
from steadyhand.records.run import PlannedTrial, TrialKey, TrialRecord
from steadyhand.records.scenario import Scenario
from steadyhand.store.reader import RunReader


class Origin:
    """The run that trials are taken from. Raises `StoreError` when its record cannot be read."""

    def __init__(self, record: Path) -> None:
        self._reader: RunReader = RunReader.open(record)
        self.id: str = self._reader.header.id
        unreadable = self._reader.unreadable()
        self._stored: frozenset[TrialKey] = frozenset(
            row.key for row in self._reader.rows() if row.key not in unreadable
        )
        self.numbers: dict[str, Sequence[int]] = self._reader.planned_numbers()
        """The planned trials, by scenario; for a shard, only its own."""

    @cached_property
    def flaw(self) -> str | None:
        """Why not every planned trial is available to be judged, as it was written; None if it is."""
        return self._reader.flaw()

    @property
    def seed(self) -> int:
        return self._reader.header.seed

    def scenarios(self, loaded: Sequence[Scenario], options: RunOptions) -> list[Scenario]:
        """The current versions of the run's scenarios, in its order and with its number of trials.

        Raises `SetupError` when one is no longer in the files.
        """
        known = {scenario.id: scenario for scenario in loaded}
        gone = [scenario_id for scenario_id in self.numbers if scenario_id not in known]
        if gone:
            raise SetupError(f"no longer in the files of run {self.id}: {first_few(gone, 3)}; put them back")
        found: list[Scenario] = []
        for scenario_id, numbers in self.numbers.items():
            rubric = options.rubric or known[scenario_id].rubric
            found.append(msgspec.structs.replace(known[scenario_id], trials=len(numbers), rubric=rubric))
        return found

    def stored(self, planned: Iterable[PlannedTrial]) -> list[PlannedTrial]:
        """The trials that the run has recorded."""
        return [each for each in planned if each.key in self._stored]

    def trial(self, key: TrialKey) -> TrialRecord:
        """Raises `StoreError` when the record has lost it in the meantime."""
        found = self._reader.trial(key)
        if found is None:
            raise StoreError(f"run {self.id} no longer has the trial {key}")
        return found


def rejudge_options(record: Path, here: Settings) -> tuple[Selection, RunOptions]:
    """What to load and how, to judge the trials of a record again.

    The current options (`here`) take precedence; the rest is as when the run was started, without options that only
    concern running agents. Raises `SetupError` for a run whose scenarios cannot be found again, or that is not trusted.
    """
    header = RunReader.open(record).header
    folder, selection, before = restore_options(header.options)
    if folder != Path.cwd() and not all(Path(path).is_absolute() or path.startswith("@") for path in selection.paths):
        missing = [path for path in selection.paths if not Path(path).exists() and not any(Path().glob(path))]
        if missing:
            raise SetupError(
                f"run {header.id} was started in {folder}, and its paths are relative to that folder; {missing[0]} was "
                "not found here: change to that folder or to a copy of it"
            )
    kept = msgspec.structs.replace(before.without("rejudge"), seed=header.seed, rejudge=record.absolute())
    require_trusted_record(record, kept, here.project, runs_agents=False)
    return selection, msgspec.structs.replace(kept, **here.options.given())


class Judging(NamedTuple):
    """What judges stored trials, outside a run."""

    builder: Builder
    prices: Prices
    tape: Tape


@contextlib.asynccontextmanager
async def judging(scenarios: Sequence[Scenario], casts: Casts) -> AsyncGenerator[Judging]:
    """The judge of these scenarios, ready to be asked. Raises `UsageError`."""
    settings, providers = casts.settings, providers_of(casts.all(scenarios))
    free = tuple(sorted(name for name, facts in providers.items() if facts.free))
    prices = Prices(dict(settings.config.prices), elsewhere=settings.own_servers(providers), free=free)
    tape = Tape(settings.options, settings.redactor())
    with LagMonitor() as lag:
        parts = RunParts(
            casts=casts,
            workspaces=Path(),
            lag=lag,
            gate=build_gate(providers, settings, lambda message: None),
            tape=tape,
            budget=SpendingLimit(prices, max_cost=settings.options.max_cost, max_tokens=settings.options.max_tokens),
        )
        builder = Builder(parts)
        try:
            builder.prepare_judging(scenarios)
            yield Judging(builder, prices, tape)
        finally:
            await builder.close()
            tape.close()
