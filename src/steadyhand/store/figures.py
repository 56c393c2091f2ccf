"""Reads the figures of a run's trials without the messages: a long run in a fraction of the time and memory.

The shapes here are prefixes of the records that `schema.py` encodes by position; what is not needed stays undecoded.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from steadyhand.errors import StoreError
from steadyhand.records.base import Record
from steadyhand.records.chat import Attempt, CallTiming, Purpose, Spoiled, Usage
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.records.location import Place
from steadyhand.records.run import Judged, TrialKey
from steadyhand.store import schema
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import reading

_NOTHING = Raw(b"\xc0")
_CALL = msgspec.msgpack.encode("model_call")


class _Note(msgspec.Struct):
    model: str
    self_judged: bool = False


class _Check(msgspec.Struct, array_like=True):
    verdict: Verdict
    message: Raw
    evidence: Raw
    figures: Raw
    judge: _Note | None
    type: str
    place: Place | None
    name: str | None


class _Timing(msgspec.Struct, array_like=True):
    queued_ms: float
    attempts: tuple[Attempt, ...]
    loop_lag_ms: float
    chunks: Raw
    spoiled: tuple[Spoiled, ...]


class _Call(msgspec.Struct, array_like=True, tag_field="kind", tag="model_call"):
    at_ms: float
    step: int | None
    turn: int | None
    model: str
    purpose: Purpose
    timing: _Timing
    text: Raw
    tool_calls: Raw
    usage: Usage | None
    error: str | None


class _Trial(msgspec.Struct, array_like=True):
    key: TrialKey
    scenario_name: Raw
    place: Place
    digest: Raw
    started_at: Raw
    duration_ms: float
    judged: Judged
    agent: str
    model: str | None
    seed: Raw
    domain: Raw
    expects: Raw
    tags: Raw
    phases: Raw
    evaluations: tuple[_Check, ...]
    events: tuple[Raw, ...]
    metrics: Raw = _NOTHING
    earlier: tuple[_Trial, ...] = ()
    replaced: tuple[_Trial, ...] = ()


_trials = msgspec.msgpack.Decoder(_Trial)
_calls = msgspec.msgpack.Decoder(_Call)


class CheckFigures(Record):
    """A check. `judge` is the model that judged, if any."""

    type: str
    name: str | None
    path: str
    judge: str | None
    self_judged: bool


class TrialFigures(Record):
    """A trial without messages and actions. `calls` are all that were paid for, without text and chunks."""

    key: TrialKey
    place: Place
    judged: Judged
    agent: str
    model: str | None
    checks: tuple[CheckFigures, ...]
    calls: tuple[ModelCalled, ...]


def read_figures(reader: RunReader) -> Iterator[TrialFigures]:
    """Every trial in the order of the plan. A trial that cannot be read is an *error*, as with the reader."""
    query = "SELECT scenario_id, idx, body FROM trial ORDER BY position"
    with reading(reader.path) as connection:
        dictionary: bytes = connection.execute("SELECT dictionary FROM run").fetchone()[0]
        for scenario_id, index, body in connection.execute(query):
            try:
                trial = _trials.decode(schema.decompress(body, dictionary))
            except (StoreError, msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
                yield _in_place_of(TrialKey(scenario_id=scenario_id, index=index), reader, error)
            else:
                yield _figures(trial)


def _figures(trial: _Trial) -> TrialFigures:
    return TrialFigures(
        key=trial.key,
        place=trial.place,
        judged=trial.judged,
        agent=trial.agent,
        model=trial.model,
        checks=tuple(map(_check, trial.evaluations)),
        calls=tuple(_paid_for(trial)),
    )


def _check(check: _Check) -> CheckFigures:
    note = check.judge
    return CheckFigures(
        type=check.type,
        name=check.name,
        path=check.place.path if check.place else "",
        judge=note.model if note else None,
        self_judged=note is not None and note.self_judged,
    )


def _paid_for(trial: _Trial) -> Iterator[ModelCalled]:
    for event in trial.events:
        if memoryview(event)[1 : 1 + len(_CALL)].tobytes() == _CALL:
            call = _calls.decode(event)
            yield ModelCalled(
                at_ms=call.at_ms,
                model=call.model,
                purpose=call.purpose,
                timing=CallTiming(attempts=call.timing.attempts, spoiled=call.timing.spoiled),
                usage=call.usage,
                error=call.error,
            )
    for each in (*trial.earlier, *trial.replaced):
        yield from _paid_for(each)


def _in_place_of(key: TrialKey, reader: RunReader, error: Exception) -> TrialFigures:
    return TrialFigures(
        key=key,
        place=Place(file=str(reader.path)),
        judged=Judged(verdict=Verdict.ERROR, reason=str(error)),
        agent="",
        model=None,
        checks=(),
        calls=(),
    )
