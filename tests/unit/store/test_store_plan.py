import os
import signal
import subprocess
import sys

import msgspec
import pytest

from steadyhand.errors import StoreError
from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialKey
from steadyhand.store.reader import RunReader
from steadyhand.store.schema import PlanEntry
from steadyhand.store.writer import RunWriter
from support.sample_trials import HEADER, typical

PLAN = [PlanEntry(key=typical(index).key, seed=index, digest=f"d{index}") for index in range(5)]

HOLDER = """
import sys, time
from pathlib import Path
from steadyhand.records.run import RunHeader
from steadyhand.store.writer import RunWriter
writer = RunWriter.create(Path(sys.argv[1]), RunHeader(id="held", started_at="", steadyhand_version=""))
print(writer.path, flush=True)
time.sleep(600)
"""


def test_trials_are_listed_in_the_order_of_the_plan(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER, PLAN)
    for index in (3, 0, 4, 1):
        writer.append(typical(index, Verdict.ERROR if index == 3 else Verdict.PASSED))
    writer.close("interrupted")
    again = RunWriter.open(writer.path)
    assert [again.verdict(entry.key) for entry in PLAN] == [
        Verdict.PASSED,
        Verdict.PASSED,
        None,
        Verdict.ERROR,
        Verdict.PASSED,
    ]
    assert [key.index for key in RunReader.open(writer.path).to_do()] == [2, 3]
    again.append(typical(3))
    again.append(typical(2))
    again.close()

    reader = RunReader.open(writer.path)
    assert reader.to_do() == []
    assert reader.plan() == PLAN
    assert reader.planned_per_scenario() == {"SCN-C-001": 5}
    assert list(reader.trials()) == [typical(index) for index in range(5)]
    assert [row.key.index for row in reader.rows()] == [0, 1, 2, 3, 4]


def test_a_trial_that_was_not_planned_is_refused(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER, PLAN[:2])
    with pytest.raises(StoreError, match="SCN-C-001#4 is not in the plan"):
        writer.append(typical(4))
    assert writer.verdict(TrialKey(scenario_id="other")) is None
    writer.close()


def test_a_second_writer_is_told_who_writes(tmp_path):
    writer = RunWriter.create(tmp_path, HEADER, PLAN)
    with pytest.raises(StoreError, match=f"is being written by process {os.getpid()}"):
        RunWriter.open(writer.path)
    writer.append(typical(0))
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == [writer.path.name]
    RunWriter.open(writer.path).close()


def test_a_killed_writer_lets_go(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdout=subprocess.PIPE, text=True) as holder:
        path = tmp_path / holder.stdout.readline().strip().rpartition("/")[2]
        with pytest.raises(StoreError, match=f"by process {holder.pid}"):
            RunWriter.open(path)
        assert RunReader.open(path).status == "running"
        holder.send_signal(signal.SIGKILL)
    assert RunReader.open(path).status == "interrupted"
    writer = RunWriter.open(path)
    writer.close("interrupted")
    assert RunReader.open(path).status == "interrupted"


def test_a_plan_in_any_order_is_kept(tmp_path):
    """Even one in which the trials of a scenario are not consecutive."""
    keys = [TrialKey(scenario_id=name, index=index) for index in (2, 0, 5) for name in ("a", "b")]
    plan = [PlanEntry(key=key, seed=0, digest="d") for key in keys]
    trials = [msgspec.structs.replace(typical(0), key=key) for key in keys]
    writer = RunWriter.create(tmp_path, HEADER, plan)
    for trial in reversed(trials[1:]):
        writer.append(trial)
    assert writer.verdict(keys[0]) is None
    assert writer.verdict(keys[1]) is trials[1].judged.verdict
    with pytest.raises(StoreError, match="a#1 is not in the plan"):
        writer.append(msgspec.structs.replace(typical(0), key=TrialKey(scenario_id="a", index=1)))
    writer.close()
    again = RunWriter.open(writer.path)
    again.append(trials[0])
    with pytest.raises(StoreError, match="b#2 is already in the run record"):
        again.append(trials[1])
    again.close()
    assert list(RunReader.open(writer.path).trials()) == trials
