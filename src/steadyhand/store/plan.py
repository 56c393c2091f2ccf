"""What a run set out to do, kept in its record so that it can be carried on and listed in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from steadyhand.records.base import Record
from steadyhand.records.run import TrialKey


class PlanEntry(Record):
    """One trial. `digest` changes with whatever would make it another trial: its scenario, model, agent or judge."""

    key: TrialKey
    seed: int = 0
    digest: str = ""


def write_plan(connection: sqlite3.Connection, plan: Iterable[PlanEntry]) -> None:
    connection.executemany(
        "INSERT INTO plan (position, scenario_id, idx, seed, digest) VALUES (?, ?, ?, ?, ?)",
        ((at, e.key.scenario_id, e.key.index, e.seed, e.digest) for at, e in enumerate(plan, start=1)),
    )


def read_plan(connection: sqlite3.Connection) -> Iterator[PlanEntry]:
    """In order."""
    rows = connection.execute("SELECT scenario_id, idx, seed, digest FROM plan ORDER BY position")
    for scenario_id, index, seed, digest in rows:
        yield PlanEntry(key=TrialKey(scenario_id=scenario_id, index=index), seed=seed, digest=digest)
