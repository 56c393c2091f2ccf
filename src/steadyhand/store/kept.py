"""What the trials of a run add up to, kept in its record, so that a long run is shown without reading them again.

It is kept with the seal that it was made under, and begins with the run and the name that it was made for. With another
seal, of another run, under another name, or damaged, it is as if it were not there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from steadyhand.errors import StoreError
from steadyhand.store.schema import KEPT, RunLock, compress, connect, decompress
from steadyhand.store.seal import read_seal

_FITTING = "SELECT run.id, kept.body FROM run, kept NATURAL JOIN seal WHERE name=?"


def read_kept(connection: sqlite3.Connection, name: str) -> bytes | None:
    """What was kept under a name; None if nothing was, or not of the trials that are there now."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name='kept'").fetchone() is None:
        return None
    row = connection.execute(_FITTING, (name,)).fetchone()
    if row is None:
        return None
    run_id, body = row
    try:
        data = decompress(body, b"")
    except StoreError:
        return None
    made_for = _made_for(run_id, name)
    return data[len(made_for) :] if data.startswith(made_for) else None


def _made_for(run_id: str, name: str) -> bytes:
    return f"{run_id}\n{name}\n".encode()


def write_kept(path: Path, found: Mapping[str, bytes]) -> None:
    """Keep these instead of what was kept before. Raises `StoreError`; the trials are not affected."""
    lock = RunLock.take(path)
    try:
        connection = connect(path, mode="rw")
        try:
            connection.execute("BEGIN IMMEDIATE")
            seal = read_seal(connection)
            if seal is not None:
                run_id = connection.execute("SELECT id FROM run").fetchone()[0]
                connection.execute(KEPT.replace("TABLE", "TABLE IF NOT EXISTS", 1))
                connection.execute("DELETE FROM kept")
                rows = ((name, *seal, compress(_made_for(run_id, name) + data, b"")) for name, data in found.items())
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
