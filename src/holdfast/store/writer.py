"""Writing the run record, trial by trial, without holding up the event loop."""

from __future__ import annotations

import queue
import sqlite3
import threading
from pathlib import Path

import msgspec

from holdfast.errors import StoreError
from holdfast.records.redaction import Redactor
from holdfast.records.run import RunHeader, TrialKey, TrialRecord
from holdfast.records.verdict import Verdict
from holdfast.store import codec
from holdfast.store.schema import SUFFIX, RunStatus, connect, create_tables, recognise

_UPSERT = """
INSERT INTO trial (scenario_id, idx, name, verdict, outcome, latency_ms, body) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scenario_id, idx) DO UPDATE SET
  name=excluded.name, verdict=excluded.verdict, outcome=excluded.outcome, latency_ms=excluded.latency_ms,
  body=excluded.body
WHERE trial.verdict = 'error'
"""


class _Flush:
    def __init__(self) -> None:
        self.done: threading.Event = threading.Event()


class _Stop:
    pass


class RunWriter:
    """Appends trials to a run record; one thread encodes and commits whatever is waiting, in one transaction.

    What `flush` or `close` returned for is on disk and survives the death of the process. When the thread cannot
    write, the next call of any method raises `StoreError`; what was committed before stays readable. Secrets are
    taken out before anything is written.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, redactor: Redactor) -> None:
        """Use `create` or `open`."""
        self.path: Path = path
        self._redactor: Redactor = redactor
        self._connection: sqlite3.Connection = connection
        rows = connection.execute("SELECT scenario_id, idx, verdict FROM trial")
        self._verdicts: dict[TrialKey, Verdict] = {
            TrialKey(scenario_id=scenario, index=index): Verdict(verdict) for scenario, index, verdict in rows
        }
        self._dictionary: bytes = connection.execute("SELECT dictionary FROM run").fetchone()[0]
        self._queue: queue.SimpleQueue[TrialRecord | _Flush | _Stop] = queue.SimpleQueue()
        self._failure: StoreError | None = None
        self._closed: bool = False
        self._thread: threading.Thread = threading.Thread(target=self._work, name="run-record", daemon=True)
        self._thread.start()

    @classmethod
    def create(cls, folder: Path, header: RunHeader, *, redactor: Redactor | None = None) -> RunWriter:
        """Begin a new record, `<folder>/<run id>.sqlite`. Raises `StoreError` when it exists or cannot be made."""
        redactor = redactor or Redactor()
        path = folder / f"{header.id}{SUFFIX}"
        if path.exists():
            raise StoreError(f"{path} exists already; a run record is never overwritten")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            connection = connect(path, mode="rwc")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the run record {path} cannot be made: {error}") from error
        try:
            create_tables(connection)
            text = msgspec.json.encode(redactor.value(header), enc_hook=repr).decode()
            connection.execute("INSERT INTO run (id, header, status) VALUES (?, ?, 'running')", (header.id, text))
            return cls(path, connection, redactor)
        except (sqlite3.Error, ValueError, TypeError) as error:
            connection.close()
            raise StoreError(f"the run record {path} cannot be made: {error}") from error

    @classmethod
    def open(cls, path: Path, *, redactor: Redactor | None = None) -> RunWriter:
        """Carry on an existing record. Raises `StoreError` when it cannot be written or is no run record."""
        if not path.is_file():
            raise StoreError(f"there is no run record at {path}")
        try:
            connection = connect(path, mode="rw")
        except sqlite3.Error as error:
            raise StoreError(f"the run record {path} cannot be opened: {error}") from error
        try:
            recognise(connection, path)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute("UPDATE run SET status='running'")
            return cls(path, connection, redactor or Redactor())
        except (sqlite3.Error, StoreError, ValueError, TypeError) as error:
            connection.close()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"the run record {path} cannot be opened: {error}") from error

    def append(self, record: TrialRecord) -> None:
        """Hand a finished trial over; returns at once.

        A trial that is there already is replaced if it was in error, which is what a resume does. Otherwise raises
        `StoreError` and nothing changes.
        """
        self._check()
        known = self._verdicts.get(record.key)
        if known is not None and known is not Verdict.ERROR:
            raise StoreError(f"trial {record.key} is in the run record already, as {known}; only an error is replaced")
        self._verdicts[record.key] = record.judged.verdict
        self._queue.put(record)

    def flush(self) -> None:
        """Wait until everything appended so far is committed."""
        self._check()
        mark = _Flush()
        self._queue.put(mark)
        mark.done.wait()
        self._check()

    def close(self, status: RunStatus = "finished") -> None:
        """Commit what is waiting, note the status and let go of the file, which then stands alone. Safe to call twice.

        Raises `StoreError` when not everything could be written.
        """
        if self._closed:
            return
        self._closed = True
        self._queue.put(_Stop())
        self._thread.join()
        try:
            if self._failure is None:
                self._connection.execute("UPDATE run SET status=?", (status,))
                self._tidy_up()
        except sqlite3.Error as error:
            self._failure = self._cannot_write(error)
        finally:
            self._connection.close()
        if self._failure is not None:
            raise self._failure

    def _tidy_up(self) -> None:
        """Leave one file, which opens even in a read-only folder; while somebody reads it the journal has to stay."""
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
        return StoreError(
            f"the run record {self.path} cannot be written: {error}; "
            "trials written before are safe, free some space or mend the disk and resume"
        )

    def _work(self) -> None:
        stopping = False
        while not stopping:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            records = [item for item in batch if isinstance(item, TrialRecord)]
            if records and self._failure is None:
                try:
                    self._commit(records)
                except StoreError as error:
                    self._failure = error
                except Exception as error:  # noqa: BLE001 the thread must answer, whatever happened
                    self._failure = self._cannot_write(error)
            for item in batch:
                if isinstance(item, _Flush):
                    item.done.set()
                stopping = stopping or isinstance(item, _Stop)

    def _commit(self, records: list[TrialRecord]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for record in records:
                self._write(record)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _write(self, record: TrialRecord) -> None:
        data = codec.encode(record)
        if self._redactor.suspects(data):
            record = self._redactor.value(record)
            data = codec.encode(record)
        if not self._dictionary:
            self._dictionary = codec.dictionary_from(data)
            self._connection.execute("UPDATE run SET dictionary=?", (self._dictionary,))
        judged = record.judged
        row = (
            record.key.scenario_id,
            record.key.index,
            record.scenario_name,
            judged.verdict.value,
            judged.outcome.value if judged.outcome else None,
            judged.latency_ms,
            codec.compress(data, self._dictionary),
        )
        if self._connection.execute(_UPSERT, row).rowcount != 1:
            raise StoreError(f"trial {record.key} was written to {self.path} by somebody else meanwhile")
