"""What a long run adds up to is kept in its record: it answers at once, and is no proof of anything."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest

from steadyhand.compose.comparison import read_source
from steadyhand.errors import ExitCode
from steadyhand.reading.run import LONG, Reading
from steadyhand.reading.samples import TrialSamples
from steadyhand.records.evaluation import Verdict
from steadyhand.report.table import Page
from steadyhand.report.terminal import View, render_run
from steadyhand.store.kept import write_kept
from steadyhand.store.reader import RunReader, list_runs
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter
from support.sample_run import HEADER, TRIALS
from support.sample_trials import typical


def record(folder, trials, *, status="finished"):
    """A run that was planned to be long, and stopped once its rate was decided."""
    header = msgspec.structs.replace(HEADER, planned=LONG, until="decided", pass_rate=0.1)
    writer = RunWriter.create(folder, header, [PlanEntry(key=trial.key) for trial in trials])
    for trial in trials:
        writer.append(trial)
    writer.close(status, header=header)
    return writer.path


def shown(path, view=View()):  # noqa: B008 - frozen
    return list(render_run(Reading.open(path), Page(), view=view))


def keep(path):
    reading = Reading.open(path)
    reading.want(TrialSamples)
    list(render_run(reading, Page()))
    reading.keep()


def execute(path, statement):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


PASSED = [typical(index) for index in range(12)]
DAMAGES = {
    "a damaged page": "UPDATE trial SET body = zeroblob(100) WHERE position = 3",
    "a deleted row": "DELETE FROM trial WHERE position = 3",
    "another verdict": "UPDATE trial SET verdict = 'failed' WHERE position = 3",
    "another dictionary": "UPDATE run SET dictionary = zeroblob(100)",
}


@pytest.mark.parametrize("trials", [TRIALS, PASSED], ids=["every kind", "passed"])
def test_every_output_is_the_same_with_it(tmp_path, trials):
    path = record(tmp_path, trials)
    before, side = shown(path), read_source(Reading.open(path)).side
    code = Reading.open(path).exit_code
    keep(path)
    assert shown(path) == before
    assert read_source(Reading.open(path)).side == side
    reading = Reading.open(path)
    assert (reading.exit_code, reading.figures) == (code, Reading.open(path).figures)
    (run,) = list_runs(tmp_path)
    assert run.counts == {verdict: sum(each.judged.verdict is verdict for each in trials) for verdict in Verdict}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_table_does_not_wait_for_the_trials_and_the_exit_code_does(tmp_path, damage):
    path = record(tmp_path, PASSED)
    keep(path)
    whole = shown(path)
    execute(path, DAMAGES[damage])
    reading = Reading.open(path)
    assert list(render_run(reading, Page())) == whole
    assert reading.flaw is not None
    assert reading.exit_code is ExitCode.UNDECIDED


def test_trials_that_are_asked_for_are_read(tmp_path):
    path = record(tmp_path, PASSED)
    keep(path)
    everything = shown(path, View(detail="everything"))
    assert sum(line.startswith("SCN-C-001#") for line in everything) == len(PASSED)


def test_it_is_forgotten_when_the_run_goes_on(tmp_path):
    path = record(tmp_path, TRIALS, status="interrupted")
    keep(path)
    before = shown(path)
    broken = TRIALS[-1]
    writer = RunWriter.open(path)
    judged = msgspec.structs.replace(broken.judged, verdict=Verdict.FAILED, reason="it failed")
    writer.append(msgspec.structs.replace(broken, judged=judged, phases=(), events=()))
    writer.close("interrupted")
    after = shown(path)
    assert "4 trials: 1 passed, 1 failed, 1 inconclusive, 1 error (1 missed alarm)" in "".join(before)
    assert "4 trials: 1 passed, 2 failed, 1 inconclusive" in "".join(after)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE kept SET body = zeroblob(50)",
        "UPDATE kept SET body = x''",
        "UPDATE kept SET body = 7 WHERE name = 'samples'",
        "UPDATE kept SET body = CAST(substr(body, 1, 30) || x'00' || substr(body, 32) AS BLOB) WHERE name = 'figures'",
        "UPDATE kept SET trials = trials - 1",
        "UPDATE kept SET checksum = checksum + 1",
        "UPDATE kept SET run = run + 1 WHERE name = 'rates'",
        "UPDATE kept SET name = 'more' WHERE name = 'TotalsFold[]'",
    ],
)
def test_nothing_is_read_from_a_damaged_summary_and_nothing_passes(tmp_path, statement):
    path = record(tmp_path, PASSED)
    before = shown(path)
    keep(path)
    execute(path, statement)
    assert shown(path) == before
    assert_damaged_summary(path)


def assert_damaged_summary(path):
    """It is found, and a writer that continues the run removes it."""
    reading = Reading.open(path)
    assert reading.flaw.startswith("its summary is damaged or of other trials; ")
    assert reading.exit_code is ExitCode.UNDECIDED
    RunWriter.open(path).close(header=reading.header)
    assert Reading.open(path).exit_code is ExitCode.PASSED


def kept_in(path):
    connection = sqlite3.connect(path)
    names = [name for (name,) in connection.execute("SELECT name FROM kept")]
    connection.close()
    return {name: RunReader.open(path).kept(name) for name in names}


def put_in_from(path, other):
    """The summary of another run, with the seal of this one."""
    connection = sqlite3.connect(path)
    connection.execute(f"ATTACH '{other}' AS other")
    connection.execute("DELETE FROM main.kept")
    columns = "name, seal.trials, seal.checksum, seal.run, body"
    connection.execute(f"INSERT INTO main.kept SELECT {columns} FROM other.kept, main.seal")
    connection.commit()
    connection.close()


def test_nothing_is_read_from_the_summary_of_another_run_and_nothing_passes(tmp_path):
    path = record(tmp_path, PASSED)
    header = msgspec.structs.replace(HEADER, id="another", planned=LONG, until="decided", pass_rate=0.1)
    writer = RunWriter.create(tmp_path, header, [PlanEntry(key=trial.key) for trial in TRIALS])
    for trial in TRIALS:
        writer.append(trial)
    writer.close(header=header)
    before = shown(path)
    keep(path)
    keep(writer.path)
    put_in_from(path, writer.path)
    assert set(kept_in(path).values()) == {None}
    assert shown(path) == before
    assert_damaged_summary(path)


def test_a_part_of_the_summary_under_another_name_is_as_if_it_were_not_there(tmp_path):
    path = record(tmp_path, PASSED)
    keep(path)
    execute(path, "DELETE FROM kept WHERE name = 'rates'")
    execute(path, "UPDATE kept SET name = 'rates' WHERE name = 'TotalsFold[]'")
    assert kept_in(path)["rates"] is None


@pytest.mark.parametrize("name", ["rates", "TotalsFold[]", "figures", "samples"])
def test_a_summary_that_disagrees_with_its_trials_is_found(tmp_path, name):
    """It fits the seal, and can be decoded."""
    failed = record(tmp_path / "failed", [typical(index, Verdict.FAILED) for index in range(12)])
    path = record(tmp_path, PASSED)
    keep(failed)
    keep(path)
    write_kept(failed, {**kept_in(failed), name: kept_in(path)[name]})
    reading = Reading.open(failed)
    list(render_run(reading, Page()))
    assert reading.samples
    assert reading.flaw.startswith("its summary does not fit its trials; ")
    assert reading.exit_code is not ExitCode.PASSED
