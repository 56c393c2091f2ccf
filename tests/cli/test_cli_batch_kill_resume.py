"""kill -9 at random moments, each followed by a resume: no trial is lost and none runs twice.

`tests/slow/test_slow_kills.py` does it a thousand times.
"""

import random
import signal

import pytest

from steadyhand.records.evaluation import Verdict

pytestmark = pytest.mark.system

SLOW = "rules:\n  - reply: I call for help now.\n    delay_ms: 5\n"


def kill_and_resume(batch, *, trials, kills, seed):
    """The run, killed `kills` times, each time after some more trials; then resumed to its end."""
    batch.replies(SLOW)
    generator = random.Random(seed)
    moments = sorted(generator.sample(range(1, trials), kills))
    options = ("--no-progress",)
    process = batch.start(
        "run", "untimed.yaml", "--trials", str(trials), "--concurrency", "16", "--seed", "7", *options
    )
    kept = {}
    for moment in moments:
        batch.wait_for(moment, process)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        reader = batch.reader()
        for trial in reader.trials():
            assert kept.setdefault(trial.key, trial) == trial, "a finished trial was done again"
        assert kept.keys() == {row.key for row in reader.rows()}, "a finished trial was lost"
        process = batch.start("resume", "last", *options)
    out, err = process.communicate()
    assert process.returncode == 0, out + err
    reader = batch.reader()
    found = list(reader.trials())
    assert [trial.key.index for trial in found] == list(range(trials))
    assert reader.counts() == {**dict.fromkeys(Verdict, 0), Verdict.PASSED: trials}
    assert reader.finished
    assert all(trial == kept.get(trial.key, trial) for trial in found)
    assert len({trial.seed for trial in found}) == trials
    assert [path.name for path in batch.record().parent.iterdir()] == [batch.record().name]


def test_killed_a_few_times(batch):
    kill_and_resume(batch, trials=200, kills=4, seed=1)


def test_killed_before_the_first_trial(batch):
    batch.replies("rules:\n  - reply: I call for help now.\n    delay_ms: 60000\n")
    process = batch.start("run", "untimed.yaml", "--trials", "3", "--no-progress")
    batch.wait_for(0, process)
    process.kill()
    process.communicate()
    batch.replies("rules:\n  - reply: I call for help now.\n")
    assert batch("resume", "last", "--no-progress", "--force").code == 0
    assert len(batch.reader().rows()) == 3


def test_what_was_in_error_is_done_again_and_nothing_else(batch):
    batch.decision("two.yaml", id="SCN-C-002", prompt="And now?")
    batch.replies("rules:\n  - contains: And now\n    fail: {kind: connect}\n  - reply: I call for help now.\n")
    assert batch("run", "one.yaml", "two.yaml", "--trials", "2", "--retries", "0", "--no-progress").code == 3
    before = {trial.key: trial for trial in batch.reader().trials()}
    batch.replies("rules:\n  - reply: I call for help now.\n")
    ended = batch("resume", "last", "--no-progress", "--force")
    assert (ended.code, "2 of 4 trials left to run" in ended.err) == (0, True), ended
    after = {trial.key: trial for trial in batch.reader().trials()}
    assert [key for key in before if before[key] == after[key]] == [key for key in before if key.scenario_id[-1] == "1"]
    again = batch("resume", "last", "--no-progress", "--force")
    assert (again.code, "0 of 4 trials left to run" in again.err) == (0, True)
