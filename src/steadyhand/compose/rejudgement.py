"""The stored trials of a run, to be judged again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from steadyhand.compose.settings import Settings, restore_options
from steadyhand.compose.trust import require_trusted_record
from steadyhand.errors import SetupError, StoreError
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

    @property
    def complete(self) -> bool:
        """Whether every planned trial is available to be judged."""
        return self._reader.finished and not self._reader.unreadable()

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
            more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
            raise SetupError(f"no longer in the files of run {self.id}: {', '.join(gone[:3])}{more}; put them back")
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
    given, defaults = here.options, RunOptions()
    named = {
        name: value
        for name in RunOptions.__struct_fields__
        if (value := getattr(given, name)) != getattr(defaults, name)
    }
    kept = msgspec.structs.replace(
        before,
        record=None,
        replay=None,
        trials=None,
        max_cost=None,
        max_tokens=None,
        judge_canaries=None,
        only=(),
        failed_of=None,
        shard=None,
        workers=None,
        engine=None,
        ray_address=None,
        ray_env=(),
        trust=False,
        seed=header.seed,
        rejudge=record.absolute(),
    )
    unasked = {"agent": None, "agents": (), "allow_commands": False, "live": False}
    require_trusted_record(record, msgspec.structs.replace(kept, **unasked), here.project)
    return selection, msgspec.structs.replace(kept, **named)
