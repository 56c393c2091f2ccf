"""Writes the run record, trial by trial, without blocking the event loop."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from steadyhand.errors import DamagedRecord, StoreError
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord, error_in_place_of
from steadyhand.redaction import Redactor
from steadyhand.store import schema
from steadyhand.store.kept import forget_kept
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import (
    SUFFIX,
    EncodedTrial,
    PlanEntry,
    RunLock,
    RunStatus,
    begin_tables,
    connect,
    recognise,
    remove_record,
    still_to_do,
    write_plan,
    write_sources,
)
from steadyhand.store.seal import COLUMNS, Seal, SealedRun, put_seal, read_seal, seal_of, write_seal

_PLANNED = """
SELECT scenario_id, min(idx), min(position), count(*), max(idx) - min(idx) + 1, count(DISTINCT position - idx) FROM plan
GROUP BY scenario_id
"""
_INSERT = f"INSERT INTO trial ({COLUMNS}) VALUES "  # noqa: S608
_PLACES = "(?, ?, ?, ?, ?, ?, ?, ?)"
_REPLACED = f"SELECT {COLUMNS} FROM trial WHERE position=? AND scenario_id=? AND idx=? AND verdict=?"  # noqa: S608
_VERDICTS = tuple(Verdict)
_CODES: dict[str, int] = {verdict: code for code, verdict in enumerate(_VERDICTS, start=1)}
_VERDICTS_AT_ONCE = 1_000
_GATHER_S = 0.05
_ROWS_AT_ONCE = 64
"""Statements with up to this many rows are compiled once and cached by the connection."""


class _Row(NamedTuple):
    """A trial as it goes into the table, and whether it replaces an error there."""

    key: TrialKey
    values: tuple[Any, ...]
    replaces: bool


def written(record: TrialRecord, redactor: Redactor) -> tuple[TrialRecord, bytes]:
    """The trial as it is read again, without secrets, and its bytes; an error instead if it cannot be written."""
    try:
        kept, data = schema.encode(record)
        if redactor.suspects(data):
            kept, data = schema.encode(redactor.value(record))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one trial, the others are kept
        reason = f"the trial cannot be recorded: {type(error).__name__}: {error}"
        kept, data = schema.encode(redactor.value(error_in_place_of(record, reason)))
    return kept, data


class RunWriter:
    """Appends trials to a run record; a thread commits what arrived within 50 ms in one transaction.

    The caller encodes, so the thread only waits for the disk and does not compete with the event loop for the
    interpreter's lock.

    Once `flush` or `close` returns, everything appended is on disk and survives the death of the process. If the
    thread cannot write, the next call of any method raises `StoreError`; what was committed before stays readable.
    Secrets are removed before anything is written.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: RunLock, redactor: Redactor) -> None:
        """Use `create` or `open`."""
        self.path: Path = path
        self._redactor: Redactor = redactor
        self._connection: sqlite3.Connection = connection
        self._lock: RunLock = lock
        self._positions: Positions = Positions(connection)
        self._run: SealedRun = SealedRun.read(connection)
        self._dictionary: bytes = self._run.dictionary
        self._dictionary_id: int | None = None
        self._seal: Seal = read_seal(connection) or Seal()
        self._waiting: deque[_Row] = deque()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._flushes: deque[threading.Event] = deque()
        self._stop: bool = False
        self._failure: StoreError | None = None
        self._closed: bool = False
        self._thread: threading.Thread = threading.Thread(target=self._work, name="run-record", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise StoreError(
                f"no thread can be started to write the run record: {error} (ulimit -v, ulimit -u)"
            ) from error

    @classmethod
    def create(
        cls,
        folder: Path,
        header: RunHeader,
        plan: Iterable[PlanEntry] = (),
        *,
        redactor: Redactor | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> RunWriter:
        """Create a record, `<folder>/<run id>.sqlite`. Raises `StoreError` if it exists or cannot be created.

        With a `plan`, only its trials can be appended, and they are listed in its order; without one, in the order in
        which they are appended. `sources` are the texts of the scenario files.
        """
        redactor = redactor or Redactor()
        path = folder / f"{header.id}{SUFFIX}"
        if path.exists():
            raise StoreError(f"{path} already exists; a run record is never overwritten")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the run record {path} cannot be created: {error}") from error
        lock = RunLock.take(path)
        try:
            connection = connect(path, mode="rwc")
        except sqlite3.Error as error:
            remove_record(path)
            lock.release()
            raise StoreError(f"the run record {path} cannot be created: {error}") from error
        try:
            begin_tables(connection)
            text = _header_text(header, redactor)
            connection.execute("INSERT INTO run (id, header, status) VALUES (?, ?, 'running')", (header.id, text))
            write_plan(connection, plan)
            write_sources(connection, {file: redactor.text(text) for file, text in (sources or {}).items()})
            put_seal(connection, seal_of(connection))
            connection.execute("COMMIT")
            return cls(path, connection, lock, redactor)
        except (sqlite3.Error, ValueError, TypeError) as error:
            connection.close()
            remove_record(path)
            lock.release()
            raise StoreError(f"the run record {path} cannot be created: {error}") from error

    @classmethod
    def open(cls, path: Path, *, redactor: Redactor | None = None, proved: Seal | None = None) -> RunWriter:
        """Continue an existing record. `proved` is the seal that it was found to fit a moment ago: if that is still its
        seal, it is not read again. Raises `StoreError` if it cannot be written or is not a run record."""
        if not path.is_file():
            raise StoreError(f"there is no run record at {path}")
        lock = RunLock.take(path)
        try:
            connection = connect(path, mode="rw")
        except sqlite3.Error as error:
            lock.release()
            raise StoreError(f"the run record {path} cannot be opened: {error}") from error
        try:
            recognise(connection, path)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            _give_up_unreadable(connection, path, proved)
            return cls(path, connection, lock, redactor or Redactor())
        except (sqlite3.Error, StoreError, ValueError, TypeError) as error:
            connection.close()
            lock.release()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"the run record {path} cannot be opened: {error}") from error

    @property
    def dictionary(self) -> bytes:
        """What trials are compressed with; empty before the first."""
        return self._dictionary

    def decoded(self, encoded: EncodedTrial) -> TrialRecord:
        """Raises `StoreError`."""
        data = encoded.data if encoded.dictionary is None else schema.decompress(encoded.data, self._dictionary)
        return schema.decode(data)

    def append(self, record: TrialRecord, encoded: EncodedTrial | None = None) -> TrialRecord:
        """Queue a finished trial; returns at once, with the trial as written, without secrets.

        A trial that is already there is replaced if its verdict was error, as a resume does; otherwise raises
        `StoreError` and changes nothing. One that cannot be written becomes an *error* that says why. `encoded` is what
        `written` returned for it, with the secrets of this run, if another process has already called that; `record`
        may then be brief.
        """
        self._check()
        position = self._position(record.key)
        known = self._positions.verdict(position)
        if not still_to_do(known):
            raise StoreError(f"trial {record.key} is already in the run record, as {known}; only an error is replaced")
        if encoded is None:
            record, data = written(record, self._redactor)
            encoded = EncodedTrial(data)
        values = (
            position,
            record.key.scenario_id,
            record.key.index,
            *schema.columns_of(record),
            self._compressed(encoded),
        )
        self._positions.note(position, record.judged.verdict)
        self._waiting.append(_Row(record.key, values, known is not None))
        return record

    def _compressed(self, encoded: EncodedTrial) -> bytes:
        if encoded.dictionary is None:
            if not self._dictionary:
                self._dictionary = schema.dictionary_from(encoded.data)
            return schema.compress(encoded.data, self._dictionary)
        if self._dictionary_id is None:
            self._dictionary_id = schema.dictionary_id(self._dictionary)
        if encoded.dictionary != self._dictionary_id:
            raise StoreError("a worker compressed a trial with the dictionary of another record")
        return encoded.data

    def verdict(self, key: TrialKey) -> Verdict | None:
        """A trial's verdict so far, or None if it has not run."""
        position = self._positions.find(key)
        return None if position is None else self._positions.verdict(position)

    def _position(self, key: TrialKey) -> int:
        found = self._positions.find(key)
        if found is not None:
            return found
        if self._positions.planned:
            raise StoreError(f"trial {key} is not in the plan of the run record {self.path}")
        return self._positions.add(key)

    def flush(self) -> None:
        """Wait until everything appended so far is committed."""
        self._check()
        done = threading.Event()
        self._flushes.append(done)
        self._bell.put(None)
        done.wait()
        self._check()

    def close(self, status: RunStatus = "finished", *, header: RunHeader | None = None) -> None:
        """Commit what is queued, record the status and close the file. Safe to call twice.

        `header` replaces the one that the run was started with, for what is known only when it ends.

        Raises `StoreError` if not everything could be written.
        """
        if self._closed:
            return
        self._closed = True
        self._stop = True
        self._bell.put(None)
        self._thread.join()
        try:
            if self._failure is None:
                self._end(status, header)
                self._tidy_up()
        except sqlite3.Error as error:
            self._failure = self._cannot_write(error)
        finally:
            self._connection.close()
            self._lock.release()
        if self._failure is not None:
            raise self._failure

    def _end(self, status: RunStatus, header: RunHeader | None) -> None:
        text = self._run.header
        if header is not None:
            recorded = self._connection.execute("SELECT count(*) FROM trial").fetchone()[0]
            text = _header_text(msgspec.structs.replace(header, recorded=recorded), self._redactor)
        ended = self._run._replace(header=text, status=status)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("UPDATE run SET header=?, status=?", (text, status))
        write_seal(self._connection, self._seal._replace(run=ended.checksum))
        self._connection.execute("COMMIT")

    def _tidy_up(self) -> None:
        """Leave a single file, which opens even in a read-only folder; while somebody reads it, the journal stays."""
        self._connection.execute("PRAGMA busy_timeout=1000")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        try:
            self._connection.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise StoreError(f"the run record {self.path} is closed")

    def _cannot_write(self, error: Exception) -> StoreError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return DamagedRecord(
                f"the run record {self.path} was damaged while the run was writing it, by another program or the disk "
                f"({error}); trials may be lost: see what `steadyhand show` can read, and start a new run"
            )
        return StoreError(
            f"the run record {self.path} cannot be written: {error}; "
            "trials written so far are safe; free some disk space or repair the disk, then resume"
        )

    def _work(self) -> None:
        stopping = False
        while not stopping:
            # Waking a thread and a transaction cost more than a trial, so trials are gathered by polling rather than
            # announced one by one.
            with suppress(queue.Empty):
                self._bell.get(timeout=_GATHER_S)
            stopping = self._stop
            flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if rows and self._failure is None:
                self._failure = self._attempt(rows)
            for done in flushes:
                done.set()

    def _attempt(self, rows: list[_Row]) -> StoreError | None:
        try:
            self._commit(rows)
        except StoreError as error:
            return error
        except Exception as error:  # noqa: BLE001 the thread must report, whatever happened
            return self._cannot_write(error)
        return None

    def _commit(self, rows: list[_Row]) -> None:
        seal, run = self._seal, self._run
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            if run.dictionary != self._dictionary:
                run = run._replace(dictionary=self._dictionary)
                self._connection.execute("UPDATE run SET dictionary=?", (run.dictionary,))
                seal = seal._replace(run=run.checksum)
            new = [row for row in rows if not row.replaces]
            for at in range(0, len(new), _ROWS_AT_ONCE):
                self._insert(new[at : at + _ROWS_AT_ONCE])
            for row in rows:
                if row.replaces:
                    seal = seal.minus([self._take_out(row)])
                    self._insert([row])
            seal = seal.plus([row.values for row in rows])
            write_seal(self._connection, seal)
            self._connection.execute("COMMIT")
            self._seal, self._run = seal, run
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _insert(self, rows: list[_Row]) -> None:
        """One statement for all rows, since each statement releases and reacquires the interpreter's lock."""
        statement = _INSERT + ", ".join([_PLACES] * len(rows))
        try:
            self._connection.execute(statement, [value for row in rows for value in row.values])
        except sqlite3.IntegrityError as error:
            for row in rows:
                found = self._connection.execute("SELECT 1 FROM trial WHERE position=?", row.values[:1]).fetchone()
                if found is not None:
                    raise self._not_ours(row) from error
            raise

    def _take_out(self, row: _Row) -> tuple[Any, ...]:
        """Remove the error that the row replaces, and return it."""
        found = self._connection.execute(_REPLACED, (*row.values[:3], Verdict.ERROR.value)).fetchone()
        if found is None:
            raise self._not_ours(row)
        self._connection.execute("DELETE FROM trial WHERE position=?", row.values[:1])
        return found

    def _not_ours(self, row: _Row) -> StoreError:
        return StoreError(f"trial {row.key} was written to {self.path} by another process in the meantime")


def _give_up_unreadable(connection: sqlite3.Connection, path: Path, proved: Seal | None) -> None:
    """A trial that cannot be read back is an error, which may be rerun, whatever its row says. The rest is sealed
    again, unless the damage is to what no trial shows."""
    reader = RunReader.open(path)
    sealed = read_seal(connection)
    if sealed is not None and sealed.run != SealedRun.read(connection).checksum:
        raise DamagedRecord(
            f"the run record {path} cannot be continued: its header, its plan or its dictionary is not as it was "
            "written (checksum mismatch); see what `steadyhand show` can read, and start a new run"
        )
    whole = (sealed is not None and sealed == proved) or reader.as_sealed()
    connection.execute("BEGIN IMMEDIATE")
    for key in () if whole else reader.unreadable():
        connection.execute(
            "UPDATE trial SET verdict='error', outcome=NULL WHERE scenario_id=? AND idx=?", (key.scenario_id, key.index)
        )
    connection.execute("UPDATE run SET status='running'")
    forget_kept(connection)
    run = SealedRun.read(connection).checksum
    put_seal(connection, sealed._replace(run=run) if whole and sealed is not None else seal_of(connection))
    connection.execute("COMMIT")


def _header_text(header: RunHeader, redactor: Redactor) -> str:
    return msgspec.json.encode(redactor.value(header), enc_hook=repr).decode()


class _Span(NamedTuple):
    """Consecutive trials of one scenario, as in a plan."""

    first: int
    position: int
    trials: int


class Positions:
    """Each trial's row and verdict. With a plan, a few numbers per scenario, so that long runs need little memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._spans: dict[str, _Span] = {}
        self._single: dict[tuple[str, int], int] = {}
        for scenario_id, index, position, count, width, offsets in connection.execute(_PLANNED):
            if offsets == 1 and width == count:
                self._spans[scenario_id] = _Span(index, position, count)
            else:
                self._note_each(connection, scenario_id)
        self.planned: bool = bool(self._spans or self._single)
        self._next: int
        if not self.planned:
            rows = connection.execute("SELECT scenario_id, idx, position FROM trial")
            self._single = {(scenario_id, index): position for scenario_id, index, position in rows}
        last = connection.execute("SELECT coalesce(max(position), 0) FROM trial").fetchone()[0]
        self._verdicts: bytearray = bytearray(last + 1)  # 0 for none, else its place in `_VERDICTS`, from 1
        self._next = last + 1
        rows = connection.execute("SELECT position, verdict FROM trial ORDER BY position")
        while found := rows.fetchmany(_VERDICTS_AT_ONCE):
            self._note_all(*zip(*found, strict=True))

    def _note_all(self, positions: Sequence[int], verdicts: Sequence[str]) -> None:
        """Those of ascending positions; together where none is missing between them, as in most of a long run."""
        try:
            codes = bytes(map(_CODES.__getitem__, verdicts))
        except KeyError as error:
            raise ValueError(f"{error} is not a verdict") from error
        first, last = positions[0], positions[-1]
        if last - first == len(positions) - 1:
            self._verdicts[first : last + 1] = codes
        else:
            for position, code in zip(positions, codes, strict=True):
                self._verdicts[position] = code

    def _note_each(self, connection: sqlite3.Connection, scenario_id: str) -> None:
        rows = connection.execute("SELECT idx, position FROM plan WHERE scenario_id=?", (scenario_id,))
        self._single.update({(scenario_id, index): position for index, position in rows})

    def find(self, key: TrialKey) -> int | None:
        """The row of a trial, or None if it has none yet."""
        span = self._spans.get(key.scenario_id)
        if span is not None:
            at = key.index - span.first
            return span.position + at if 0 <= at < span.trials else None
        return self._single.get((key.scenario_id, key.index))

    def add(self, key: TrialKey) -> int:
        """The next row, for a trial of a run without a plan."""
        position = self._single[key.scenario_id, key.index] = self._next
        self._next += 1
        return position

    def verdict(self, position: int) -> Verdict | None:
        code = self._verdicts[position] if position < len(self._verdicts) else 0
        return _VERDICTS[code - 1] if code else None

    def note(self, position: int, verdict: Verdict) -> None:
        missing = position + 1 - len(self._verdicts)
        if missing > 0:
            self._verdicts.extend(bytes(missing))
        self._verdicts[position] = _CODES[verdict]
        self._next = max(self._next, position + 1)
