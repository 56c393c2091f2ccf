"""The side index has the same trials, verdicts and rates as the record."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest

from steadyhand.reading.run import LONG, Reading
from steadyhand.records.evaluation import FailureClass, Outcome, Verdict
from steadyhand.records.run import Target, TrialKey
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter
from steadyhand.viewer.trial_index import TrialFilter, TrialIndex
from support.report_runs import SAFE_BUT_LATE, TAKEN_BACK, large_run, recorded
from support.sample_trials import HEADER, typical
from support.viewing import judged


@pytest.fixture
def open_index():
    opened = []

    def open_record(reader):
        opened.append(TrialIndex(reader.path))
        opened[-1].refresh(patience_s=60)
        return opened[-1]

    yield open_record
    for index in opened:
        index.close()


def ids(index, **wanted):
    return [each.key.scenario_id for each in index.trials(TrialFilter(**wanted))]


@pytest.fixture
def index(open_index, tmp_path):
    return open_index(recorded(tmp_path, [SAFE_BUT_LATE, judged(TAKEN_BACK), typical(7)]))


def test_worst_first_with_what_a_line_shows(index):
    first, second, third = index.trials(TrialFilter())
    assert (first.key.scenario_id, first.classes, first.outcome) == (
        "taken-back",
        (FailureClass.CRITICAL_INVARIANT,),
        Outcome.UNSAFE_IN_TIME,
    )
    assert (first.name, first.reason, first.tags) == ("The case taken-back", "1 of 3 checks failed", ("cell", "night"))
    assert (second.key.scenario_id, second.target, second.latency_ms) == ("late", "m/m", 421.0)
    assert third.verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"verdict": "failed"}, ["taken-back", "late"]),
        ({"outcome": "safe_late"}, ["late"]),
        ({"failure_class": "A"}, ["taken-back"]),
        ({"tag": "night"}, ["taken-back"]),
        ({"tag": "nigh"}, []),
        ({"target": "m/m"}, ["taken-back", "late"]),
        ({"text": "TAKEN case"}, ["taken-back"]),
        ({"text": "case nothing"}, []),
        ({"text": "%"}, []),
        ({"text": "' OR 1=1 --"}, []),
        ({"verdict": "failed", "text": "late"}, ["late"]),
    ],
)
def test_filters(index, wanted, found):
    assert ids(index, **wanted) == found
    assert index.count(TrialFilter(**wanted)) == len(found)


def test_facets_count_what_there_is(index):
    facets = index.facets()
    assert facets.verdicts == {"failed": 2, "passed": 1}
    assert facets.classes == {"A": 1}
    assert facets.tags["night"] == 1


def test_neighbours_are_those_of_the_list(index):
    late = TrialKey(scenario_id="late")
    before, after = index.beside(late, TrialFilter())
    assert before == TrialKey(scenario_id="taken-back")
    assert after is not None
    assert index.beside(late, TrialFilter(verdict="failed"))[1] is None
    assert index.beside(TrialKey(scenario_id="none"), TrialFilter()) == (None, None)


def test_rates_are_those_of_the_record(open_index, tmp_path):
    reader = large_run(tmp_path, 60)
    index = open_index(reader)
    counted = {(rate.scenario_id, rate.verdict, rate.passed, rate.total) for rate in Reading(reader).rates}
    assert {(rate.scenario_id, rate.verdict, rate.passed, rate.total) for rate in index.rates()} == counted
    assert index.counts() == reader.counts()


def test_a_trial_that_cannot_be_read_is_an_error_and_never_passed(open_index, tmp_path):
    reader = large_run(tmp_path, 20)
    with sqlite3.connect(reader.path) as connection:
        connection.execute("UPDATE trial SET body = x'00' WHERE position = 2")
        assert connection.execute("SELECT verdict FROM trial WHERE position = 2").fetchone() == ("passed",)
    index = open_index(reader)
    assert index.counts() == {Verdict.PASSED: 17, Verdict.FAILED: 2, Verdict.INCONCLUSIVE: 0, Verdict.ERROR: 1}
    (broken,) = index.trials(TrialFilter(verdict="error"))
    assert "damaged" in broken.reason


def test_a_running_run_grows_and_a_repeated_trial_is_read_again(tmp_path):
    keys = [TrialKey(scenario_id=f"s{at}") for at in range(3)]
    header = msgspec.structs.replace(HEADER, planned=3, targets={"s0": Target(scenario="s0", model="m/x")})
    writer = RunWriter.create(tmp_path, header, [PlanEntry(key=each) for each in keys])
    index = TrialIndex(writer.path)
    index.refresh(patience_s=60)
    assert index.trials(TrialFilter()) == []
    assert [rate.verdict for rate in index.rates()] == [Verdict.INCONCLUSIVE] * 3
    writer.append(msgspec.structs.replace(typical(1, Verdict.ERROR), key=keys[1]))
    writer.append(msgspec.structs.replace(typical(0), key=keys[0]))
    writer.flush()
    index.refresh(patience_s=60)
    assert [(each.key.scenario_id, each.verdict) for each in index.trials(TrialFilter())] == [
        ("s1", Verdict.ERROR),
        ("s0", Verdict.PASSED),
    ]
    assert ids(index, target="m/x") == ["s0"]
    writer.append(msgspec.structs.replace(typical(1), key=keys[1]))
    writer.append(msgspec.structs.replace(typical(2), key=keys[2]))
    writer.close("finished")
    index.refresh(patience_s=60)
    assert index.counts()[Verdict.PASSED] == 3
    index.close()


def test_what_was_not_read_in_time_follows_in_the_background(tmp_path):
    index = TrialIndex(large_run(tmp_path, 1200).path)
    index.refresh(patience_s=0)
    assert index.count(TrialFilter()) == 1200
    assert index._filler is not None
    index._filler.join()
    assert index.unknown() == 0
    index.close()


def test_a_long_run_with_a_summary_is_shown_before_its_trials_are_listed(tmp_path):
    header = msgspec.structs.replace(HEADER, planned=LONG, until="decided", pass_rate=0.1)
    writer = RunWriter.create(tmp_path, header, [PlanEntry(key=typical(index).key) for index in range(9)])
    for number in range(9):
        writer.append(typical(number, Verdict.FAILED if number == 4 else Verdict.PASSED))
    writer.close(header=header)
    reading = Reading.open(writer.path)
    list(reading.read())
    reading.keep()
    index = TrialIndex(writer.path)
    index.refresh()
    assert (index.is_listed, index.unknown(), index.trials(TrialFilter())) == (False, 9, [])
    at_once = index.rates(), index.counts(), index.outcomes()
    while not index.is_listed or index.unknown():
        index.refresh()
    assert (index.rates(), index.counts(), index.outcomes()) == at_once
    assert index.trials(TrialFilter())[0].key.index == 4
    index.close()
