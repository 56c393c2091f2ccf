"""What can happen to a run record: a killed process, a full disk, a damaged or foreign file."""

import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from steadyhand.errors import StoreError
from steadyhand.records.evaluation import Verdict
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import PlanEntry, never_begun
from steadyhand.store.writer import RunWriter
from support.sample_trials import HEADER, typical

TESTS = Path(__file__).parents[2]


def start(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}", "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.fixture
def record(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER)
    for index in range(200):
        writer.append(typical(index))
    writer.close()
    return writer.path


def test_a_killed_run_keeps_what_it_finished(tmp_path):
    process = start(
        """
        import itertools, sys
        from pathlib import Path
        from support.sample_trials import HEADER, typical
        from steadyhand.store.writer import RunWriter
        writer = RunWriter.create(Path(sys.argv[1]), HEADER)
        for index in itertools.count():
            writer.append(typical(index))
            if index % 7 == 0:
                writer.flush()
                print(index, flush=True)
        """,
        tmp_path,
    )
    acknowledged = -1
    with process:
        while acknowledged < 300:
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    assert process.returncode == -signal.SIGKILL

    reader = RunReader.open(tmp_path / f"{HEADER.id}.sqlite")
    found = list(reader.trials())
    assert len(found) > acknowledged
    assert found == [typical(index) for index in range(len(found))]
    assert (reader.status, reader.counts()[Verdict.PASSED]) == ("interrupted", len(found))

    writer = RunWriter.open(reader.path)
    writer.append(typical(len(found)))
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == [reader.path.name]
    assert len(list(reader.trials())) == len(found) + 1


def test_a_full_disk_is_reported_and_what_was_written_stays(tmp_path):
    process = start(
        """
        import resource, sys
        from pathlib import Path
        from support.sample_trials import HEADER, typical
        from steadyhand.errors import StoreError
        from steadyhand.store.writer import RunWriter
        writer = RunWriter.create(Path(sys.argv[1]), HEADER)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        flushed = 0
        try:
            while True:
                writer.append(typical(flushed))
                writer.flush()
                flushed += 1
        except StoreError as error:
            print(error)
        for action in (writer.flush, writer.close, lambda: writer.append(typical(0))):
            try:
                action()
            except StoreError as error:
                print(error)
        print(flushed)
        """,
        tmp_path,
    )
    with process:
        *messages, flushed = process.stdout.read().splitlines()
    assert process.returncode == 0
    path = tmp_path / f"{HEADER.id}.sqlite"
    assert len(messages) == 4
    assert len(set(messages)) == 1
    assert messages[0].startswith(f"the run record {path} cannot be written: ")
    assert messages[0].endswith("free some disk space or repair the disk, then resume")
    assert int(flushed) > 10
    found = list(RunReader.open(path).trials())
    assert found == [typical(index) for index in range(int(flushed))]


def refused(path):
    with pytest.raises(StoreError) as found:
        list(RunReader.open(path).trials())
    assert "\n" not in str(found.value)
    assert str(path) in str(found.value)
    return str(found.value)


def test_missing(tmp_path):
    assert refused(tmp_path / "none.sqlite").startswith("there is no run record at ")
    assert refused(tmp_path).startswith("there is no run record at ")
    with pytest.raises(StoreError, match="there is no run record at"):
        RunWriter.open(tmp_path / "none.sqlite")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"name: a scenario\n" * 100, b"SQLite format 3\0 and then nonsense"])
def test_not_a_run_record(tmp_path, content):
    path = tmp_path / "x.sqlite"
    path.write_bytes(content)
    message = refused(path)
    assert "is not a Steadyhand run record" in message or "cannot be read as a run record" in message
    with pytest.raises(StoreError):
        RunWriter.open(path)
    assert path.read_bytes() == content


def test_another_programs_database(tmp_path):
    path = tmp_path / "x.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE run (id)")
    connection.commit()
    connection.close()
    assert "is not a Steadyhand run record" in refused(path)


def test_a_newer_format(record):
    connection = sqlite3.connect(record)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    assert "has format 99, but this version of Steadyhand reads format 3; upgrade Steadyhand" in refused(record)
    with pytest.raises(StoreError, match="has format 99"):
        RunWriter.open(record)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_truncated(record, share):
    content = record.read_bytes()
    record.write_bytes(content[: int(len(content) * share)])
    assert "cannot be read as a run record" in refused(record)


def test_one_trial_that_cannot_be_read_hides_no_other_and_is_an_error_to_be_done_again(record):
    connection = sqlite3.connect(record)
    connection.execute("UPDATE trial SET body=x'0badbad0' WHERE position=7")
    connection.commit()
    connection.close()
    reader = RunReader.open(record)
    trials, bad = list(reader.trials()), typical(6).key
    assert [trial for trial in trials if trial.key != bad] == [typical(index) for index in range(200) if index != 6]
    assert (trials[6].key, trials[6].judged.verdict) == (bad, Verdict.ERROR)
    assert "a trial of the run record is damaged" in trials[6].judged.reason
    assert reader.trial(bad) == trials[6]
    assert [row.verdict for row in reader.rows()].count(Verdict.ERROR) == 1
    sums = reader.sums_per_scenario().items()
    assert sum(found.trials for (_, verdict, _), found in sums if verdict is Verdict.ERROR) == 1

    writer = RunWriter.open(record)
    assert writer.verdict(bad) is Verdict.ERROR
    writer.append(typical(6))
    writer.close()
    assert list(RunReader.open(record).trials()) == [typical(index) for index in range(200)]


def test_damaged_anywhere_is_never_read_as_something_else(record):
    """Every page overwritten in turn: each trial is either an error or exactly what was written."""
    content = record.read_bytes()
    expected = [typical(index) for index in range(200)]
    errors = 0
    for start_of_page in range(0, len(content), 4096):
        record.write_bytes(content[: start_of_page + 1000] + b"\xa5" * 300 + content[start_of_page + 1300 :])
        try:
            reader = RunReader.open(record)
            reader.counts()
            reader.rows()
            found = list(reader.trials())
        except StoreError:
            errors += 1
            continue
        unreadable = reader.unreadable()
        assert [trial for trial in found if trial.key not in unreadable] == [
            trial for trial in expected if trial.key not in unreadable
        ]
        errors += bool(unreadable)
    assert errors > len(content) // 4096 // 2


def test_a_record_without_header(record):
    connection = sqlite3.connect(record)
    connection.execute("DELETE FROM run")
    connection.commit()
    connection.close()
    assert "it has no header" in refused(record)


def test_a_process_killed_while_it_creates_the_record_leaves_one_that_was_never_begun(tmp_path):
    """What SQLite has to undo, it undoes for us even though we only read."""
    path = tmp_path / "20261116-104455-3f9a.sqlite"
    process = start(
        """
        import os, signal, sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("CREATE TABLE kept (a)")
        connection.execute("DROP TABLE kept")
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE run (a)")
        connection.executemany("INSERT INTO run VALUES (?)", (("x" * 4000,) for _ in range(100)))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        path,
    )
    with process:
        pass
    assert path.with_name(f"{path.name}-journal").is_file()
    assert never_begun(path)


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
COLUMNS = "x AS position, 's' AS scenario_id, x AS idx, 'n' AS name, 'passed' AS verdict, x'' AS body"


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE trial",
        "ALTER TABLE trial RENAME COLUMN body TO text",
        "ALTER TABLE trial DROP COLUMN latency_ms",
        "ALTER TABLE run ADD COLUMN more TEXT",
        f"DROP TABLE trial; CREATE VIEW trial AS {ENDLESS} SELECT {COLUMNS} FROM c",
        f"DROP TABLE plan; CREATE VIEW plan AS {ENDLESS} SELECT x AS position, 's' AS scenario_id FROM c",
        f"CREATE TRIGGER t AFTER UPDATE ON run BEGIN INSERT INTO plan {ENDLESS} SELECT x, 's', x, x, 'd' FROM c; END",
        "PRAGMA writable_schema=1; UPDATE sqlite_master SET sql='CREATE TABLE trial(' WHERE name='trial'",
        "PRAGMA writable_schema=1; UPDATE sqlite_master SET sql=NULL WHERE name='run'",
        "PRAGMA writable_schema=1; DELETE FROM sqlite_master WHERE name='plan'",
    ],
)
def test_damaged_tables_are_one_message(record, damage):
    with sqlite3.connect(record) as connection:
        connection.executescript(damage)
    connection.close()
    assert "cannot be read as a run record" in refused(record)
    with pytest.raises(StoreError):
        RunWriter.open(record)


@pytest.mark.parametrize("header", [7, b"\x00", "[" * 100_000, "{}", '{"id": 1}', "\ud800"])
def test_a_damaged_header_is_one_message(record, header):
    with sqlite3.connect(record) as connection:
        value = header.encode("utf-8", "surrogatepass") if isinstance(header, str) else header
        cast = "CAST(? AS TEXT)" if isinstance(header, str) else "?"
        connection.execute(f"UPDATE run SET header={cast}", (value,))
    connection.close()
    assert "cannot be read as a run record" in refused(record)


def change(record, *statements):
    connection = sqlite3.connect(record)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def flaw_after(record, *statements):
    change(record, *statements)
    return RunReader.open(record).flaw()


@pytest.mark.parametrize("column", ["scenario_id", "name"])
def test_a_row_with_something_else_in_its_place_is_one_message(record, column):
    """A damaged page can come back as such a row."""
    change(record, "PRAGMA ignore_check_constraints=1", f"UPDATE trial SET {column}=x'00ff' WHERE position=7")
    with pytest.raises(StoreError, match="cannot be read as a run record"):
        list(RunReader.open(record).trials())


def test_a_row_that_was_never_written_is_found(record):
    assert RunReader.open(record).flaw() is None
    copied = "INSERT INTO trial SELECT 201, scenario_id, 200, name, verdict, outcome, latency_ms, body FROM trial"
    assert flaw_after(record, f"{copied} WHERE position=200") == "1 of its trials cannot be read"


def test_a_verdict_that_was_changed_is_found_and_the_trial_run_again(record):
    assert flaw_after(record, "UPDATE trial SET verdict='failed' WHERE position=5") == "1 of its trials cannot be read"
    assert list(RunReader.open(record).trials())[4].judged.verdict is Verdict.ERROR
    writer = RunWriter.open(record)
    writer.append(typical(4))
    writer.close()
    assert RunReader.open(record).flaw() is None


def test_a_seal_of_other_trials_is_found_until_the_record_is_opened_to_be_continued(record):
    found = flaw_after(record, "UPDATE seal SET checksum=checksum-1")
    assert found == "it is not as it was written: checksum mismatch"
    assert list(RunReader.open(record).trials()) == [typical(index) for index in range(200)]
    RunWriter.open(record).close()
    assert RunReader.open(record).flaw() is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE run SET header=replace(header, HEADER_ID, 'another')",
        "UPDATE run SET dictionary=zeroblob(100)",
        "UPDATE run SET status='interrupted'",
        "UPDATE run SET id='another'",
        "INSERT INTO plan VALUES (1, 's', 0, 0, '')",
    ],
)
def test_what_a_verdict_rests_on_besides_the_trials_is_sealed_and_not_sealed_again(record, statement):
    assert flaw_after(record, statement.replace("HEADER_ID", f"'{HEADER.id}'")) is not None
    with pytest.raises(StoreError, match="cannot be continued"):
        RunWriter.open(record)
    assert RunReader.open(record).flaw() is not None


def test_a_killed_run_does_not_become_a_finished_one(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER, [PlanEntry(key=typical(index).key) for index in range(3)])
    writer.append(typical(0))
    writer.append(typical(1))
    writer.flush()
    change(writer.path, "DELETE FROM plan WHERE position=3", "UPDATE run SET status='finished'")
    assert RunReader.open(writer.path).flaw() == "it is not as it was written: checksum mismatch"
    writer.close()


def test_trials_lost_while_the_writer_went_on_are_missing(tmp_path):
    """Without a plan, and with every transaction after them whole: the seal is what the writer knows."""
    writer = RunWriter.create(tmp_path, HEADER)
    for index in range(20):
        writer.append(typical(index))
    writer.flush()
    change(writer.path, "DELETE FROM trial WHERE position > 15")
    writer.append(typical(20))
    writer.close()
    assert RunReader.open(writer.path).flaw() == "5 of its 21 trials are missing"


def test_a_record_without_a_seal_is_read_in_full(record):
    assert flaw_after(record, "DROP TABLE seal") is None
    assert flaw_after(record, "UPDATE trial SET body=x'00' WHERE position=7") == "1 of its trials cannot be read"
    RunWriter.open(record).append(typical(6))
