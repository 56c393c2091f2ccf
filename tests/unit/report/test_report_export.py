"""Exported tables: the columns that the documentation lists, values that read back, and constant memory."""

import csv
import importlib.util
import json
import re
import tracemalloc
from pathlib import Path

import msgspec
import pytest

from steadyhand.records.evaluation import EvaluationResult, Verdict
from steadyhand.records.run import TrialKey
from steadyhand.report.export import COLUMNS, TABLES, export_tables, frame_of
from support.sample_run import SAFE, UNSAFE, reading_of

ROOT = Path(__file__).parents[3]
HOSTILE = msgspec.structs.replace(
    SAFE,
    scenario_name="=cmd|' /C calc'!A0",
    evaluations=(EvaluationResult(verdict=Verdict.FAILED, message="@SUM(1)\r\n+1", type="regex", severity=-0.0),),
)


def exported(folder, kind, trials=(HOSTILE, UNSAFE)):
    return {file.stem: file for file in export_tables(reading_of(trials), folder, kind)}


def test_the_documentation_lists_the_columns():
    text = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    for table in TABLES:
        section = text.partition(f"### {table}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
        found = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", section, re.MULTILINE)
        assert found == [tuple(column) for column in COLUMNS[table]]


def test_json_lines(tmp_path):
    for table, file in exported(tmp_path, "jsonl").items():
        for line in file.read_text(encoding="utf-8").splitlines():
            assert list(json.loads(line)) == [column.name for column in COLUMNS[table]]


def test_csv_cells_are_data(tmp_path):
    files = exported(tmp_path, "csv")
    for file in files.values():
        with file.open(newline="", encoding="utf-8") as stream:
            _, *rows = csv.reader(stream)
        assert rows
        assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@", "\t", "\r"))]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls.csv", "evaluations.csv", "trials.csv"]


def test_parquet_reads_back_as_json_lines_do(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    written, lines = exported(tmp_path / "a", "parquet"), exported(tmp_path / "b", "jsonl")
    for table in TABLES:
        expected = [json.loads(line) for line in lines[table].read_text(encoding="utf-8").splitlines()]
        assert parquet.read_table(written[table]).to_pylist() == expected


def test_pandas():
    pytest.importorskip("pandas")
    frame = frame_of("trials", reading_of([SAFE, UNSAFE]))
    assert list(frame.columns) == [column.name for column in COLUMNS["trials"]]
    assert list(frame["verdict"]) == [SAFE.judged.verdict.value, UNSAFE.judged.verdict.value]


@pytest.mark.no_cover
def test_memory_does_not_grow_with_the_run(tmp_path):
    def peak(count):
        trials = [msgspec.structs.replace(SAFE, key=TrialKey(scenario_id="s", index=at)) for at in range(count)]
        reading = reading_of(trials)
        del trials
        tracemalloc.start()
        try:
            export_tables(reading, tmp_path, "csv")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    # Trials are read in pages of up to 1,024.
    assert peak(5000) < 1.3 * peak(2500)


@pytest.mark.skipif(
    importlib.util.find_spec("inspect_ai") is None, reason="inspect_ai is not installed: pip install inspect_ai"
)
def test_inspect_opens_its_log_again(tmp_path):
    from inspect_ai.log import read_eval_log

    from steadyhand.report.inspect import write_inspect_log

    file = tmp_path / "run.eval"
    assert write_inspect_log(reading_of([SAFE, UNSAFE]), file) == 2
    log = read_eval_log(str(file))
    assert (log.status, [sample.id for sample in log.samples]) == (
        "success",
        [SAFE.key.scenario_id, UNSAFE.key.scenario_id],
    )
    assert [sample.scores["verdict"].value for sample in log.samples] == ["C", "I"]
