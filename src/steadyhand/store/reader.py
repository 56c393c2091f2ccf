"""Reads a run record, even while it is being written, and finds the runs in a folder."""

from __future__ import annotations

import random as randomness
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from steadyhand.errors import DamagedRecord, StoreError
from steadyhand.records.base import Record, first_few
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.records.location import Place
from steadyhand.records.run import Judged, RunHeader, TrialKey, TrialRecord
from steadyhand.store import schema
from steadyhand.store.kept import kept_flaw, read_kept, write_kept
from steadyhand.store.schema import (
    SUFFIX,
    PlanEntry,
    as_stored,
    has_writer,
    key_of,
    never_begun,
    read_plan,
    read_source,
    reading,
    still_to_do,
)
from steadyhand.store.seal import Seal, SealedRun, read_seal, seal_of

_PAGE = 64
_LONGEST_PAGE = 1_024
_PAGE_BYTES = 1 << 20
_STAMP = len("20261116-104455")
_RUN_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
_SHOWN = 5
_MISMATCH = "it is not as it was written: checksum mismatch"


class TrialRow(Record):
    """A trial as shown in listings, read without decoding it."""

    key: TrialKey
    name: str
    verdict: Verdict
    outcome: Outcome | None = None
    latency_ms: float | None = None


class TrialSums(NamedTuple):
    """How many trials, and the sum of their numbers; how many of them have a latency, and the sum of these."""

    trials: int = 0
    numbers: int = 0
    timed: int = 0
    latency_ms: float = 0.0

    def plus(self, other: TrialSums) -> TrialSums:
        numbers, timed, latency_ms = self.numbers + other.numbers, self.timed + other.timed, self.latency_ms
        return TrialSums(self.trials + other.trials, numbers, timed, latency_ms + other.latency_ms)


_DECIDED = ", ".join(f"'{verdict}'" for verdict in Verdict if not still_to_do(verdict))
# An index is not covered by the seal.
_SUMS = """
SELECT scenario_id, verdict, outcome, count(*), sum(idx), count(latency_ms), total(latency_ms) FROM trial NOT INDEXED
GROUP BY scenario_id, verdict, outcome
"""
_TO_DO = f"""
SELECT scenario_id, idx FROM plan WHERE NOT EXISTS (
  SELECT 1 FROM trial WHERE trial.position = plan.position AND trial.scenario_id = plan.scenario_id
  AND trial.idx = plan.idx AND trial.verdict IN ({_DECIDED})
) ORDER BY position
"""  # noqa: S608


class RunReader:
    """Opens the file for each query: a reader holds no lock, needs no closing and never blocks the writer.

    Every method raises `StoreError` when the file is damaged. A trial that cannot be decoded does not affect others: it
    is returned and counted as an *error*. `header` is as of when the reader was opened.
    """

    def __init__(self, path: Path, header: RunHeader) -> None:
        """Use `open`."""
        self.path: Path = path
        self.header: RunHeader = header
        self._unreadable: frozenset[TrialKey] | None = None
        self._sealed: bool | None = None
        self.proved: Seal | None = None
        """The seal that the record was found to fit, once it was read."""

    @classmethod
    def open(cls, path: Path) -> RunReader:
        """Raises `StoreError` when the file is missing, damaged, not a run record or of another format."""
        with reading(path) as connection:
            row = connection.execute("SELECT header FROM run").fetchone()
            connection.execute("SELECT count(*) FROM trial").fetchone()
        if row is None:
            raise DamagedRecord(f"{path} cannot be read as a run record: it has no header")
        try:
            return cls(path, msgspec.json.decode(row[0], type=RunHeader))
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
            raise DamagedRecord(f"{path} cannot be read as a run record: its header is damaged: {error}") from error

    @property
    def status(self) -> str:
        """A killed run is `interrupted`, although its process could not record that."""
        with reading(self.path) as connection:
            written = connection.execute("SELECT status FROM run").fetchone()[0]
        return written if written != "running" or has_writer(self.path) else "interrupted"

    @property
    def finished(self) -> bool:
        return self.status == "finished"

    def flaw(self) -> str | None:
        """Why nobody should rely on the record: trials are missing from it, cannot be read, or are not those that were
        written. None if it is whole.

        A run that stopped early (`--until decided`) is whole with the trials that it had when it was finished.
        """
        if self.misplaced:
            return self.misplaced
        if unreadable := len(self.unreadable()):
            return f"{unreadable} of its trials cannot be read"
        with reading(self.path) as connection:
            planned = connection.execute("SELECT count(*) FROM plan").fetchone()[0]
            found = connection.execute("SELECT count(*) FROM trial NOT INDEXED").fetchone()[0]
            sealed = read_seal(connection)
        finished = self.status == "finished"
        expected = max(self.header.recorded or 0, sealed.trials if sealed else 0)
        if self.header.until is None or not finished:
            expected = max(expected, planned)
        if found < expected:
            missing = f"{expected - found} of its {expected} trials are missing"
            return missing if finished else f"{missing}; the run is not finished"
        if sealed is not None and not self.as_sealed():
            return _MISMATCH
        return None if finished else "the run is not finished"

    @property
    def misplaced(self) -> str | None:
        """That it lies where the record of another run belongs, if it does."""
        other = _RUN_ID.fullmatch(self.path.stem) and self.path.stem != self.header.id
        return f"it is the record of run {self.header.id}" if other else None

    def damage(self, found: int, *, read_trials: bool) -> str | None:
        """What is wrong with the record of a run that nobody is writing, in which so many trials were found; not that
        it is not finished."""
        if self.misplaced:
            return self.misplaced
        with reading(self.path) as connection:
            sealed, run, damaged = read_seal(connection), SealedRun.read(connection), kept_flaw(connection)
        if sealed is not None and sealed.run != run.checksum:
            return _MISMATCH
        if sealed is not None and sealed.trials != found:
            return f"it has {found} trials instead of {sealed.trials}"
        if read_trials and (unreadable := len(self.unreadable())):
            return f"{unreadable} of its trials cannot be read"
        return _MISMATCH if read_trials and sealed is not None and not self.as_sealed() else damaged

    def as_sealed(self) -> bool:
        """Whether the record is as it was written, byte for byte. Reads all of it, the first time."""
        if self._sealed is None:
            with reading(self.path) as connection:
                connection.execute("BEGIN")  # a running trial's seal and row are of one moment
                sealed = read_seal(connection)
                try:
                    self._sealed = sealed is not None and sealed == seal_of(connection)
                except TypeError:
                    self._sealed = False
                self.proved = sealed if self._sealed else None
        return self._sealed

    def kept(self, name: str) -> bytes | None:
        """What was kept of the trials under this name, if these are still the same."""
        with reading(self.path) as connection:
            return read_kept(connection, name)

    def kept_flaw(self) -> str | None:
        """What is wrong with what was kept; None if nothing is, or nothing was kept."""
        with reading(self.path) as connection:
            return kept_flaw(connection)

    def keep(self, found: Mapping[str, bytes]) -> None:
        """Keep these in the record. Raises `StoreError` if that cannot be written."""
        write_kept(self.path, found)

    def counts(self) -> dict[Verdict, int]:
        """The number of trials of each verdict, 0 included."""
        with reading(self.path) as connection:
            found = dict(connection.execute("SELECT verdict, count(*) FROM trial GROUP BY verdict").fetchall())
        return {verdict: found.get(verdict.value, 0) for verdict in Verdict}

    def rows(self) -> list[TrialRow]:
        """A summary of every trial, in planned order."""
        unreadable = self.unreadable()
        query = "SELECT scenario_id, idx, name, verdict, outcome, latency_ms FROM trial ORDER BY position"
        with reading(self.path) as connection:
            found = [
                TrialRow(
                    key=key_of(scenario, index),
                    name=as_stored(name, str),
                    verdict=Verdict(verdict),
                    outcome=Outcome(outcome) if outcome else None,
                    latency_ms=None if latency is None else as_stored(latency, float, int),
                )
                for scenario, index, name, verdict, outcome, latency in connection.execute(query)
            ]
        return [
            TrialRow(key=row.key, name=row.name, verdict=Verdict.ERROR) if row.key in unreadable else row
            for row in found
        ]

    def trials(self) -> Iterator[TrialRecord]:
        """Every trial, in planned order, decoded on demand."""
        for row in self._pages():
            try:
                yield _decode(row)
            except StoreError as error:
                yield self._in_place_of(row, error)

    def unreadable(self) -> frozenset[TrialKey]:
        """The trials whose record cannot be decoded, or says something else than its row. They were decoded when they
        were written, so that none is decoded again as long as all are as they were written."""
        if self._unreadable is None:
            found: set[TrialKey] = set()
            if not self.as_sealed():
                for row in self._pages():
                    try:
                        _decode(row)
                    except StoreError:
                        found.add(row.key)
            self._unreadable = frozenset(found)
        return self._unreadable

    def _pages(self) -> Iterator[_Stored]:
        last, page = 0, _PAGE
        while True:
            with reading(self.path) as connection:
                dictionary = _dictionary(connection)
                query = f"SELECT position, {_STORED} FROM trial WHERE position > ? ORDER BY position LIMIT ?"  # noqa: S608
                found = connection.execute(query, (last, page)).fetchall()
                rows = [_stored(columns, dictionary) for _, *columns in found]
            yield from rows
            if len(found) < page:
                return
            last = found[-1][0]
            # Opening the file costs as much as a dozen short trials.
            taken = sum(len(row.body) for row in rows if isinstance(row.body, bytes))
            page = max(_PAGE, min(_LONGEST_PAGE, _PAGE_BYTES * page // max(1, taken)))

    def _in_place_of(self, row: _Stored, error: StoreError) -> TrialRecord:
        return TrialRecord(
            key=row.key,
            scenario_name=row.columns[0],
            place=Place(file=str(self.path)),
            digest="",
            started_at=self.header.started_at,
            duration_ms=0.0,
            judged=Judged(verdict=Verdict.ERROR, reason=str(error)),
        )

    def source(self, file: str) -> str | None:
        """The text of a scenario file as it was when the run started; None if the record does not have it."""
        with reading(self.path) as connection:
            return read_source(connection, file)

    def plan(self) -> list[PlanEntry]:
        """The planned trials, in order."""
        with reading(self.path) as connection:
            return list(read_plan(connection))

    def to_do(self) -> list[TrialKey]:
        """The planned trials that a resume has to run, in order."""
        unreadable = self.unreadable()
        with reading(self.path) as connection:
            found = [key_of(scenario_id, index) for scenario_id, index in connection.execute(_TO_DO)]
        if unreadable.issubset(found):
            return found
        again = unreadable.union(found)
        return [entry.key for entry in self.plan() if entry.key in again]

    def planned_digests(self) -> dict[str, str]:
        """The digest that each scenario's trials were planned with."""
        query = "SELECT scenario_id, digest FROM plan GROUP BY scenario_id ORDER BY min(position)"
        with reading(self.path) as connection:
            return {as_stored(scenario, str): as_stored(digest, str) for scenario, digest in connection.execute(query)}

    def planned_per_scenario(self) -> dict[str, int]:
        """The number of planned trials of each scenario, in the order of the plan."""
        query = "SELECT scenario_id, count(*) FROM plan GROUP BY scenario_id ORDER BY min(position)"
        with reading(self.path) as connection:
            return {as_stored(scenario, str): as_stored(count, int) for scenario, count in connection.execute(query)}

    def planned_numbers(self) -> dict[str, Sequence[int]]:
        """The numbers of the planned trials of each scenario, likewise."""
        found: dict[str, list[int]] = {}
        with reading(self.path) as connection:
            for scenario_id, index in connection.execute("SELECT scenario_id, idx FROM plan ORDER BY position"):
                found.setdefault(as_stored(scenario_id, str), []).append(as_stored(index, int))
        return {scenario_id: _as_range(numbers) for scenario_id, numbers in found.items()}

    def found_per_scenario(self) -> dict[str, int]:
        """The number of trials that are there of each scenario."""
        with reading(self.path) as connection:
            query = "SELECT scenario_id, count(*) FROM trial NOT INDEXED GROUP BY scenario_id"
            return dict(connection.execute(query).fetchall())

    def sums_per_scenario(self) -> dict[tuple[str, Verdict, Outcome | None], TrialSums]:
        """The trials by scenario, verdict and outcome, without zeros."""
        with reading(self.path) as connection:
            found: dict[tuple[str, Verdict, Outcome | None], TrialSums] = {
                (scenario, Verdict(verdict), Outcome(outcome) if outcome else None): TrialSums._make(sums)
                for scenario, verdict, outcome, *sums in connection.execute(_SUMS)
            }
        if not self.unreadable():
            return found
        found = {}
        for row in self.rows():
            key = row.key.scenario_id, row.verdict, row.outcome
            times = [] if row.latency_ms is None else [row.latency_ms]
            found[key] = found.get(key, TrialSums()).plus(TrialSums(1, row.key.index, len(times), sum(times)))
        return found

    def verdicts_per_scenario(self) -> dict[str, dict[int, Verdict]]:
        """The verdict of every trial, by scenario and number."""
        unreadable = self.unreadable()
        found: dict[str, dict[int, Verdict]] = {}
        with reading(self.path) as connection:
            for scenario_id, index, verdict in connection.execute("SELECT scenario_id, idx, verdict FROM trial"):
                found.setdefault(scenario_id, {})[index] = Verdict(verdict)
        for key in unreadable:
            found[key.scenario_id][key.index] = Verdict.ERROR
        return found

    def trial(self, key: TrialKey) -> TrialRecord | None:
        """One trial, or None if the record does not have it."""
        with reading(self.path) as connection:
            query = f"SELECT {_STORED} FROM trial WHERE scenario_id=? AND idx=?"  # noqa: S608
            found = connection.execute(query, (key.scenario_id, key.index)).fetchone()
            dictionary = _dictionary(connection)
        if found is None:
            return None
        row = _stored(found, dictionary)
        try:
            return _decode(row)
        except StoreError as error:
            return self._in_place_of(row, error)


def _as_range(numbers: list[int]) -> Sequence[int]:
    """The same numbers, without keeping each of them where they are evenly spaced."""
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    even = range(numbers[0], numbers[-1] + 1, step) if step > 0 else range(0)
    return even if len(even) == len(numbers) and all(map(int.__eq__, even, numbers)) else numbers


_STORED = "scenario_id, idx, name, verdict, outcome, latency_ms, body"


class _Stored(NamedTuple):
    key: TrialKey
    columns: tuple[str, str, str | None, float | None]
    body: Any
    dictionary: bytes


def _stored(columns: Sequence[Any], dictionary: bytes) -> _Stored:
    """Raises `TypeError`."""
    scenario_id, index, name, *judged, body = columns
    return _Stored(key_of(scenario_id, index), (as_stored(name, str), *judged), body, dictionary)


def _decode(row: _Stored) -> TrialRecord:
    try:
        trial = schema.decode(schema.decompress(row.body, row.dictionary))
    except (TypeError, ValueError) as error:  # a damaged page can come back as a row with the wrong things in it
        raise StoreError(f"a trial of the run record is damaged: {error}") from error
    if trial.key != row.key or schema.columns_of(trial) != row.columns:
        raise StoreError("a trial of the run record is damaged: it is not what its row says")
    return trial


def _dictionary(connection: sqlite3.Connection) -> bytes:
    return connection.execute("SELECT dictionary FROM run").fetchone()[0]


class RunEntry(Record):
    """A run in the folder. If its file cannot be read, `problem` says why and the rest is empty; it is not `damaged` if
    it is no record, or one of another version."""

    id: str
    path: Path
    header: RunHeader | None = None
    status: str = ""
    counts: dict[Verdict, int] = {}
    problem: str | None = None
    damaged: bool = False


def list_runs(folder: Path, *, skip: int = 0, most: int | None = None) -> list[RunEntry]:
    """The runs in the folder, newest first; all of them, or `most` after the first `skip`.

    An unreadable file never hides the others.
    """
    paths = _newest_first(folder)
    return [_entry(path) for path in paths[skip : None if most is None else skip + most]]


def find_run(folder: Path, name: str) -> Path:
    """The file of a run: by id, by an unambiguous prefix of an id, as `last`, or by path.

    Raises `StoreError`, which lists the runs there are.
    """
    paths = _newest_first(folder)
    if name == "last":
        begun = next((path for path in paths if path.is_file() and not never_begun(path)), None)
        if begun is not None:
            return begun
        raise StoreError(f"there are no runs in {folder} yet")
    exact = [path for path in paths if path.stem == name]
    found = exact or [path for path in paths if name and path.stem.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        matching = first_few([path.stem for path in found], _SHOWN)
        raise StoreError(f"{name!r} matches {len(found)} runs: {matching}; give more of the id")
    if Path(name).is_file():
        return Path(name)
    there = f"runs there: {first_few([path.stem for path in paths], _SHOWN)}" if paths else "there are no runs yet"
    raise StoreError(f"no run {name!r} in {folder}, and no such file; {there}")


def _newest_first(folder: Path) -> list[Path]:
    found = [(path.stem[:_STAMP], _changed_ns(path), path) for path in folder.glob(f"*{SUFFIX}")]
    return [path for *_, path in sorted(found, reverse=True)]


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # a link to nowhere or to itself, or a file that has just gone
        return 0


def _entry(path: Path) -> RunEntry:
    try:
        reader = RunReader.open(path)
        return RunEntry(id=path.stem, path=path, header=reader.header, status=reader.status, counts=reader.counts())
    except StoreError as error:
        return RunEntry(id=path.stem, path=path, problem=str(error), damaged=isinstance(error, DamagedRecord))


def new_run_id(now: datetime, random: randomness.Random) -> str:
    """Such as `20261116-104455-3f9a`: the time to the second, and four digits to tell apart runs of the same second."""
    return f"{now:%Y%m%d-%H%M%S}-{random.getrandbits(16):04x}"
