"""Reading a run record, also while it is being written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from steadyhand.errors import StoreError
from steadyhand.records.base import Record
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord
from steadyhand.store import codec
from steadyhand.store.lock import has_writer
from steadyhand.store.plan import PlanEntry, read_plan
from steadyhand.store.schema import reading

_PAGE = 64


class TrialRow(Record):
    """What a listing shows of a trial, read without decoding it."""

    key: TrialKey
    name: str
    verdict: Verdict
    outcome: Outcome | None = None
    latency_ms: float | None = None


class RunReader:
    """Opened for each question and closed again: a reader holds no lock, needs no closing and never hinders the writer.

    Every method raises `StoreError` when the file is damaged. `header` is as it stood when the reader was opened.
    """

    def __init__(self, path: Path, header: RunHeader) -> None:
        """Use `open`."""
        self.path: Path = path
        self.header: RunHeader = header

    @classmethod
    def open(cls, path: Path) -> RunReader:
        """Raises `StoreError` when there is no such file, or it is damaged, no run record or of a newer format."""
        with reading(path) as connection:
            row = connection.execute("SELECT header FROM run").fetchone()
            connection.execute("SELECT count(*) FROM trial").fetchone()
        if row is None:
            raise StoreError(f"{path} cannot be read as a run record: it has no header")
        try:
            return cls(path, msgspec.json.decode(row[0], type=RunHeader))
        except msgspec.MsgspecError as error:
            raise StoreError(f"{path} cannot be read as a run record: its header is damaged: {error}") from error

    @property
    def status(self) -> str:
        """A run that was killed is `interrupted`, although nobody was left to write that down."""
        with reading(self.path) as connection:
            written = connection.execute("SELECT status FROM run").fetchone()[0]
        return written if written != "running" or has_writer(self.path) else "interrupted"

    @property
    def finished(self) -> bool:
        return self.status == "finished"

    def counts(self) -> dict[Verdict, int]:
        """How many trials of each verdict; every verdict is there."""
        with reading(self.path) as connection:
            found = dict(connection.execute("SELECT verdict, count(*) FROM trial GROUP BY verdict").fetchall())
        return {verdict: found.get(verdict.value, 0) for verdict in Verdict}

    def rows(self) -> list[TrialRow]:
        """Every trial in short, in the order of the plan."""
        query = "SELECT scenario_id, idx, name, verdict, outcome, latency_ms FROM trial ORDER BY position"
        with reading(self.path) as connection:
            return [
                TrialRow(
                    key=TrialKey(scenario_id=scenario, index=index),
                    name=name,
                    verdict=Verdict(verdict),
                    outcome=Outcome(outcome) if outcome else None,
                    latency_ms=latency,
                )
                for scenario, index, name, verdict, outcome, latency in connection.execute(query)
            ]

    def trials(self) -> Iterator[TrialRecord]:
        """Every trial, in the order of the plan, decoded one by one as they are asked for."""
        last = 0
        while True:
            with reading(self.path) as connection:
                dictionary = _dictionary(connection)
                query = "SELECT position, body FROM trial WHERE position > ? ORDER BY position LIMIT ?"
                page = connection.execute(query, (last, _PAGE)).fetchall()
            for position, body in page:
                last = position
                yield self._decode(body, dictionary)
            if len(page) < _PAGE:
                return

    def plan(self) -> list[PlanEntry]:
        """What the run set out to do, in order."""
        with reading(self.path) as connection:
            return list(read_plan(connection))

    def planned_per_scenario(self) -> dict[str, int]:
        """How many trials of each scenario there should be, in the order of the plan."""
        query = "SELECT scenario_id, count(*) FROM plan GROUP BY scenario_id ORDER BY min(position)"
        with reading(self.path) as connection:
            return dict(connection.execute(query).fetchall())

    def counts_per_scenario(self) -> dict[tuple[str, Verdict], int]:
        """How many trials of a scenario came to a verdict; those that are none are not there."""
        query = "SELECT scenario_id, verdict, count(*) FROM trial GROUP BY scenario_id, verdict"
        with reading(self.path) as connection:
            return {(scenario, Verdict(verdict)): count for scenario, verdict, count in connection.execute(query)}

    def trial(self, key: TrialKey) -> TrialRecord | None:
        """One trial, or None when the record does not hold it."""
        with reading(self.path) as connection:
            query = "SELECT body FROM trial WHERE scenario_id=? AND idx=?"
            row = connection.execute(query, (key.scenario_id, key.index)).fetchone()
            dictionary = _dictionary(connection)
        return self._decode(row[0], dictionary) if row else None

    def _decode(self, body: bytes, dictionary: bytes) -> TrialRecord:
        try:
            return codec.decode(codec.decompress(body, dictionary))
        except StoreError as error:
            raise StoreError(f"{self.path}: {error}") from error


def _dictionary(connection: sqlite3.Connection) -> bytes:
    return connection.execute("SELECT dictionary FROM run").fetchone()[0]
