"""Labels files: people's verdicts on checks. The only place that reads, writes and appends to them.

JSONL or CSV, by the file's ending; one row per label, with the columns of `Label`. The judge's own verdict is not
included, so that it does not bias the labels.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

from steadyhand.errors import FileError, SetupError
from steadyhand.records.base import Record, csv_cell, from_csv_cell
from steadyhand.records.evaluation import EvaluationResult, check_ids
from steadyhand.records.location import Place, Problem
from steadyhand.records.run import TrialRecord

LabelDecision: TypeAlias = Literal["pass", "fail", "unsure", ""]
_DECISIONS: tuple[str, ...] = get_args(LabelDecision)
VERDICT = "(verdict)"
"""The `check` of a label on the verdict of the whole trial."""
_REQUIRED = ("run", "scenario", "trial", "check", "label")


class Label(Record):
    """One person's label on one check of one trial. An empty `label` has not been filled in yet.

    `check` is one of `records.evaluation.check_ids` of the trial, or `VERDICT`. `line` is its line in the file, 0 if it
    is not in a file yet.
    """

    run: str
    scenario: str
    trial: int
    check: str
    label: LabelDecision = ""
    note: str = ""
    by: str = ""
    at: str = ""
    line: int = 0

    @property
    def case(self) -> tuple[str, str, int, str]:
        return self.run, self.scenario, self.trial, self.check


COLUMNS: tuple[str, ...] = ("run", "scenario", "trial", "check", "label", "note", "by", "at")


def blank_labels(run: str, trials: Iterable[TrialRecord], *, every: bool = False) -> Iterator[Label]:
    """A row to fill in for each check that a judge was asked about; with `every`, for each check."""
    for trial in trials:
        for check, result in zip(check_ids(trial.evaluations), trial.evaluations, strict=True):
            if every or result.judge is not None:
                yield Label(run=run, scenario=trial.key.scenario_id, trial=trial.key.index, check=check)


def labelled_result(label: Label, trial: TrialRecord) -> EvaluationResult | None:
    """The result that a label is about; None when the trial has no such check."""
    named = dict(zip(check_ids(trial.evaluations), trial.evaluations, strict=True))
    return named.get(label.check)


def write_labels(file: Path, labels: Iterable[Label]) -> int:
    """Write a new file and return the number of rows. Raises `SetupError` if the file exists, because it may contain
    labels, or if it cannot be written.
    """
    encode = _encoder(file)
    count = 0
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="") as stream:
            stream.write(_heading(file))
            for label in labels:
                stream.write(encode(label))
                count += 1
    except FileExistsError:
        raise SetupError(f"{file} already exists; labels are never overwritten, so give another file") from None
    except OSError as error:
        raise SetupError(f"cannot write the labels {file}: {error.strerror}") from error
    return count


def append_label(file: Path, label: Label) -> None:
    """Append a row, on disk when this returns; the file is created if necessary. Raises `SetupError`. The row is a
    single write in append mode, so that two processes do not corrupt each other's rows.
    """
    encode = _encoder(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a+b") as stream:
            stream.seek(0, os.SEEK_END)
            text = encode(label)
            if stream.tell() == 0:
                text = _heading(file) + text
            else:
                stream.seek(-1, os.SEEK_END)
                text = text if stream.read(1) in (b"\n", b"\r") else f"\n{text}"
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise SetupError(f"cannot write the labels {file}: {error.strerror}") from error


def read_labels(file: Path) -> list[Label]:
    """Every row, in order. Raises `SetupError` when there is no such file, `FileError` with every bad row."""
    _encoder(file)
    if file.exists() and not file.is_file():  # reading a pipe or a device might never end
        raise SetupError(f"cannot read the labels {file}: expected a file, found a folder, pipe or device")
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise SetupError(f"there is no labels file {file}; `steadyhand labels RUN --out {file}` writes one") from None
    except OSError as error:
        raise SetupError(f"cannot read the labels {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError([_problem(file, 0, f"not UTF-8: {error.reason}")]) from None
    problems: list[Problem] = []
    labels: list[Label] = []
    for line, row in _csv_rows(file, text, problems) if _is_csv(file) else _json_rows(file, text, problems):
        found = _label(row, line)
        if isinstance(found, str):
            problems.append(_problem(file, line, found))
        else:
            labels.append(found)
    if problems:
        raise FileError(sorted(problems, key=lambda problem: problem.place.line))
    return labels


def _label(row: Mapping[str, Any], line: int) -> Label | str:
    """The row, or what is wrong with it."""
    unknown = [name for name in row if name not in COLUMNS]
    if unknown:
        return f"unknown column {unknown[0]!r}; the columns are {', '.join(COLUMNS)}"
    missing = [name for name in _REQUIRED if name not in row]
    if missing:
        return f"the column {missing[0]!r} is missing"
    trial = row["trial"]
    number = int(trial) if isinstance(trial, str) and trial.strip().isascii() and trial.strip().isdigit() else trial
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        return f"`trial` is {trial!r}; expected the number of a trial, from 0"
    texts = {name: row.get(name, "") for name in COLUMNS if name != "trial"}
    wrong = next((name for name, value in texts.items() if not isinstance(value, str)), None)
    if wrong is not None:
        return f"`{wrong}` is {texts[wrong]!r}; expected text"
    decision = texts["label"].strip().casefold()
    if decision not in _DECISIONS:
        return f"`label` is {texts['label']!r}; expected pass, fail, unsure or nothing"
    empty = next((name for name in ("run", "scenario", "check") if not texts[name].strip()), None)
    if empty is not None:
        return f"`{empty}` is empty"
    texts.pop("label")
    return Label(**texts, label=cast("LabelDecision", decision), trial=number, line=line)


def _json_rows(file: Path, text: str, problems: list[Problem]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            problems.append(_problem(file, number, f"not valid JSON: {error}"))
            continue
        if isinstance(row, dict):
            yield number, cast("dict[str, Any]", row)
        else:
            problems.append(_problem(file, number, f"expected an object, found {type(row).__name__}"))


def _csv_rows(file: Path, text: str, problems: list[Problem]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    names: list[str] | None = None
    line = 1
    try:
        for cells in rows:
            begins, line = line, rows.line_num + 1
            if not cells or cells == [""]:
                continue
            if names is None:
                names = [name.strip() for name in cells]
            elif len(cells) != len(names):
                problems.append(_problem(file, begins, f"{len(cells)} cells for {len(names)} columns"))
            else:
                yield begins, {name: from_csv_cell(cell) for name, cell in zip(names, cells, strict=True)}
    except csv.Error as error:
        problems.append(_problem(file, line, f"not valid CSV: {error}"))


def _problem(file: Path, line: int, message: str) -> Problem:
    return Problem(place=Place(file=str(file), line=line, column=1 if line else 0), message=message, code="bad-label")


def _is_csv(file: Path) -> bool:
    return file.suffix.casefold() == ".csv"


def _heading(file: Path) -> str:
    return ",".join(COLUMNS) + "\n" if _is_csv(file) else ""


def _encoder(file: Path) -> Callable[[Label], str]:
    """Raises `SetupError` for an ending that is neither."""
    if _is_csv(file):
        return _csv_row
    if file.suffix.casefold() == ".jsonl":
        return _json_row
    raise SetupError(f"{file}: a labels file ends in .jsonl or .csv")


def _json_row(label: Label) -> str:
    return json.dumps({name: getattr(label, name) for name in COLUMNS}, ensure_ascii=False) + "\n"


def _csv_row(label: Label) -> str:
    stream = io.StringIO(newline="")
    cells = [value if isinstance(value := getattr(label, name), int) else csv_cell(value) for name in COLUMNS]
    csv.writer(stream, lineterminator="\r\n").writerow(cells)  # quotes what has either character in it
    return stream.getvalue().removesuffix("\r\n") + "\n"
