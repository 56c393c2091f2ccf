import os
import random
import sqlite3
from datetime import UTC, datetime

import msgspec
import pytest

from steadyhand.errors import StoreError
from steadyhand.records.evaluation import Verdict
from steadyhand.redaction import Redactor
from steadyhand.store.reader import RunReader, find_run, list_runs, new_run_id
from steadyhand.store.writer import RunWriter
from support.sample_trials import HEADER, typical


@pytest.fixture
def runs(tmp_path):
    for run_id in ("20261116-104455-3f9a", "20261116-104455-3a00", "20261115-090000-ffff"):
        writer = RunWriter.create(tmp_path, msgspec.structs.replace(HEADER, id=run_id))
        writer.append(typical(0))
        writer.close()
    os.utime(tmp_path / "20261116-104455-3a00.sqlite", (1, 1))
    return tmp_path


def test_ids_sort_by_time_and_are_reproducible():
    now = datetime(2026, 11, 16, 10, 44, 55, tzinfo=UTC)
    assert new_run_id(now, random.Random(1)) == "20261116-104455-2265"
    assert new_run_id(now, random.Random(2)) != new_run_id(now, random.Random(1))


def test_a_page_of_the_list(runs):
    assert [entry.id for entry in list_runs(runs, skip=1, most=1)] == ["20261116-104455-3a00"]
    assert list_runs(runs, skip=3, most=5) == []


def test_list_newest_first_with_what_cannot_be_read(runs):
    (runs / "20261117-000000-0000.sqlite").write_text("no")
    (runs / "notes.txt").write_text("no")
    found = list_runs(runs)
    assert [entry.id for entry in found] == [
        "20261117-000000-0000",
        "20261116-104455-3f9a",
        "20261116-104455-3a00",
        "20261115-090000-ffff",
    ]
    assert "cannot be read as a run record" in (found[0].problem or "")
    assert found[1].header == HEADER
    assert (found[1].status, found[1].counts[Verdict.PASSED], found[1].problem) == ("finished", 1, None)
    assert list_runs(runs / "nowhere") == []


@pytest.mark.parametrize("name", ["20261116-104455-3f9a", "20261116-104455-3f", "last"])
def test_find(runs, name):
    assert find_run(runs, name) == runs / "20261116-104455-3f9a.sqlite"


def test_find_by_path(runs):
    path = runs / "20261115-090000-ffff.sqlite"
    assert find_run(runs / "elsewhere", str(path)) == path


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("20261116", "'20261116' matches 2 runs: 20261116-104455-3f9a, 20261116-104455-3a00; give more"),
        ("2025", "no run '2025' in .*; runs there: 20261116-104455-3f9a, "),
        ("", "no run '' in "),
    ],
)
def test_not_found(runs, name, message):
    with pytest.raises(StoreError, match=message):
        find_run(runs, name)


def test_no_runs_at_all(tmp_path):
    with pytest.raises(StoreError, match="there are no runs in"):
        find_run(tmp_path, "last")
    with pytest.raises(StoreError, match="there are no runs yet"):
        find_run(tmp_path, "x")


@pytest.mark.parametrize("kind", ["pipe", "loop"])
def test_something_other_than_a_file_neither_hides_nor_blocks_the_others(runs, kind):
    odd = runs / "99999999-999999-odd.sqlite"
    if kind == "pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to(odd)
    listed = list_runs(runs)
    assert next(entry.problem for entry in listed if entry.path == odd) is not None
    assert sum(entry.problem is None for entry in listed) == sum(
        entry.problem is None for entry in listed if entry.header
    )
    assert find_run(runs, "last") != odd


def test_the_scenario_files_are_kept_as_they_were_without_secrets(tmp_path):
    texts = {"a\udcff.yaml": "id: a\nname: Ä \ud800\n", "b.yaml": "token: hush-hush-hush-1\n"}
    writer = RunWriter.create(tmp_path, HEADER, redactor=Redactor(["hush-hush-hush-1"]), sources=texts)
    writer.close()
    reader = RunReader.open(writer.path)
    assert reader.source("a\udcff.yaml") == "id: a\nname: Ä \\ud800\n"
    assert "hush-hush-hush-1" not in reader.source("b.yaml")
    assert reader.source("c.yaml") is None


def test_a_record_without_a_table_of_sources_has_none(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER, sources={"a.yaml": "id: a"})
    writer.close()
    connection = sqlite3.connect(writer.path)
    connection.execute("DROP TABLE source")
    connection.close()
    assert RunReader.open(writer.path).source("a.yaml") is None
