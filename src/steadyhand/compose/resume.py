"""Resumes a run from its record: what is still to do, and what has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from steadyhand.batch.plan import PlannedPart
from steadyhand.compose.fingerprint import differences, total
from steadyhand.compose.run import Run
from steadyhand.compose.settings import Settings, restore_options
from steadyhand.compose.trust import require_trusted_record
from steadyhand.errors import SetupError, UsageError
from steadyhand.records.config import RunOptions
from steadyhand.records.run import RunHeader
from steadyhand.redaction import MASK, SHORTEST
from steadyhand.store.reader import RunReader
from steadyhand.version import __version__


class Resumed(NamedTuple):
    """`run.pending` are the trials that are missing or were in error; `changes` lists what has changed."""

    run: Run
    changes: list[str]


def resume_run(record: Path, here: Settings, **where: Any) -> Resumed:
    """`here` are the current settings: they define the project, and whether to trust files outside it. `where` are
    options on where and how many trials run at once; those that are None keep their old values.

    Raises `UsageError` if the run cannot be rebuilt from its record, and `StoreError` if that cannot be read.
    """
    reader = RunReader.open(record)
    folder, selection, options = restore_options(reader.header.options)
    refuse_redacted(options)
    require_trusted_record(record, options, here.project)
    options = msgspec.structs.replace(
        options,
        seed=reader.header.seed,
        out=record.parent,
        trust=here.options.trust,
        **{name: value for name, value in where.items() if value},
    )
    try:
        run = Run(selection, options, begun=(reader.header, record))
        prints = run.fingerprints()
    except UsageError as error:
        if folder == Path.cwd():
            raise
        raise SetupError(
            f"the run was started in {folder}; resume it there or in a copy of that folder, since its paths are "
            f"relative to it. Here: {error}"
        ) from error
    planned = run.planned
    changes = _version(reader.header) + _changes(reader, set(planned.per_scenario()), prints)
    missing, run.proved = reader.to_do(), reader.proved
    gone = dict.fromkeys(key.scenario_id for key in missing if not planned.has(key) and key.scenario_id in prints)
    changes += [f"{scenario_id}: fewer trials than before" for scenario_id in gone]
    decisions = run.decisions()
    wanted = [key for key in missing if planned.has(key) and (decisions is None or decisions.wants(key))]
    run.pending = run.doable(PlannedPart(planned, wanted))
    return Resumed(run, changes)


def refuse_redacted(options: RunOptions) -> None:
    """Raises `SetupError` for an agent that cannot be restored from the record."""
    if any(MASK * SHORTEST in agent for agent in options.users_agents):
        raise SetupError(
            "the agent was given a secret on its command line or in its URL, and records keep no secrets: start a new "
            "run, and put the secret in a variable, as in --agent 'command:TOKEN=$TOKEN ./agent'"
        )


def _changes(reader: RunReader, loaded: set[str], prints: dict[str, dict[str, str]]) -> list[str]:
    """What has changed, scenario by scenario."""
    found: dict[str, None] = {}
    for scenario_id, digest in reader.planned_digests().items():
        if scenario_id not in loaded:
            found[f"{scenario_id}: it is no longer in the files"] = None
        elif digest != total(prints[scenario_id]):
            before = reader.header.fingerprints.get(scenario_id, {})
            for changed in differences(before, prints[scenario_id]) if before else ["it has changed"]:
                found[f"{scenario_id}: {changed}"] = None
    return list(found)


def _version(header: RunHeader) -> list[str]:
    """Checks and prompts are part of Steadyhand, and may differ in another version."""
    if header.steadyhand_version == __version__:
        return []
    return [f"Steadyhand was updated: the run was started with {header.steadyhand_version}, this is {__version__}"]
