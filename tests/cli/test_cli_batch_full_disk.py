"""A disk fills up in the middle of a run, room is made, and the run is resumed."""

import os
import re
import resource
import subprocess
import sys

import pytest

from steadyhand.records.evaluation import Verdict
from steadyhand.store.reader import RunReader
from support.shell import Ended

pytestmark = pytest.mark.system

TRIALS = 300
NEEDS_ROOT = {
    "condition": os.geteuid() != 0 or sys.platform != "linux",
    "reason": "mounting a small disk takes root, on Linux",
}


def run_out_of_room(batch, *options, room=None):
    """A run whose files may have at most `room` bytes, or whose disk is too small anyway."""
    batch.replies("rules:\n  - reply: I call for help now.\n    delay_ms: 5\n")
    command = ("run", "untimed.yaml", "--trials", str(TRIALS), "--seed", "4", "--no-progress", *options)
    if room is None:
        return batch(*command)
    ran = subprocess.run(
        [sys.executable, "-m", "steadyhand", *command],
        cwd=batch.folder,
        env=batch.environment(PYTHONDONTWRITEBYTECODE="1"),  # Python would leave half a .pyc file
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )
    return Ended(ran.returncode, ran.stdout, ran.stderr)


def kept_by(ended, record, *where):
    """The trials in the record. One line tells the user how many were kept, and what to do."""
    assert ended.code == 3, ended
    (told,) = ended.err.splitlines()
    assert re.search(rf"the run record \S*{record.name} cannot be written: ", told), told
    assert told.endswith(" ".join(("resume: steadyhand resume", record.stem, *where)))
    reader = RunReader.open(record)
    kept = {trial.key: trial for trial in reader.trials()}
    assert 0 < len(kept) < TRIALS
    assert reader.counts()[Verdict.PASSED] == len(kept)
    assert reader.status == "interrupted"
    assert f"{len(kept)} trials: {len(kept)} passed; {TRIALS - len(kept)} planned but not run" in ended.out
    return kept


def carry_on(batch, record, kept, *where):
    """A resume runs the rest, and nothing twice."""
    ended = batch("resume", record.stem, "--no-progress", *where)
    assert ended.code == 0, ended
    assert f"{TRIALS - len(kept)} of {TRIALS} trials left to run" in ended.err
    reader = RunReader.open(record)
    found = list(reader.trials())
    assert [trial.key.index for trial in found] == list(range(TRIALS))
    assert reader.counts() == {**dict.fromkeys(Verdict, 0), Verdict.PASSED: TRIALS}
    assert all(kept.get(trial.key, trial) == trial for trial in found)
    assert (reader.finished, [path.name for path in record.parent.iterdir()]) == (True, [record.name])


def test_a_file_that_may_not_grow(batch):
    ended = run_out_of_room(batch, room=100_000)
    kept = kept_by(ended, batch.record())
    carry_on(batch, batch.record(), kept)


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk takes root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.skipif(**NEEDS_ROOT)
def test_a_disk_that_is_full(batch, small_disk):
    where = ("--runs", str(small_disk / "runs"))
    ended = run_out_of_room(batch, *where)
    (record,) = (small_disk / "runs").glob("*.sqlite")
    kept = kept_by(ended, record, *where)
    still_full = batch("resume", record.stem, "--no-progress", *where)
    assert still_full.code in (2, 3), still_full
    more = {trial.key: trial for trial in RunReader.open(record).trials()}
    assert all(more[key] == trial for key, trial in kept.items())
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    carry_on(batch, record, more, *where)


@pytest.mark.skipif(**NEEDS_ROOT)
def test_no_room_to_begin(batch, small_disk):
    (small_disk / "full").write_bytes(bytes(256 * 1024))
    ended = run_out_of_room(batch, "--runs", str(small_disk / "runs"))
    assert ended.code == 2, ended
    assert len(ended.err.splitlines()) == 1
    assert "cannot be created" in ended.err or "cannot be locked" in ended.err
    assert not list(small_disk.glob("runs/*.sqlite*"))


@pytest.mark.skipif(**NEEDS_ROOT)
def test_a_recording_that_cannot_be_written_stops_the_run(batch, small_disk):
    (small_disk / "other").write_bytes(bytes(192 * 1024))
    tape = str(small_disk / "tape")
    ended = run_out_of_room(batch, "--record", tape, "--concurrency", "2")
    assert ended.code == 3, ended
    (told,) = ended.err.splitlines()
    assert f"the recording {tape}/cassette.jsonl cannot be written: No space left on device" in told
    counts = batch.reader().counts()
    assert 1 <= counts[Verdict.ERROR] <= 2
    assert counts[Verdict.PASSED] + counts[Verdict.ERROR] < TRIALS
    (small_disk / "other").unlink()
    assert batch("resume", "last", "--no-progress").code == 0
    assert batch.reader().counts()[Verdict.PASSED] == TRIALS
    again = ("run", "untimed.yaml", "--trials", str(TRIALS), "--seed", "4", "--no-progress")
    replayed = batch(*again, "--replay", tape)
    assert f"{TRIALS} trials: {TRIALS} passed" in replayed.out, replayed


def test_an_empty_file_that_a_dying_process_left_is_not_the_last_run(batch):
    assert batch("run", "untimed.yaml", "--no-progress").code == 0
    record = batch.record()
    record.with_name("29991231-000000-0000.sqlite").touch()
    assert batch("show", "last").code == 0
    assert batch("resume", "last", "--no-progress").code == 0
