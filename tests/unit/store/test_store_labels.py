"""Label files: written, appended to, read back, and refused with the line at fault."""

import csv
import io
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steadyhand.errors import FileError, SetupError
from steadyhand.records.base import csv_cell, from_csv_cell
from steadyhand.records.evaluation import EvaluationResult, Verdict, check_ids
from steadyhand.store.labels import COLUMNS, Label, append_label, read_labels, write_labels

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
NAME = TEXT.filter(lambda text: text.strip())
LABELS = st.builds(
    Label,
    run=NAME,
    scenario=NAME,
    trial=st.integers(0, 10**6),
    check=NAME,
    label=st.sampled_from(["pass", "fail", "unsure", ""]),
    note=TEXT,
    by=TEXT,
    at=TEXT,
)
ONE = Label(run="r", scenario="s", trial=3, check="c", label="pass", note="=1+1", by="@me", at="2026")


def plain(labels):
    return [tuple(getattr(label, name) for name in COLUMNS) for label in labels]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(LABELS, max_size=3))
def test_what_is_written_is_read(tmp_path, ending, labels):
    file = tmp_path / f"labels.{ending}"
    file.unlink(missing_ok=True)
    assert write_labels(file, labels) == len(labels)
    assert plain(read_labels(file)) == plain(labels)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_rows_are_appended_to_a_file_or_make_one(tmp_path, ending):
    file = tmp_path / "deep" / f"labels.{ending}"
    append_label(file, ONE)
    append_label(file, Label(run="r", scenario="s", trial=4, check="c", label="fail"))
    assert [(label.trial, label.label) for label in read_labels(file)] == [(3, "pass"), (4, "fail")]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_row_appended_after_an_unfinished_line_is_a_row_of_its_own(tmp_path, ending):
    file = tmp_path / f"labels.{ending}"
    write_labels(file, [ONE])
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    append_label(file, ONE)
    assert len(read_labels(file)) == 2


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''@x"])
def test_no_cell_is_a_formula(tmp_path, text):
    assert csv_cell(text).startswith("'")
    assert from_csv_cell(csv_cell(text)) == text
    file = tmp_path / "labels.csv"
    write_labels(file, [Label(run=text, scenario=text, trial=0, check=text, note=text)])
    cells = list(csv.reader(io.StringIO(file.read_bytes().decode(), newline="")))[1]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert read_labels(file)[0].note == text


def test_quotes_that_guard_nothing_are_left_alone():
    assert [from_csv_cell(text) for text in ("'tis", "it's", "'")] == ["'tis", "it's", "'"]


def test_labels_are_never_overwritten(tmp_path):
    file = tmp_path / "labels.csv"
    write_labels(file, [ONE])
    with pytest.raises(SetupError, match="never overwritten"):
        write_labels(file, [])
    assert len(read_labels(file)) == 1


def test_every_bad_row_is_named_by_its_line(tmp_path):
    file = tmp_path / "labels.jsonl"
    file.write_text(
        '{"run":"r","scenario":"s","trial":0,"check":"c","label":"pass"}\n'
        "not json\n"
        "\n"
        '{"run":"r","scenario":"s","trial":0,"check":"c","label":"maybe"}\n'
        '{"run":"r","scenario":"s","trial":-1,"check":"c","label":"pass"}\n'
        '{"run":"r","scenario":"s","trial":true,"check":"c","label":"pass"}\n'
        '{"run":"r","scenario":"s","trial":0,"check":"c"}\n'
        '{"run":"r","scenario":"s","trial":0,"check":"c","label":"pass","score":1}\n'
        '{"run":"r","scenario":"s","trial":0,"check":"","label":"pass"}\n'
        "[]\n",
        encoding="utf-8",
    )
    with pytest.raises(FileError) as raised:
        read_labels(file)
    assert [problem.place.line for problem in raised.value.problems] == [2, 4, 5, 6, 7, 8, 9, 10]
    assert "expected pass, fail, unsure or nothing" in str(raised.value)


def test_bad_rows_of_a_csv_file(tmp_path):
    file = tmp_path / "labels.csv"
    file.write_text(
        'run,scenario,trial,check,label,note\nr,s,0,c,pass,"two\nlines"\nr,s,0,c\nr,s,x,c,fail,\n', encoding="utf-8"
    )
    with pytest.raises(FileError) as raised:
        read_labels(file)
    assert [problem.place.line for problem in raised.value.problems] == [4, 5]


def test_a_file_as_a_spreadsheet_saves_it(tmp_path):
    """With a byte order mark, other line endings, and words in capitals."""
    file = tmp_path / "labels.csv"
    file.write_bytes("\ufeffrun,scenario,trial,check,label\r\nr,s,0,c,PASS\r\nr,s,1,c,Fail \r\n".encode())
    assert [label.label for label in read_labels(file)] == ["pass", "fail"]


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(SetupError, match=r"ends in \.jsonl or \.csv"):
        write_labels(tmp_path / "labels.txt", [ONE])


def test_checks_that_look_alike_are_told_apart():
    def result(**where):
        return EvaluationResult(verdict=Verdict.PASSED, message="", type="llm_judge", **where)

    found = check_ids([result(), result(), result(name="polite"), result(step=1), result(stage="turn", turn=2)])
    assert found == ["llm_judge", "llm_judge (2)", "polite", "step 2/llm_judge", "turn 2/llm_judge"]


@pytest.mark.parametrize("what", ["pipe", "device"])
def test_what_might_never_end_is_not_read(tmp_path, what):
    file = tmp_path / "labels.jsonl"
    if what == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    with pytest.raises(SetupError, match="expected a file, found a folder, pipe or device"):
        read_labels(file)
