"""A run is read once, whatever is made of it."""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import closing

import msgspec
import pytest

from steadyhand.cli.run import Reports, show_run
from steadyhand.reading.run import Reading
from steadyhand.reading.totals import TotalsFold
from steadyhand.reading.underway import Underway
from steadyhand.records.evaluation import Verdict
from steadyhand.report.terminal import RunTable, View
from steadyhand.store import schema
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter
from support.report_runs import large_run
from support.sample_trials import HEADER, typical

TRIALS = 30
MANY = 700
VIEW = View()


def decodes(act) -> int:
    """How many trials are decoded meanwhile."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code is schema.decode.__code__

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize(
    ("reports", "times"),
    [
        ((), 1),
        (("json_file",), 1),
        (("json_file", "junit_file"), 1),
        (("json_file", "junit_file", "html_file"), 2),
    ],
)
def test_a_trial_is_decoded_once_for_all_reports_and_again_for_the_page(tmp_path, reports, times):
    reading = Reading(large_run(tmp_path, TRIALS))
    files = Reports(**{name: tmp_path / name for name in reports})

    def act():
        show_run(reading, files)
        assert reading.flaw is None

    assert decodes(act) == times * TRIALS
    assert all((tmp_path / name).stat().st_size for name in reports)


class Observed:
    """A run of many trials, which start in planned order and finish in another. Those `lost` start and never finish;
    those `unseen` are recorded and not observed."""

    def __init__(self, folder, order, *, lost=frozenset(), unseen=frozenset()):
        trials = [typical(number, [*Verdict][number % 4]) for number in range(MANY)]
        header = msgspec.structs.replace(HEADER, planned=MANY)
        writer = RunWriter.create(folder, header, [PlanEntry(key=each.key) for each in trials])
        self.underway = Underway(folder, want)
        self.underway.run_started(header)
        for number, trial in enumerate(trials):
            if number not in unseen:
                self.underway.trial_started(trial.key, trial.scenario_name)
        for number in order:
            if number not in lost:
                kept = writer.append(trials[number])
                if number not in unseen:
                    self.underway.trial_finished(kept)
        self.underway.run_finished()
        writer.close()
        self.path = writer.path

    def compare(self):
        """Compare what was gathered with what its record says, and return how many trials were decoded for it."""
        gathered = []
        decoded = decodes(lambda: gathered.append(sums(self.underway.reading(self.path))))
        assert gathered == [sums(Reading.open(self.path))]
        return decoded


def want(reading):
    reading.want(TotalsFold)
    reading.want(RunTable, VIEW)


def sums(reading):
    want(reading)
    table = reading.gathered(RunTable, VIEW).found
    shown = (table.rows, table.not_passed, table.names, table.shown, table.per_scenario, table.first)
    return reading.totals, reading.rates, reading.exit_code, shown


def in_blocks(size):
    """In random order, but for blocks of this size."""
    numbers, draws = list(range(MANY)), random.Random(1)
    blocks = [numbers[at : at + size] for at in range(0, MANY, size)]
    return [number for block in blocks for number in draws.sample(block, len(block))]


@pytest.mark.parametrize("size", [1, 64, 350])
def test_what_was_gathered_while_a_run_was_running_is_not_read_again(tmp_path, size):
    assert Observed(tmp_path, in_blocks(size)).compare() == 0


def test_trials_are_read_after_the_run_where_too_many_wait_for_one(tmp_path):
    assert Observed(tmp_path, [*range(1, MANY), 0]).compare() == MANY


def test_trials_are_read_after_the_run_unless_all_were_seen(tmp_path):
    assert Observed(tmp_path, range(MANY), lost={500}).compare() == MANY - 1
    assert Observed(tmp_path / "unseen", range(MANY), unseen={500}).compare() == MANY


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM trial WHERE idx=7",
        "UPDATE trial SET verdict='passed' WHERE idx=2",
        "UPDATE trial SET body=substr(body, 1, 30) WHERE idx=7",
        "UPDATE seal SET trials=trials-1",
    ],
)
def test_a_record_that_was_damaged_meanwhile_is_read(tmp_path, damage):
    run = Observed(tmp_path, range(MANY))
    with closing(sqlite3.connect(run.path)) as connection, connection:
        connection.execute(damage)
    assert run.compare() > 0
    assert run.underway.reading(run.path).flaw is not None


def test_an_output_that_breaks_does_so_after_the_run(tmp_path):
    class Broken:
        def __init__(self, reading):
            pass

        def add(self, trial):
            raise ZeroDivisionError

    def want(reading):
        reading.want(Broken)

    header = msgspec.structs.replace(HEADER, planned=1)
    writer = RunWriter.create(tmp_path, header, [PlanEntry(key=typical(0).key)])
    underway = Underway(tmp_path, want)
    underway.run_started(header)
    underway.trial_started(typical(0).key, "")
    underway.trial_finished(writer.append(typical(0)))
    writer.close()
    with pytest.raises(ZeroDivisionError):
        underway.reading(writer.path).gathered(Broken)
