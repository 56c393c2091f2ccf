"""Exports a run as tables: trials, evaluations and calls, with the columns listed in docs/export.md.

Trials are read and written one at a time, so that memory does not grow with the run.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

from steadyhand.errors import SetupError
from steadyhand.judging.cost import Prices, spent_on
from steadyhand.reading.run import Reading
from steadyhand.records.base import csv_cell, plain_text
from steadyhand.records.evaluation import EvaluationResult, check_ids
from steadyhand.records.event import ModelCalled, last_reply
from steadyhand.records.run import Spent, TrialRecord

ColumnType: TypeAlias = Literal["text", "integer", "number", "boolean"]
TableName: TypeAlias = Literal["trials", "evaluations", "calls"]
TABLES: tuple[TableName, ...] = get_args(TableName)
TableFormat: TypeAlias = Literal["jsonl", "csv", "parquet"]
Value: TypeAlias = str | int | float | bool | None
Row: TypeAlias = tuple[Value, ...]
_ROWS_AT_ONCE = 1000


class Column(NamedTuple):
    name: str
    type: ColumnType
    meaning: str


_KEY = (
    Column("run", "text", "Id of the run"),
    Column("scenario", "text", "Id of the scenario"),
    Column("trial", "integer", "Number of the trial, from 0"),
)
COLUMNS: Mapping[TableName, tuple[Column, ...]] = {
    "trials": (
        *_KEY,
        Column("scenario_name", "text", "Name of the scenario"),
        Column("file", "text", "File of the scenario"),
        Column("domain", "text", "Domain, if the scenario names one"),
        Column("tags", "text", "Tags, joined by `;`"),
        Column("agent", "text", "Agent under test"),
        Column("model", "text", "Model under test"),
        Column("seed", "integer", "Seed of the trial"),
        Column("started_at", "text", "When it started, ISO 8601"),
        Column("duration_ms", "number", "Duration, including set-up and evaluation"),
        Column("verdict", "text", "`passed`, `failed`, `inconclusive` or `error`"),
        Column("reason", "text", "Reason for the verdict"),
        Column("outcome", "text", "Safety and time: `safe_in_time` and so on"),
        Column("latency_ms", "number", "Latency of the answer"),
        Column("latency_tier", "text", "Tier of the budget; empty when it was not graded"),
        Column("time_to_first_token_ms", "number", "Time to the first token"),
        Column("time_to_safe_ms", "number", "When the answer became safe for good"),
        Column("safety_score", "number", "Severity-weighted share of invariants that held"),
        Column("failure_classes", "text", "A to E, worst first, joined by `;`"),
        Column("rubric", "text", "Name of the rubric"),
        Column("rubric_score", "number", "Overall score; empty when it was not scored"),
        Column("fabricated", "boolean", "Whether the judge found fabricated content"),
        Column("calls", "integer", "Number of model calls of this run"),
        Column("input_tokens", "integer", "Tokens in, as counted by the servers"),
        Column("output_tokens", "integer", "Tokens out"),
        Column("cost", "number", "Cost, as far as prices are known"),
        Column("reply", "text", "The agent's last message, unless the scenario excludes it from reports"),
        Column("origin", "text", "Original run, if the trial was judged again"),
    ),
    "evaluations": (
        *_KEY,
        Column("check", "text", "The check, as in labels files"),
        Column("type", "text", "Type of the check"),
        Column("name", "text", "Name, if it has one"),
        Column("description", "text", "Description, if it has one"),
        Column("verdict", "text", "`passed`, `failed`, `inconclusive` or `error`"),
        Column("message", "text", "Why"),
        Column("severity", "number", "Severity of a safety invariant; empty for other checks"),
        Column("weight", "number", "Weight in a `weighted` judgment"),
        Column("stage", "text", "`step`, `turn` or `final`"),
        Column("step", "integer", "Step, from 0"),
        Column("turn", "integer", "Turn, from 1, for a check of a turn"),
        Column("duration_ms", "number", "How long the check took"),
        Column("expected", "text", "What was expected"),
        Column("found", "text", "What was found"),
        Column("judge", "text", "Model that judged"),
        Column("judge_confidence", "number", "Its confidence that the answer is yes"),
        Column("judge_reasoning", "text", "Its reasoning"),
        Column("self_judged", "boolean", "Whether the model under test judged itself"),
        Column("digest", "text", "Changes if the check changes"),
    ),
    "calls": (
        *_KEY,
        Column("measurement", "integer", "Which measurement of the trial, from 1"),
        Column("number", "integer", "Number of the call in it, from 1"),
        Column("at_ms", "number", "When the call ended, from the start of the trial"),
        Column("step", "integer", "Step, from 0"),
        Column("turn", "integer", "Turn, from 1"),
        Column("model", "text", "Model that was called"),
        Column("purpose", "text", "`agent`, `user`, `summary` or `judge`"),
        Column("latency_ms", "number", "Request sent to last byte"),
        Column("first_token_ms", "number", "Request sent to first token"),
        Column("queued_ms", "number", "Time queued before it was sent"),
        Column("attempts", "integer", "Number of attempts"),
        Column("not_graded", "text", "What may have distorted the latency, joined by `;`"),
        Column("input_tokens", "integer", "Tokens in, as counted by the server"),
        Column("output_tokens", "integer", "Tokens out"),
        Column("cost", "number", "Cost in this run, as far as the price is known"),
        Column("finish", "text", "How the answer ended"),
        Column("error", "text", "What went wrong, if it failed"),
        Column("text", "text", "The answer, unless the scenario excludes the conversation from reports"),
        Column("origin", "text", "Run that made the call, if the trial was judged again"),
    ),
}


def rows_of(trial: TrialRecord, reading: Reading) -> dict[TableName, list[Row]]:
    """The rows of one trial in each table, in the order of `COLUMNS`."""
    key, prices = (reading.header.id, trial.key.scenario_id, trial.key.index), reading.prices
    return {
        "trials": [(*key, *_trial(trial, reading.cost(trial).total))],
        "evaluations": [
            (*key, *_evaluation(check, result))
            for check, result in zip(check_ids(trial.evaluations), trial.evaluations, strict=True)
        ],
        "calls": [
            (*key, measurement, number, *_call(call, each, prices))
            for measurement, each in enumerate((*trial.earlier, trial), start=1)
            for number, call in enumerate((e for e in each.events if isinstance(e, ModelCalled)), start=1)
        ],
    }


def _trial(trial: TrialRecord, spent: Spent) -> Row:
    judged, rubric = trial.judged, trial.judged.rubric
    said = last_reply(trial.events)
    return (
        trial.scenario_name,
        trial.place.file,
        trial.domain,
        ";".join(trial.tags),
        trial.agent,
        trial.model,
        trial.seed,
        trial.started_at,
        trial.duration_ms,
        judged.verdict.value,
        judged.reason,
        judged.outcome.value if judged.outcome else None,
        judged.latency_ms,
        judged.latency_tier.value if judged.latency_tier else None,
        judged.time_to_first_token_ms,
        judged.time_to_safe_ms,
        judged.safety_score,
        ";".join(kind.value for kind in judged.failure_classes),
        rubric.name if rubric else None,
        rubric.overall if rubric else None,
        rubric.fabricated if rubric else None,
        spent.calls,
        spent.input_tokens,
        spent.output_tokens,
        spent.cost,
        said.message.content if said is not None and said.step not in _kept_steps(trial) else None,
        trial.origin,
    )


def _kept_steps(trial: TrialRecord) -> set[int]:
    """The steps of conversations that must not be exported."""
    return {talk.step for talk in trial.conversations if not talk.transcript_exported}


def _evaluation(check: str, result: EvaluationResult) -> Row:
    evidence, note = result.evidence, result.judge
    return (
        check,
        result.type,
        result.name,
        result.description,
        result.verdict.value,
        result.message,
        result.severity,
        result.weight,
        result.stage,
        result.step,
        result.turn,
        result.duration_ms,
        evidence.expected if evidence else None,
        evidence.found if evidence else None,
        note.model if note else None,
        note.confidence if note else None,
        note.reasoning if note else None,
        note.self_judged if note else None,
        result.digest or None,
    )


def _call(call: ModelCalled, trial: TrialRecord, prices: Prices) -> Row:
    timing, usage = call.timing, call.usage
    elsewhere = trial.origin is not None and call.purpose != "judge"
    return (
        call.at_ms,
        call.step,
        call.turn,
        call.model,
        call.purpose,
        timing.latency_ms,
        timing.first_token_ms,
        timing.queued_ms,
        len(timing.attempts),
        ";".join(map(str, timing.spoiled)),
        usage.input_tokens if usage else None,
        usage.output_tokens if usage else None,
        0.0 if elsewhere else spent_on(call, prices).cost,
        call.finish.reason.value if call.finish else None,
        call.error,
        None if call.step in _kept_steps(trial) else call.text,
        trial.origin if elsewhere else None,
    )


class TableWriter(Protocol):
    """Writes rows to one file. The file is complete only after `close`."""

    def add(self, row: Row) -> None: ...

    def close(self) -> None: ...


def export_tables(reading: Reading, folder: Path, table_format: TableFormat) -> dict[Path, int]:
    """Write one file for each table, and return the number of rows of each. A file is written completely or not at all.

    Raises `SetupError` when a package is missing, `OSError` when a file cannot be written.
    """
    makers: dict[TableFormat, Callable[[Path, tuple[Column, ...]], TableWriter]]
    makers = {"jsonl": _JsonLines, "csv": _Csv, "parquet": _Parquet}
    make = makers[table_format]
    folder.mkdir(parents=True, exist_ok=True)
    files = {table: folder / f"{table}.{table_format}" for table in TABLES}
    parts = {table: file.with_name(f".{file.name}.{os.getpid()}.part") for table, file in files.items()}
    counts = dict.fromkeys(TABLES, 0)
    with ExitStack() as cleaning:
        for part in parts.values():
            cleaning.callback(part.unlink, missing_ok=True)
        writers: dict[TableName, TableWriter] = {table: make(parts[table], COLUMNS[table]) for table in TABLES}
        for writer in writers.values():
            cleaning.callback(writer.close)
        for trial in reading.read():
            for table, rows in rows_of(trial, reading).items():
                for row in rows:
                    writers[table].add(row)
                    counts[table] += 1
        for writer in writers.values():
            writer.close()
        for table, part in parts.items():
            part.replace(files[table])
    return {files[table]: count for table, count in counts.items()}


class _JsonLines:
    def __init__(self, file: Path, columns: tuple[Column, ...]) -> None:
        self._names = [column.name for column in columns]
        self._stream = file.open("w", encoding="utf-8", newline="\n")

    def add(self, row: Row) -> None:
        values = dict(zip(self._names, map(_plain, row), strict=True))
        self._stream.write(json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n")

    def close(self) -> None:
        self._stream.close()


class _Csv:
    """Text that a spreadsheet could take for a formula gets a quote in front; numbers never do."""

    def __init__(self, file: Path, columns: tuple[Column, ...]) -> None:
        self._stream: io.TextIOWrapper = file.open("w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._stream, lineterminator="\r\n")  # quotes what has either character in it
        self._rows.writerow([column.name for column in columns])

    def add(self, row: Row) -> None:
        self._rows.writerow([value if type(value) in _AS_IT_IS else _cell(value) for value in row])

    def close(self) -> None:
        self._stream.close()


_AS_IT_IS = frozenset((int, type(None)))
"""What the writer of CSV is given unchanged; None is an empty cell."""


def _cell(value: Value) -> Value:
    if isinstance(value, str):
        if type(value) is str and value.isascii() and value[:1].isalnum():
            return value  # as most texts, which need no more looking at
        return csv_cell(plain_text(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return _plain(value)


def _plain(value: Value) -> Value:
    """Without lone surrogates and non-finite numbers."""
    if isinstance(value, str):
        return plain_text(value)
    return None if isinstance(value, float) and value - value != 0.0 else value


class _Parquet:
    """In row groups of a bounded size."""

    def __init__(self, file: Path, columns: tuple[Column, ...]) -> None:
        arrow = _package("pyarrow", "Parquet", "export")
        parquet = _package("pyarrow.parquet", "Parquet", "export")
        types: dict[ColumnType, Any] = {
            "text": arrow.string(),
            "integer": arrow.int64(),
            "number": arrow.float64(),
            "boolean": arrow.bool_(),
        }
        self._arrow: Any = arrow
        self._schema: Any = arrow.schema([(column.name, types[column.type]) for column in columns])
        self._writer: Any = parquet.ParquetWriter(file, self._schema)
        self._waiting: list[Row] = []

    def add(self, row: Row) -> None:
        self._waiting.append(tuple(map(_plain, row)))
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            columns = [
                self._arrow.array(values, type=field.type)
                for values, field in zip(zip(*self._waiting, strict=True), self._schema, strict=True)
            ]
            self._writer.write_batch(self._arrow.record_batch(columns, schema=self._schema))
            self._waiting.clear()

    def close(self) -> None:
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None


def _package(module: str, user: str, extra: str) -> Any:
    """Raises `SetupError` when it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise SetupError(f"{user} needs {name}; install it with `pip install 'steadyhand[{extra}]'`") from error


def frame_of(table: TableName, reading: Reading) -> Any:
    """The table as a pandas `DataFrame`, with columns that can hold a missing value. Raises `SetupError`."""
    frames = _package("pandas", "to_pandas", "pandas")
    types: dict[ColumnType, str] = {"text": "string", "integer": "Int64", "number": "Float64", "boolean": "boolean"}
    columns = COLUMNS[table]
    values: list[list[Value]] = [[] for _ in columns]
    for row in (row for trial in reading.read() for row in rows_of(trial, reading)[table]):
        for column, value in zip(values, row, strict=True):
            column.append(_plain(value))
    return frames.DataFrame(
        {
            column.name: frames.array(found, dtype=types[column.type])
            for column, found in zip(columns, values, strict=True)
        }
    )
