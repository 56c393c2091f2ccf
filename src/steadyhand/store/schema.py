"""The run record's file format: its tables, how it is opened and recognised, and how trials are encoded in it.

One writer at a time: an advisory lock next to the record, released by the system when its holder dies.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import sqlite3
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from steadyhand.errors import DamagedRecord, StoreError
from steadyhand.records.base import Record, plain
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import FORMAT_VERSION, TrialKey, TrialRecord
from steadyhand.store import seal

SUFFIX = ".sqlite"
APPLICATION_ID = 0x53544459
RunStatus = Literal["running", "finished", "interrupted", "failed"]
T = TypeVar("T")
_BUSY_S = 5.0
_TABLES = """
CREATE TABLE run (
  id TEXT PRIMARY KEY,
  header TEXT NOT NULL,
  status TEXT NOT NULL,
  dictionary BLOB NOT NULL DEFAULT x''
);
CREATE TABLE plan (
  position INTEGER PRIMARY KEY,
  scenario_id TEXT NOT NULL,
  idx INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  digest TEXT NOT NULL
);
CREATE TABLE trial (
  position INTEGER PRIMARY KEY,
  scenario_id TEXT NOT NULL,
  idx INTEGER NOT NULL,
  name TEXT NOT NULL,
  verdict TEXT NOT NULL,
  outcome TEXT,
  latency_ms REAL,
  body BLOB NOT NULL,
  UNIQUE (scenario_id, idx)
);
"""
_SOURCES = """
CREATE TABLE source (
  file TEXT PRIMARY KEY,
  body BLOB NOT NULL
);
"""
KEPT = """
CREATE TABLE kept (
  name TEXT PRIMARY KEY,
  trials INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  run INTEGER NOT NULL,
  body BLOB NOT NULL
);
"""
"""What the trials add up to, kept in long records; see `kept.py`."""
_WINDOW = 64 * 1024 - 1
_CHECKSUM = 4
# lz4 has no type stubs.
_lz4: Any = importlib.import_module("lz4.block")
_encoder = msgspec.msgpack.Encoder(enc_hook=repr)
_decoder = msgspec.msgpack.Decoder(TrialRecord)
_LOCK_SUFFIX = ".lock"


def still_to_do(verdict: Verdict | None) -> bool:
    """Whether a resume runs the trial: it has no verdict yet, or only an error, which a new result may replace."""
    return verdict is None or verdict is Verdict.ERROR


class PlanEntry(Record):
    """One planned trial. `digest` changes with its scenario, model, agent or judge."""

    key: TrialKey
    seed: int = 0
    digest: str = ""


def begin_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in a transaction, which the caller commits once the header and plan are in them."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    head = f"BEGIN IMMEDIATE; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT_VERSION};"
    connection.executescript(f"{head} {_TABLES}{_SOURCES}{seal.TABLE}")


def connect(path: Path, *, mode: Literal["ro", "rw", "rwc"]) -> sqlite3.Connection:
    """Open the file; the connection may be used from another thread. Raises `sqlite3.Error`."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def connect_reading(path: Path) -> sqlite3.Connection:
    """Open the file to read it, also when its process died while writing. Raises `sqlite3.Error`.

    The next process that opens the file rolls back what such a process left unfinished, and needs write permission for
    that.
    """
    connection = connect(path, mode="ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        with closing(connect(path, mode="rw")) as mending:
            mending.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connect(path, mode="ro")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def remove_record(path: Path) -> None:
    """Remove a record that could not be started, with SQLite's files next to it."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
        with suppress(OSError):
            path.with_name(name).unlink()


def never_begun(path: Path) -> bool:
    """Whether the file is empty, as left by a process that died while creating a record."""
    try:
        connection = connect_reading(path)
        try:
            return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        finally:
            connection.close()
    except sqlite3.Error:
        return False


def recognise(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StoreError` unless it is a run record in a format that this version reads."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is not a Steadyhand run record")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < FORMAT_VERSION:
        raise StoreError(
            f"{path} has format {version}, from an older Steadyhand; this version reads format {FORMAT_VERSION}"
        )
    if version > FORMAT_VERSION:
        raise StoreError(
            f"{path} has format {version}, but this version of Steadyhand reads format {FORMAT_VERSION}; "
            "upgrade Steadyhand"
        )
    least, most = _expected_schemas()
    if not least <= _schema(connection) <= most:
        raise DamagedRecord(f"{path} cannot be read as a run record: its tables are damaged")


def _schema(connection: sqlite3.Connection) -> frozenset[tuple[str, str, str]]:
    """The file's tables. A view, a trigger or a computed column in place of ours could block a reader forever."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT 100").fetchall()
    return frozenset((str(kind), str(name), " ".join(str(sql).split())) for kind, name, sql in rows)


@functools.cache
def _expected_schemas() -> tuple[frozenset[tuple[str, str, str]], frozenset[tuple[str, str, str]]]:
    """The tables that every record has, and all that it may have: older records have no seal or no scenario files, and
    short ones keep no summary."""
    found: list[frozenset[tuple[str, str, str]]] = []
    for tables in (_TABLES, _TABLES + _SOURCES + seal.TABLE + KEPT):
        connection = sqlite3.connect(":memory:")
        try:
            connection.executescript(tables)
            found.append(_schema(connection))
        finally:
            connection.close()
    return found[0], found[1]


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """A checked read-only connection. Anything wrong with the file raises `StoreError`, also inside the block."""
    if not path.is_file():
        raise StoreError(f"there is no run record at {path}")
    try:
        connection = connect_reading(path)
        try:
            recognise(connection, path)
            yield connection
        finally:
            connection.close()
    except (sqlite3.Error, ValueError, TypeError) as error:
        # A damaged page may also come back as a row with wrong values.
        raise DamagedRecord(f"{path} cannot be read as a run record: {error}") from error


def write_plan(connection: sqlite3.Connection, plan: Iterable[PlanEntry]) -> None:
    connection.executemany(
        "INSERT INTO plan (position, scenario_id, idx, seed, digest) VALUES (?, ?, ?, ?, ?)",
        ((at, e.key.scenario_id, e.key.index, e.seed, e.digest) for at, e in enumerate(plan, start=1)),
    )


def read_plan(connection: sqlite3.Connection) -> Iterator[PlanEntry]:
    """In order."""
    rows = connection.execute("SELECT scenario_id, idx, seed, digest FROM plan ORDER BY position")
    for scenario_id, index, seed, digest in rows:
        yield PlanEntry(key=key_of(scenario_id, index), seed=as_stored(seed, int), digest=as_stored(digest, str))


def as_stored(value: Any, *kinds: type[T]) -> T:
    """A value of a row, which must be what was written. Raises `TypeError`: a damaged page may hold anything."""
    if not isinstance(value, kinds):
        raise TypeError(f"expected {' or '.join(kind.__name__ for kind in kinds)}, found {type(value).__name__}")
    return value


def key_of(scenario_id: Any, index: Any) -> TrialKey:
    """Raises `TypeError`."""
    return TrialKey(scenario_id=as_stored(scenario_id, str), index=as_stored(index, int))


def write_sources(connection: sqlite3.Connection, sources: Mapping[str, str]) -> None:
    """The text of the scenario files, for reports that show the lines a check comes from."""
    packed = ((storable(file), compress(storable(text).encode(), b"")) for file, text in sources.items())
    connection.executemany("INSERT INTO source (file, body) VALUES (?, ?)", packed)


def read_source(connection: sqlite3.Connection, file: str) -> str | None:
    """None if the record has no such file, as in records of older versions."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name='source'").fetchone() is None:
        return None
    row = connection.execute("SELECT body FROM source WHERE file=?", (storable(file),)).fetchone()
    return None if row is None else decompress(row[0], b"").decode("utf-8", "replace")


def storable(text: str) -> str:
    """A name, which may contain what is not text."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


_NOT_ENCODED = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


def encode(record: TrialRecord) -> tuple[TrialRecord, bytes]:
    """The trial as it was read again from its bytes, and these. Raises `StoreError` when it contains something that
    cannot be."""
    try:
        data = _encoder.encode(record)
        return _decoder.decode(data), data
    except _NOT_ENCODED:
        pass  # with something in it that has to be made plain first
    try:
        data = msgspec.msgpack.encode(plain(record, keep=(bytes, float)))
        return _decoder.decode(data), data
    except _NOT_ENCODED as error:
        raise StoreError(f"trial {record.key} cannot be written: {error}") from error


def decode(data: bytes) -> TrialRecord:
    """Raises `StoreError` when the bytes are not a trial of this format."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StoreError(f"a trial of the run record cannot be read: {error}") from error


def columns_of(record: TrialRecord) -> tuple[str, str, str | None, float | None]:
    """What a trial's row says beside its key: name, verdict, outcome and latency."""
    judged = record.judged
    latency_ms = judged.latency_ms
    return (
        storable(record.scenario_name),
        str(judged.verdict),
        str(judged.outcome) if judged.outcome else None,
        None if latency_ms is None or math.isnan(latency_ms) else float(latency_ms),
    )


def dictionary_from(data: bytes) -> bytes:
    """The part of an encoded trial that helps to compress others."""
    return data[-_WINDOW:]


def compress(data: bytes, dictionary: bytes) -> bytes:
    packed: bytes = _lz4.compress(data, dict=dictionary, store_size=True)
    return zlib.crc32(data).to_bytes(_CHECKSUM, "big") + packed


def decompress(data: bytes, dictionary: bytes) -> bytes:
    """Raises `StoreError` when the bytes are damaged."""
    try:
        found: bytes = _lz4.decompress(data[_CHECKSUM:], dict=dictionary)
    except (_lz4.LZ4BlockError, ValueError, TypeError, MemoryError, OverflowError) as error:
        raise StoreError(f"a trial of the run record is damaged: {error}") from error
    if zlib.crc32(found).to_bytes(_CHECKSUM, "big") != data[:_CHECKSUM]:
        raise StoreError("a trial of the run record is damaged: checksum mismatch")
    return found


class EncodedTrial(NamedTuple):
    """A trial as another process encoded it; compressed, if that knew the dictionary with this checksum."""

    data: bytes
    dictionary: int | None = None


def dictionary_id(dictionary: bytes) -> int:
    return zlib.crc32(dictionary)


class RunLock:
    """Held from `take` until `release`. A lock file left by a killed process has no effect.

    It is a separate file because a lock on the record itself is lost when any descriptor of the record is closed.
    """

    def __init__(self, file: Path, descriptor: int | None) -> None:
        """Use `take`."""
        self._file: Path = file
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, record: Path) -> RunLock:
        """Raises `StoreError`, which names the process that is writing this record."""
        file = record.with_name(record.name + _LOCK_SUFFIX)
        locking = _locking()
        if locking is None:
            return cls(file, None)
        while True:
            try:
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise StoreError(f"the run record {record} cannot be locked: {error.strerror}") from error
            try:
                locking.flock(descriptor, locking.LOCK_EX | locking.LOCK_NB)
            except OSError:
                holder = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
                os.close(descriptor)
                raise StoreError(
                    f"the run record {record} is being written by process {holder}; wait for it or stop it, then resume"
                ) from None
            if _is_at(descriptor, file):
                with suppress(OSError):  # on a full disk the lock still holds, only without a name
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return cls(file, descriptor)
            os.close(descriptor)

    def release(self) -> None:
        """Safe to call twice. The file is removed first, so that whoever opened it before notices."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        self._file.unlink(missing_ok=True)
        os.close(descriptor)


def has_writer(record: Path) -> bool:
    """Whether a living process is recorded as the writer of this record.

    It does not try the lock, as holding it even for a moment could turn a writer away.
    """
    if _locking() is None:
        return True
    try:
        holder = int(record.with_name(record.name + _LOCK_SUFFIX).read_bytes().decode("ascii"))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):  # being written at this moment, or the disk was full
        return True
    try:
        os.kill(holder, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process
        return True
    return True


def _locking() -> ModuleType | None:
    try:
        import fcntl
    except ImportError:  # Windows, where only SQLite keeps writers apart
        return None
    return fcntl


def _is_at(descriptor: int, file: Path) -> bool:
    """Whether the locked file still has that name; its last holder may have removed it in the meantime."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
