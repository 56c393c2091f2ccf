import sqlite3
import threading

import msgspec
import pytest

from steadyhand.errors import StoreError
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import Observed
from steadyhand.records.run import TrialKey
from steadyhand.redaction import Redactor
from steadyhand.store.reader import RunReader, TrialRow
from steadyhand.store.writer import RunWriter
from support.sample_trials import HEADER, typical


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_written_is_read(tmp_path):
    trials = [typical(i, verdict) for i, verdict in enumerate([*Verdict, Verdict.PASSED] * 30)]
    writer = RunWriter.create(tmp_path / "runs", HEADER)
    for trial in trials:
        writer.append(trial)
    writer.close()

    reader = RunReader.open(writer.path)
    assert reader.path == tmp_path / "runs" / "20261116-104455-3f9a.sqlite"
    assert reader.header == HEADER
    assert reader.finished
    assert reader.counts() == {
        Verdict.PASSED: 60,
        Verdict.FAILED: 30,
        Verdict.INCONCLUSIVE: 30,
        Verdict.ERROR: 30,
    }
    assert list(reader.trials()) == trials
    assert reader.trial(TrialKey(scenario_id="SCN-C-001", index=77)) == trials[77]
    assert reader.trial(TrialKey(scenario_id="SCN-C-001", index=777)) is None
    assert reader.rows()[1] == TrialRow(
        key=trials[1].key,
        name="ST-Elevation MI",
        verdict=Verdict.FAILED,
        outcome=trials[1].judged.outcome,
        latency_ms=trials[1].judged.latency_ms,
    )


def test_reading_while_writing_and_no_litter_after(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER)
    writer.append(typical(0))
    writer.flush()
    reader = RunReader.open(writer.path)
    assert (len(list(reader.trials())), reader.finished, reader.status) == (1, False, "running")
    under_way = reader.trials()
    next(under_way)
    writer.append(typical(1))
    writer.close("interrupted")
    assert files(tmp_path) == ["20261116-104455-3f9a.sqlite"]
    assert (len(list(reader.trials())), reader.finished, reader.status) == (2, False, "interrupted")
    assert list(under_way) == []
    assert files(tmp_path) == ["20261116-104455-3f9a.sqlite"]


def test_somebody_else_reading_does_not_stop_the_close(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER)
    writer.append(typical(0))
    writer.flush()
    other = sqlite3.connect(writer.path)
    try:
        other.execute("BEGIN")
        other.execute("SELECT * FROM trial").fetchone()
        writer.close()
    finally:
        other.close()
    assert RunReader.open(writer.path).finished


def test_a_trial_in_error_is_replaced_and_no_other(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER)
    writer.append(typical(0, Verdict.ERROR))
    writer.append(typical(1, Verdict.INCONCLUSIVE))
    writer.append(typical(0, Verdict.FAILED))
    for index in (0, 1):
        with pytest.raises(StoreError, match=f"SCN-C-001#{index} is already in the run record"):
            writer.append(typical(index))
    writer.close()
    found = [trial.judged.verdict for trial in RunReader.open(writer.path).trials()]
    assert found == [Verdict.FAILED, Verdict.INCONCLUSIVE]


def test_resume(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER)
    writer.append(typical(0))
    writer.append(typical(1, Verdict.ERROR))
    writer.close("interrupted")

    writer = RunWriter.open(writer.path)
    assert RunReader.open(writer.path).status == "running"
    with pytest.raises(StoreError, match="as passed; only an error is replaced"):
        writer.append(typical(0))
    writer.append(typical(1))
    writer.append(typical(2))
    writer.close()
    assert list(RunReader.open(writer.path).trials()) == [typical(0), typical(1), typical(2)]


def test_two_writers_of_one_trial_do_not_overwrite_each_other(tmp_path):
    one = RunWriter.create(tmp_path, HEADER)
    one.path.with_name(one.path.name + ".lock").unlink()  # as on a file system without locks
    two = RunWriter.open(one.path)
    one.append(typical(0))
    one.flush()
    two.append(typical(0, Verdict.FAILED))
    with pytest.raises(StoreError, match="by another process in the meantime"):
        two.flush()
    with pytest.raises(StoreError, match="by another process in the meantime"):
        two.close()
    one.close()
    assert list(RunReader.open(one.path).trials()) == [typical(0)]


def test_a_record_is_never_overwritten(tmp_path):
    RunWriter.create(tmp_path, HEADER).close()
    with pytest.raises(StoreError, match="already exists"):
        RunWriter.create(tmp_path, HEADER)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be created"):
        RunWriter.create(tmp_path / "file" / "runs", HEADER)


def test_after_close(tmp_path):
    before = threading.enumerate()
    writer = RunWriter.create(tmp_path, HEADER)
    writer.close()
    writer.close("failed")
    with pytest.raises(StoreError, match="is closed"):
        writer.append(typical(0))
    with pytest.raises(StoreError, match="is closed"):
        writer.flush()
    assert RunReader.open(writer.path).finished
    assert set(threading.enumerate()) <= set(before)


class Strange:
    def __repr__(self):
        return "<strange>"


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("half a pair \ud800", "half a pair \\ud800"),
        ({"n": 10**30, "half": "\udfff", "kept": 1.5}, {"n": "1" + "0" * 30, "half": "\\udfff", "kept": 1.5}),
        (Strange(), "<strange>"),
        ({(1, 2): "\ud800"}, {"(1, 2)": "\\ud800"}),
        ({1: "one"}, {1: "one"}),
        (b"\x00\xff", b"\x00\xff"),
        ([None, True, -1, 2**63], [None, True, -1, 2**63]),
        (float("inf"), float("inf")),
    ],
)
def test_no_trial_is_lost_over_a_strange_value(tmp_path, content, read):
    event = Observed(at_ms=1.0, action_id="1", name="A", content=content)
    writer = RunWriter.create(tmp_path, HEADER)
    writer.append(msgspec.structs.replace(typical(0), events=(event,)))
    writer.close()
    (found,) = RunReader.open(writer.path).trials()
    assert found == msgspec.structs.replace(typical(0), events=(msgspec.structs.replace(event, content=read),))


def test_a_trial_that_cannot_be_written_by_any_means_is_an_error_and_the_others_stay(tmp_path):
    endless = []
    endless.append(endless)
    writer = RunWriter.create(tmp_path, HEADER)
    writer.append(typical(0))
    writer.flush()
    event = Observed(at_ms=1.0, action_id="1", name="A", content=endless)
    kept = writer.append(msgspec.structs.replace(typical(1), events=(event,)))
    writer.close()
    assert (kept.judged.verdict, kept.events) == (Verdict.ERROR, ())
    assert "SCN-C-001#1 cannot be written" in kept.judged.reason
    assert list(RunReader.open(writer.path).trials()) == [typical(0), kept]


def test_a_short_trial_takes_little_room(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER)
    for index in range(500):
        writer.append(typical(index))
    writer.close()
    assert writer.path.stat().st_size / 500 <= 1024


def test_what_is_handed_on_is_what_was_written_without_secrets(tmp_path):
    secret = "canary-Zq7f93kd02mmx81"
    trial = typical(1)
    told = msgspec.structs.replace(trial, judged=msgspec.structs.replace(trial.judged, reason=f"it said {secret}"))
    writer = RunWriter.create(tmp_path, HEADER, redactor=Redactor([secret]))
    assert writer.append(typical(0)) == typical(0)
    kept = writer.append(told)
    writer.close()
    assert kept.judged.reason == "it said " + "*" * len(secret)
    assert list(RunReader.open(writer.path).trials()) == [typical(0), kept]
