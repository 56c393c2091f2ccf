"""Two processes and one run: only one of them writes it, whatever happened to the other."""

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

import pytest

from steadyhand.compose.execution import Execution
from steadyhand.compose.resume import resume_run
from steadyhand.compose.settings import Settings
from steadyhand.records.config import RunOptions
from steadyhand.records.evaluation import Verdict
from steadyhand.store.reader import RunReader

pytestmark = pytest.mark.system

SLOW = "rules:\n  - reply: I call for help now.\n    delay_ms: 20\n"
STUCK = "rules:\n  - reply: I call for help now.\n    delay_ms: 60000\n"


def lock_of(record: Path) -> Path:
    return record.with_name(f"{record.name}.lock")


def test_a_resume_while_the_first_still_runs_is_refused_and_disturbs_nothing(batch):
    batch.replies(SLOW)
    process = batch.start("run", "untimed.yaml", "--trials", "150", "--concurrency", "2", "--no-progress")
    batch.wait_for(10, process)
    process.send_signal(signal.SIGSTOP)  # so that it is still running when the other one starts
    ended = batch("resume", "last", "--no-progress")
    before = batch.reader().counts()[Verdict.PASSED]
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate()
    assert ended.code == 2
    assert f"is being written by process {process.pid}" in ended.err
    assert "wait for it or stop it, then resume" in ended.err
    assert process.returncode == 0, out + err
    assert 10 <= before < 150
    reader = batch.reader()
    assert [trial.key.index for trial in reader.trials()] == list(range(150))
    assert reader.counts()[Verdict.PASSED] == 150
    assert not lock_of(batch.record()).exists()


def test_what_a_killed_process_leaves_hinders_nobody(batch):
    batch.replies(STUCK)
    process = batch.start("run", "untimed.yaml", "--no-progress")
    batch.wait_for(0, process)
    assert batch("runs").out.splitlines()[1].split()[3] == "running"
    process.kill()
    process.communicate()
    assert lock_of(batch.record()).read_text() == f"{process.pid}\n"
    assert batch("runs").out.splitlines()[1].split()[3] == "interrupted"
    batch.replies("rules:\n  - reply: I call for help now.\n")
    assert batch("resume", "last", "--no-progress", "--force").code == 0
    assert batch.reader().finished
    assert not lock_of(batch.record()).exists()


def test_a_lock_file_that_names_a_stranger_hinders_nobody(batch):
    assert batch("run", "untimed.yaml", "--no-progress").code == 0
    lock_of(batch.record()).write_text(f"{os.getpid()}\n")
    assert batch("resume", "last", "--no-progress").code == 0


def test_a_copy_that_is_made_while_a_run_goes_on_is_a_run_of_its_own(batch, tmp_path):
    batch.replies(SLOW)
    process = batch.start("run", "untimed.yaml", "--trials", "60", "--concurrency", "2", "--no-progress")
    batch.wait_for(5, process)
    process.send_signal(signal.SIGSTOP)
    copy = tmp_path.with_name(f"{tmp_path.name}-copy")
    shutil.copytree(tmp_path, copy)
    there = batch.within(copy)
    assert lock_of(there.record()).exists()
    copied = there.reader().counts()[Verdict.PASSED]
    ended = there("resume", "last", "--no-progress")
    assert ended.code == 0, ended
    assert f"{60 - copied} of 60 trials left to run" in ended.err
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    for each in (batch, there):
        assert [trial.key.index for trial in each.reader().trials()] == list(range(60))
        assert each.reader().counts()[Verdict.PASSED] == 60


def test_a_resume_that_had_to_wait_does_not_do_again_what_another_did_meanwhile(batch):
    batch.replies("rules:\n  - fail: {kind: connect}\n")
    assert batch("run", "untimed.yaml", "--trials", "4", "--retries", "0", "--no-progress").code == 3
    batch.replies("rules:\n  - reply: I call for help now.\n")
    with contextlib.chdir(batch.folder):
        first, second = (resume_run(batch.record(), Settings(RunOptions())).run for _ in range(2))
        assert (len(first.pending), len(second.pending)) == (4, 4)
        asyncio.run(Execution(first).execute([]))
        done = list(RunReader.open(batch.record()).trials())
        again = Execution(second)
        asyncio.run(again.execute([]))
    assert again.broken is None
    assert list(again.pending) == []
    assert list(RunReader.open(batch.record()).trials()) == done
