"""What the trials of a run add up to, kept in its record, so that a long run is shown without reading them again.

It is kept with the seal that it was made under, and begins with the run and the name that it was made for. A writer
that continues the run removes it first. So one with another seal, of another run, under another name, or that cannot be
read, is damage to the record; nothing is taken from it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steadyhand.errors import StoreError
from steadyhand.store.schema import KEPT, RunLock, compress, connect, decompress
from steadyhand.store.seal import read_seal

_THERE = "SELECT 1 FROM sqlite_master WHERE name='kept'"
_DAMAGED_PAGE = "a page of its summary is damaged"
_ROWS = "SELECT name, trials, checksum, run, body FROM kept NOT INDEXED"


def read_kept(connection: sqlite3.Connection, name: str) -> bytes | None:
    """What was kept under a name; None if nothing was, or not of the trials that are there now."""
    if connection.execute(_THERE).fetchone() is None:
        return None
    try:
        rows = connection.execute(f"{_ROWS} WHERE name=?", (name,)).fetchall()
        return next((data for row in rows if (data := _fitting(connection, row)) is not None), None)
    except sqlite3.DatabaseError:
        return None


def kept_flaw(connection: sqlite3.Connection) -> str | None:
    """What is wrong with what was kept; None if nothing is, or nothing was kept."""
    if connection.execute(_THERE).fetchone() is None:
        return None
    try:
        if connection.execute("PRAGMA integrity_check(kept)").fetchone() != ("ok",):
            return _DAMAGED_PAGE
        if all(_fitting(connection, row) is not None for row in connection.execute(_ROWS)):
            return None
    except sqlite3.DatabaseError:
        return _DAMAGED_PAGE
    return "its summary is damaged or of other trials; `steadyhand resume` makes a new one"


def _fitting(connection: sqlite3.Connection, row: tuple[Any, ...]) -> bytes | None:
    """What a row keeps, if it was made for this run, under this name and seal."""
    name, *sealed, body = row
    try:
        data = decompress(body, b"")
    except StoreError:
        return None
    made_for = _made_for(connection.execute("SELECT id FROM run").fetchone()[0], name)
    return data[len(made_for) :] if tuple(sealed) == read_seal(connection) and data.startswith(made_for) else None


def forget_kept(connection: sqlite3.Connection) -> None:
    """Remove what was kept, in the transaction that lets trials be added."""
    if connection.execute(_THERE).fetchone() is not None:
        connection.execute("DROP TABLE kept")


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
