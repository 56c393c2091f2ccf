"""A run that was cut short, ready to do what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from steadyhand.compose.fingerprint import differences, total
from steadyhand.compose.running import Run
from steadyhand.compose.settings import restore_options
from steadyhand.errors import SetupError, UsageError
from steadyhand.records.run import RunHeader
from steadyhand.store.reader import RunReader
from steadyhand.version import __version__


class Resumed(NamedTuple):
    """`run.pending` is what is missing or was in error; `changes` says what is no longer as it was."""

    run: Run
    changes: list[str]


def resume_run(record: Path, *, concurrency: int | None = None) -> Resumed:
    """Raises `UsageError` when the run cannot be made again from its record, `StoreError` when that cannot be read."""
    reader = RunReader.open(record)
    folder, selection, options = restore_options(reader.header.options)
    options = msgspec.structs.replace(
        options, seed=reader.header.seed, out=record.parent, concurrency=concurrency or options.concurrency
    )
    try:
        run = Run(selection, options, begun=(reader.header, record))
        prints = run.fingerprints()
    except UsageError as error:
        if folder == Path.cwd():
            raise
        raise SetupError(
            f"the run was started in {folder}; resume it there or in a copy of that folder, since its files are named "
            f"from there. Here: {error}"
        ) from error
    planned = {each.key: each for each in run.planned}
    changes = _version(reader.header) + _changes(reader, {key.scenario_id for key in planned}, prints)
    missing = reader.to_do()
    gone = dict.fromkeys(key.scenario_id for key in missing if key not in planned and key.scenario_id in prints)
    changes += [f"{scenario_id}: it has fewer trials than before" for scenario_id in gone]
    run.pending = run.doable([planned[key] for key in missing if key in planned])
    return Resumed(run, changes)


def _changes(reader: RunReader, loaded: set[str], prints: dict[str, dict[str, str]]) -> list[str]:
    """What is no longer as it was, scenario by scenario."""
    found: dict[str, None] = {}
    for scenario_id, digest in {entry.key.scenario_id: entry.digest for entry in reader.plan()}.items():
        if scenario_id not in loaded:
            found[f"{scenario_id}: it is no longer in the files"] = None
        elif digest != total(prints[scenario_id]):
            before = reader.header.fingerprints.get(scenario_id, {})
            for changed in differences(before, prints[scenario_id]) if before else ["it has changed"]:
                found[f"{scenario_id}: {changed}"] = None
    return list(found)


def _version(header: RunHeader) -> list[str]:
    """Checks and prompts are part of Steadyhand, and may be others in another version."""
    if header.steadyhand_version == __version__:
        return []
    return [f"Steadyhand has changed: the run was begun with {header.steadyhand_version}, this is {__version__}"]
