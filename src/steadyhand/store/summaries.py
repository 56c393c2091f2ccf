"""The data of a run's trials for lists: the columns of the record first, then the rest without messages and actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw

from steadyhand.errors import StoreError
from steadyhand.records.evaluation import Outcome, Verdict
from steadyhand.records.event import Said
from steadyhand.records.run import Judged, TrialKey
from steadyhand.store import schema
from steadyhand.store.schema import SUFFIX, reading


class StoredColumns(NamedTuple):
    """A trial by its columns. `size` is the size of its record, which distinguishes a repeated trial from the original.

    That the columns say *passed* is not yet a verdict: a record that cannot be read is an *error*.
    """

    position: int
    scenario_id: str
    number: int
    name: str
    verdict: str
    outcome: str | None
    latency_ms: float | None
    size: int


class TrialSummary(NamedTuple):
    """A trial as far as its record was read. `problem` says why it could not be."""

    position: int
    judged: Judged
    agent: str = ""
    model: str | None = None
    tags: tuple[str, ...] = ()
    said: str = ""
    """The beginning of the agent's last reply."""
    problem: str | None = None


class _Trial(msgspec.Struct, array_like=True):
    """The beginning of a `TrialRecord`, which is encoded by position; the rest, and most events, stay undecoded."""

    key: TrialKey
    scenario_name: Raw
    place: Raw
    digest: Raw
    started_at: Raw
    duration_ms: Raw
    judged: Judged
    agent: str
    model: str | None
    seed: Raw
    domain: Raw
    expects: Raw
    tags: tuple[str, ...]
    phases: Raw
    evaluations: Raw
    events: list[Raw]


_trials = msgspec.msgpack.Decoder(_Trial)
_messages = msgspec.msgpack.Decoder(Said)
_TAG = msgspec.msgpack.encode(Said.__struct_config__.tag)
_TAG_WITHIN = 16
_MOST_SAID = 1_000
_VERDICTS = frozenset(verdict.value for verdict in Verdict)
_OUTCOMES = frozenset((None, *(outcome.value for outcome in Outcome)))
_TYPES = frozenset(
    (int, str, int, str, str, outcome, latency, int)
    for outcome in (str, type(None))
    for latency in (float, int, type(None))
)
_COLUMNS = "SELECT position, scenario_id, idx, name, verdict, outcome, latency_ms, length(body) FROM trial"


def read_columns(path: Path) -> Iterator[StoredColumns]:
    """Every trial in the order of the plan. Raises `StoreError`."""
    with reading(path) as connection:
        for row in connection.execute(f"{_COLUMNS} ORDER BY position"):
            found = StoredColumns._make(row)
            if tuple(map(type, row)) not in _TYPES or found.verdict not in _VERDICTS or found.outcome not in _OUTCOMES:
                raise StoreError(f"{path} cannot be read as a run record: trial {found.position} is damaged")
            yield found


def read_summaries(path: Path, positions: Sequence[int]) -> list[TrialSummary]:
    """The trials that exist. One that cannot be decoded is an *error* and does not affect others. Raises
    `StoreError`."""
    query = f"SELECT position, body FROM trial WHERE position IN ({', '.join('?' * len(positions))})"  # noqa: S608
    with reading(path) as connection:
        dictionary: bytes = connection.execute("SELECT dictionary FROM run").fetchone()[0]
        return [_summary(position, body, dictionary) for position, body in connection.execute(query, tuple(positions))]


def _summary(position: int, body: bytes, dictionary: bytes) -> TrialSummary:
    try:
        trial = _trials.decode(schema.decompress(body, dictionary))
        said = _last_reply(trial.events)
    except (StoreError, msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        return TrialSummary(position, Judged(verdict=Verdict.ERROR, reason=str(error)), problem=str(error))
    return TrialSummary(position, trial.judged, trial.agent, trial.model, trial.tags, said)


def _last_reply(events: Sequence[Raw]) -> str:
    """Raises `msgspec.MsgspecError`."""
    for event in reversed(events):
        if _TAG in bytes(memoryview(event)[:_TAG_WITHIN]):
            message = _messages.decode(event).message
            if message.role == "assistant":
                return message.content[:_MOST_SAID]
    return ""


def state_of(path: Path) -> tuple[tuple[int, int], ...]:
    """Changes if the record does; cheap enough to check before every page."""
    found: list[tuple[int, int]] = []
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            status = file.stat()
        except OSError:
            found.append((0, 0))
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def record_named(folder: Path, run_id: str) -> Path | None:
    """The record in this folder with exactly that name. The name is never used as a path, so that it cannot lead
    elsewhere."""
    return next((path for path in folder.glob(f"*{SUFFIX}") if path.stem == run_id and path.is_file()), None)
