"""A run that was cut short, ready to do what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.batch.plan import PlannedTrial
from holdfast.compose.fingerprint import difference
from holdfast.compose.options import restore_options
from holdfast.compose.running import Run
from holdfast.errors import SetupError
from holdfast.records.verdict import Verdict
from holdfast.store.reader import RunReader


class Resumed(NamedTuple):
    """`run.pending` is what is missing or was in error; `changes` says what is no longer as it was."""

    run: Run
    changes: list[str]


def resume_run(record: Path, *, concurrency: int | None = None) -> Resumed:
    """Raises `UsageError` when the run cannot be made again from its record, `StoreError` when that cannot be read."""
    reader = RunReader.open(record)
    folder, selection, options = restore_options(reader.header.options)
    if folder != Path.cwd():
        raise SetupError(f"the run was started in {folder}; resume it there, since its files are named from there")
    options = msgspec.structs.replace(
        options, seed=reader.header.seed, out=record.parent, concurrency=concurrency or options.concurrency
    )
    run = Run(selection, options, begun=(reader.header, record))
    planned = {each.key: each for each in run.planned}
    verdicts = {row.key: row.verdict for row in reader.rows()}
    prints = run.fingerprints()
    changes: dict[str, None] = {}
    pending: list[PlannedTrial] = []
    for entry in reader.plan():
        found = planned.get(entry.key)
        if found is None:
            changes[f"{entry.key.scenario_id}: it is no longer in the files, or has fewer trials"] = None
            continue
        changed = difference(entry.digest, prints[entry.key.scenario_id])
        if changed is not None:
            changes[f"{entry.key.scenario_id}: {changed}"] = None
        if verdicts.get(entry.key, Verdict.ERROR) is Verdict.ERROR:
            pending.append(found)
    run.pending = pending
    return Resumed(run, list(changes))
