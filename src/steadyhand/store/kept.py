"""What the trials of a run add up to, kept in its record, so that a long run is shown without reading them again.

It is kept with the seal that it was made under. With another seal, or damaged, it is as if it were not there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from steadyhand.errors import StoreError
from steadyhand.store.schema import KEPT, RunLock, compress, connect, decompress
from steadyhand.store.seal import read_seal

_FITTING = "SELECT body FROM kept NATURAL JOIN seal WHERE name=?"


def read_kept(connection: sqlite3.Connection, name: str) -> bytes | None:
    """What was kept under a name; None if nothing was, or not of the trials that are there now."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name='kept'").fetchone() is None:
        return None
    row = connection.execute(_FITTING, (name,)).fetchone()
    try:
        return None if row is None else decompress(row[0], b"")
    except StoreError:
        return None


def write_kept(path: Path, found: Mapping[str, bytes]) -> None:
    """Keep these instead of what was kept before. Raises `StoreError`; the trials are not affected."""
    lock = RunLock.take(path)
    try:
        connection = connect(path, mode="rw")
        try:
            connection.execute("BEGIN IMMEDIATE")
            seal = read_seal(connection)
            if seal is not None:
                connection.execute(KEPT.replace("TABLE", "TABLE IF NOT EXISTS", 1))
                connection.execute("DELETE FROM kept")
                rows = ((name, *seal, compress(data, b"")) for name, data in found.items())
                connection.executemany(
                    "INSERT INTO kept (name, trials, checksum, run, body) VALUES (?, ?, ?, ?, ?)", rows
                )
            connection.execute("COMMIT")
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreError(f"the summary of the run record {path} cannot be written: {error}") from error
    finally:
        lock.release()
