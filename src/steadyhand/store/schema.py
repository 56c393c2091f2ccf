"""The tables of a run record, and how its file is opened and recognised."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from steadyhand.errors import StoreError
from steadyhand.records.run import FORMAT_VERSION

SUFFIX = ".sqlite"
APPLICATION_ID = 0x53544459

RunStatus = Literal["running", "finished", "interrupted", "failed"]

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


def begin_tables(connection: sqlite3.Connection) -> None:
    """Make the tables in a transaction that the caller commits, once what makes them a run is in them too."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.executescript(
        f"BEGIN IMMEDIATE; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT_VERSION}; {_TABLES}"
    )


def connect(path: Path, *, mode: Literal["ro", "rw", "rwc"]) -> sqlite3.Connection:
    """Open the file, in the thread that asks or to be handed on. Raises `sqlite3.Error`."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)


def remove_record(path: Path) -> None:
    """Take away a record that could not be begun, with what SQLite keeps beside it."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", f"{path.name}-journal"):
        with suppress(OSError):
            path.with_name(name).unlink()


def never_begun(path: Path) -> bool:
    """Whether it is what a process leaves that dies while it makes a record: a file with nothing in it."""
    try:
        connection = connect(path, mode="ro")
        try:
            return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        finally:
            connection.close()
    except sqlite3.Error:
        return False


def recognise(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StoreError` unless it is a run record of a format that this version reads."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is not a Steadyhand run record")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version < FORMAT_VERSION:
        raise StoreError(
            f"{path} has format {version}, of an older Steadyhand; this version reads format {FORMAT_VERSION}"
        )
    if version > FORMAT_VERSION:
        raise StoreError(
            f"{path} has format {version}, and this version of Steadyhand reads format {FORMAT_VERSION}; "
            "upgrade Steadyhand"
        )


@contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """A checked read-only connection. Everything that goes wrong with the file inside is a `StoreError`."""
    if not path.is_file():
        raise StoreError(f"there is no run record at {path}")
    try:
        connection = connect(path, mode="ro")
        try:
            recognise(connection, path)
            yield connection
        finally:
            connection.close()
    except (sqlite3.Error, ValueError, TypeError) as error:
        # A damaged page can also come back as a row with the wrong things in it.
        raise StoreError(f"{path} cannot be read as a run record: {error}") from error
