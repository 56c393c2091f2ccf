"""A long run is shown from the summary in its record: whatever is damaged, no command that was shown it ends in 0."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from contextlib import closing

import msgspec
import pytest

import steadyhand
from steadyhand.errors import ExitCode, StoreError
from steadyhand.reading.run import LONG, Reading
from steadyhand.reading.samples import TrialSamples
from steadyhand.report.table import Page
from steadyhand.report.terminal import render_run
from steadyhand.store.reader import RunReader
from steadyhand.store.writer import RunWriter
from steadyhand.viewer.labels import LabelBook
from steadyhand.viewer.pages import Viewer

pytestmark = pytest.mark.system

TRIALS = 2_000
READERS = {
    "show": ("show", "last"),
    "show as JSON": ("show", "last", "--json", "r.json"),
    "report": ("report", "last", "--markdown", "r.md"),
    "compare": ("compare", "last", "good.sqlite"),
    "compare, the other way": ("compare", "good.sqlite", "last"),
    "gate": ("gate", "last", "--baseline", "good.sqlite"),
    "gate, as the baseline": ("gate", "good.sqlite", "--baseline", "last", "--json", "g.json"),
    "export": ("export", "last", "--format", "csv", "--out-dir", "tables"),
    "baseline": ("baseline", "last", "--out", "b.json"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, command_server):
    from support.shell import Batch

    shell = Batch(tmp_path_factory.mktemp("long"), command_server)
    shell.fill()
    ended = shell("run", "untimed.yaml", "--trials", str(TRIALS), "--no-progress")
    assert ended.code == 0, ended.err
    path = shell.record()
    header = msgspec.structs.replace(RunReader.open(path).header, planned=LONG)  # so that its summary is read
    RunWriter.open(path).close(header=header)
    reading = Reading.open(path)
    reading.want(TrialSamples)
    assert list(render_run(reading, Page()))
    reading.keep()
    return shell


@pytest.fixture
def run(made, tmp_path, command_server):
    """A copy of the run, with another copy that stays whole."""
    from support.shell import Batch

    shutil.copytree(made.folder, tmp_path, dirs_exist_ok=True)
    shell = Batch(tmp_path, command_server)
    shutil.copy(shell.record(), tmp_path / "good.sqlite")
    return shell


def execute(path, statement, *values):
    connection = sqlite3.connect(path)
    found = connection.execute(statement, values).fetchall()
    connection.commit()
    connection.close()
    return found


def statement(text):
    return lambda path: execute(path, text)


def overwritten(query):
    """Bytes in the middle of what the query finds, in the file."""

    def damage(path):
        ((found,),) = execute(path, query)
        at = len(found) // 2
        place = path.read_bytes().index(found[at : at + 40])
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"\xa5" * 40)

    return damage


def root_of(table):
    """The first page of a table."""

    def damage(path):
        ((page,),) = execute(path, f"SELECT rootpage FROM sqlite_master WHERE name='{table}'")
        ((size,),) = execute(path, "PRAGMA page_size")
        with path.open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(b"\xa5" * size)

    return damage


def summary_with(name, change):
    """A summary that fits the seal and can be read, but says something else of the trials."""

    def damage(path):
        reader = RunReader.open(path)
        names = [each for (each,) in execute(path, "SELECT name FROM kept")]
        found = {each: reader.kept(each) for each in names}
        value = msgspec.msgpack.decode(found[name])
        change(value)
        reader.keep({**found, name: msgspec.msgpack.encode(value)})

    return damage


def with_one_less(of, key):
    def change(value):
        of(value)[key] -= 1

    return change


def with_another_time(value):
    times = bytearray(value[0]["latencies"])
    times[-3] ^= 0x10
    value[0]["latencies"] = bytes(times)


def summary_of_another_run(*, sealed):
    """Copied from the record of a run with another id."""

    def damage(path):
        other = path.with_name("other.sqlite")
        shutil.copy(path, other)
        reader = RunReader.open(other)
        found = {each: reader.kept(each) for (each,) in execute(path, "SELECT name FROM kept")}
        execute(other, "UPDATE run SET id='another'")
        reader.keep(found)
        connection = sqlite3.connect(path)
        connection.execute(f"ATTACH '{other}' AS other")
        connection.execute("DELETE FROM kept")
        seal = "seal.trials, seal.checksum, seal.run" if sealed else "k.trials, k.checksum + 1, k.run"
        connection.execute(f"INSERT INTO kept SELECT name, {seal}, k.body FROM other.kept AS k, seal")
        connection.commit()
        connection.close()
        other.unlink()

    return damage


IN_TRIALS = {
    "a page of the trials": overwritten("SELECT body FROM trial WHERE position = 1000"),
    "a verdict": statement("UPDATE trial SET verdict = 'failed' WHERE position = 1000"),
    "a name": statement("UPDATE trial SET name = 'another' WHERE position = 1000"),
    "a latency": statement("UPDATE trial SET latency_ms = latency_ms + 1 WHERE position = 1000"),
    "a deleted trial": statement("DELETE FROM trial WHERE position = 1000"),
    "a seal of fewer trials": statement("UPDATE seal SET trials = trials - 1"),
    "a seal with another sum": statement("UPDATE seal SET checksum = checksum + 1"),
    "a seal of another header": statement("UPDATE seal SET run = run + 1"),
}
UNREADABLE = {
    "the first page of the trials": root_of("trial"),
    "the first page of the seal": root_of("seal"),
}
IN_SUMMARY = {
    "a page of the summary": overwritten("SELECT body FROM kept WHERE name = 'samples'"),
    "the first page of the summary": root_of("kept"),
    "the first page of the index of the summary": root_of("sqlite_autoindex_kept_1"),
    "a summary of fewer trials": statement("UPDATE kept SET trials = trials - 1"),
    "a summary under another seal": statement("UPDATE kept SET checksum = checksum + 1 WHERE name = 'figures'"),
    "a summary of a run with another id": summary_of_another_run(sealed=True),
    "a summary of a run with another id and its seal": summary_of_another_run(sealed=False),
}
MISFIT = {
    "a count in the rates": summary_with("rates", with_one_less(lambda rates: rates[0], "passed")),
    "a count in the totals": summary_with("TotalsFold[]", with_one_less(lambda totals: totals["counts"], "passed")),
    "a time in the samples": summary_with("samples", with_another_time),
}
NOT_IN_A_LIST = ("a page of the trials", "a name", "a latency", "a count in the totals", "a time in the samples")
"""A list of runs counts the trials of long runs, and does not read them."""


@pytest.mark.parametrize("command", READERS)
def test_a_whole_record_gives_0(run, command):
    ended = run(*READERS[command])
    assert (ended.code, "reading up to" in ended.err) == (0, False), ended.out + ended.err


@pytest.mark.parametrize("damage", IN_TRIALS | IN_SUMMARY | MISFIT | UNREADABLE)
def test_damage_is_found_by_whatever_reads_the_record(run, damage):
    (IN_TRIALS | IN_SUMMARY | MISFIT | UNREADABLE)[damage](run.record())
    for name, command in READERS.items():
        ended = run(*command)
        assert ended.code == 3, (name, ended.out + ended.err)
        assert "is not whole: " in ended.err or "cannot be read as a run record: " in ended.err, (name, ended.err)
    assert damage in UNREADABLE or "record: " in run("show", "last").out
    gate = run.folder / "g.json"
    assert not gate.exists() or msgspec.json.decode(gate.read_bytes())["exit_code"] == 3


@pytest.mark.parametrize("damage", IN_TRIALS | IN_SUMMARY | MISFIT | UNREADABLE)
def test_no_page_and_no_result_says_that_it_passed(run, damage):
    path = run.record()
    (IN_TRIALS | IN_SUMMARY | MISFIT | UNREADABLE)[damage](path)
    if damage in UNREADABLE:
        with pytest.raises(StoreError, match="cannot be read as a run record"):
            assert not steadyhand.open_run(path).passed
        return
    result = steadyhand.open_run(path)
    assert (result.passed, result.complete, result.exit_code) == (False, False, ExitCode.UNDECIDED)
    compared = steadyhand.compare(result, run.folder / "good.sqlite")
    assert (bool(compared.sides[0].flaw), compared.sides[1].flaw) == (True, None)
    shutil.copy(run.folder / "good.sqlite", path.with_name("good.sqlite"))
    with closing(Viewer(path.parent, LabelBook(run.folder / "labels.csv", "me"))) as viewer:

        def page(address, **query):
            return viewer.get(address, query).body.decode()

        assert '<li class="passed">' not in page("/")
        shown = page("/run", id=path.stem)
        while "Reading the records" in shown:
            shown = page("/run", id=path.stem)
        assert "The scenario passed" not in shown
        assert "The record of the run is not whole: " in shown or "could not be decided" in shown
        assert '<li class="passed">' not in page("/")
        assert "is not whole: " in page("/compare", a="good", b=path.stem)


@pytest.mark.parametrize("damage", IN_TRIALS | IN_SUMMARY | MISFIT | UNREADABLE)
def test_a_list_of_runs_says_which_is_damaged(run, damage):
    assert run("runs").code == 0
    (IN_TRIALS | IN_SUMMARY | MISFIT | UNREADABLE)[damage](run.record())
    ended = run("runs")
    assert (ended.code, ended.err) == (0 if damage in NOT_IN_A_LIST else 3, "")
    assert (f"{run.record().stem}: " in ended.out) == (damage not in NOT_IN_A_LIST)


@pytest.mark.parametrize("damage", IN_SUMMARY | MISFIT)
def test_a_resume_makes_a_new_summary(run, damage):
    (IN_SUMMARY | MISFIT)[damage](run.record())
    ended = run("resume", "last", "--no-progress")
    if damage.startswith("the first page of"):  # SQLite cannot remove it
        assert (ended.code, "malformed" in ended.err) == (2, True)
        return
    assert ended.code == 0, ended.err
    assert f"0 of {LONG} trials left to run" in ended.err
    ended = run("show", "last")
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize("damage", IN_TRIALS | UNREADABLE)
def test_a_resume_runs_damaged_trials_again_or_refuses(run, damage):
    (IN_TRIALS | UNREADABLE)[damage](run.record())
    ended = run("resume", "last", "--no-progress")
    if ended.code == 0:
        again = 0 if damage.startswith("a seal") else 1
        assert f"{again} of {LONG} trials left to run" in ended.err
        assert run.reader().flaw() is None
    else:
        assert ended.code in (2, 3)
        assert "cannot be continued" in ended.err or "cannot be read as a run record" in ended.err


def test_a_record_without_a_summary_is_read_and_said_to_be(run):
    execute(run.record(), "DROP TABLE kept")
    for name in ("show", "report", "compare", "gate", "export", "baseline"):
        ended = run(*READERS[name])
        assert ended.code == 0, (name, ended.err)
        assert ended.err.count(f"reading up to {LONG:,} trials: the record has no usable summary") == 1
    ended = run("runs")
    assert (ended.code, ended.err) == (0, "")


def test_a_bar_shows_how_much_of_it_was_read(run):
    execute(run.record(), "DROP TABLE kept")
    master, terminal = os.openpty()
    try:
        ended = run.at_a_terminal("show", "last", stderr=terminal, TERM="xterm", COLUMNS="100")
        shown = os.read(master, 100_000).decode()
    finally:
        os.close(master)
        os.close(terminal)
    assert ended.code == 0
    assert f"{100 * TRIALS // LONG}%" in shown


def test_a_killed_run_gives_3(batch):
    batch.replies("rules:\n  - reply: I call for help now.\n    delay_ms: 20\n")
    assert batch("run", "untimed.yaml", "--trials", "6", "--no-progress").code == 0
    shutil.move(batch.record(), batch.folder / "good.sqlite")
    process = batch.start("run", "untimed.yaml", "--trials", str(LONG), "--no-progress")
    batch.wait_for(60, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for name, command in READERS.items():
        ended = batch(*command)
        assert ended.code == 3, (name, ended.out + ended.err)
        assert "trials are missing; the run is not finished" in ended.err


def test_a_journal_that_was_truncated_after_the_run_gives_3(batch):
    """Somebody reads the record when the run ends, so that its last trials are only in the journal."""
    batch.replies("rules:\n  - reply: I call for help now.\n    delay_ms: 5\n")
    process = batch.start("run", "untimed.yaml", "--trials", "400", "--no-progress")
    batch.wait_for(20, process)
    with closing(sqlite3.connect(batch.record(), isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM trial").fetchone()
        process.communicate()
        assert process.wait() == 0
        assert batch("show", "last").code == 0
        path = batch.record()
        log = path.with_name(f"{path.name}-wal")
        copy = batch.folder / "copy.sqlite"
        shutil.copy(path, copy)
        content = log.read_bytes()
        copy.with_name("copy.sqlite-wal").write_bytes(content[: len(content) // 2])
    shutil.copy(copy, batch.folder / "good.sqlite")
    for command in (("show",), ("baseline", "--out", "b.json"), ("export", "--format", "csv", "--out-dir", "t")):
        ended = batch(command[0], str(copy), *command[1:])
        assert ended.code == 3, (command, ended.out + ended.err)
        assert "the run is not finished" in ended.err
