"""The seal of a run record: how many trials it has, the sum of their checksums, and a checksum of what a verdict rests
on besides: the header, the plan, the status, and the dictionary that trials are compressed with.

It is written in the same transaction as the trials, from what the writer knows and not from what the file says. A row
that was lost, changed or put back is found without decoding any.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from operator import mul
from typing import Any, NamedTuple

import msgspec

TABLE = """
CREATE TABLE seal (
  trials INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  run INTEGER NOT NULL
);
"""
COLUMNS = "position, scenario_id, idx, name, verdict, outcome, latency_ms, body"

_PLAN = "SELECT printf('%d %d %d', count(*), sum(idx), sum(seed)) FROM plan"
_RUN = f"SELECT id, header, status, dictionary, ({_PLAN}) FROM run"  # noqa: S608
_AT_ONCE = 512
_BITS = 2**63 - 1
_packed = msgspec.msgpack.Encoder().encode


class Seal(NamedTuple):
    trials: int = 0
    checksum: int = 0
    run: int = 0

    def plus(self, rows: Sequence[tuple[Any, ...]]) -> Seal:
        """With more rows, their values in the order of `COLUMNS`."""
        return Seal(self.trials + len(rows), (self.checksum + _checksum(rows)) & _BITS, self.run)

    def minus(self, rows: Sequence[tuple[Any, ...]]) -> Seal:
        return Seal(self.trials - len(rows), (self.checksum - _checksum(rows)) & _BITS, self.run)


class SealedRun(NamedTuple):
    """What a verdict rests on besides the trials. `plan` says how many trials there are in the plan, and adds them
    up."""

    id: str
    header: str
    status: str
    dictionary: bytes
    plan: str

    @classmethod
    def read(cls, connection: sqlite3.Connection) -> SealedRun:
        return cls._make(connection.execute(_RUN).fetchone())

    @property
    def checksum(self) -> int:
        return zlib.crc32(repr(self).encode("utf-8", "surrogatepass"))


def _checksum(rows: Sequence[tuple[Any, ...]]) -> int:
    """The sum of the squares of the rows' checksums. Without squares, two rows that have exchanged a value would have
    the same sum in one of ten thousand cases, as a CRC is linear."""
    found = list(map(zlib.crc32, map(_packed, rows)))
    return sum(map(mul, found, found))


def read_seal(connection: sqlite3.Connection) -> Seal | None:
    """None for a record of an older version; one that fits no trials if the table has lost its row."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name='seal'").fetchone() is None:
        return None
    row = connection.execute("SELECT trials, checksum, run FROM seal").fetchone()
    return Seal(-1) if row is None else Seal._make(row)


def write_seal(connection: sqlite3.Connection, seal: Seal) -> None:
    connection.execute("UPDATE seal SET trials=?, checksum=?, run=?", seal)


def put_seal(connection: sqlite3.Connection, seal: Seal) -> None:
    """Seal a record that has no seal, or a wrong one."""
    connection.execute(TABLE.replace("TABLE", "TABLE IF NOT EXISTS", 1))
    connection.execute("DELETE FROM seal")
    connection.execute("INSERT INTO seal (trials, checksum, run) VALUES (?, ?, ?)", seal)


def seal_of(connection: sqlite3.Connection) -> Seal:
    """The seal that fits what is in the file. Raises `TypeError` for a row with the wrong things in it."""
    seal = Seal(run=SealedRun.read(connection).checksum)
    found = connection.execute(f"SELECT {COLUMNS} FROM trial")  # noqa: S608
    while rows := found.fetchmany(_AT_ONCE):
        seal = seal.plus(rows)
    return seal
