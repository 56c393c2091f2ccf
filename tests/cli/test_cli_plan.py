"""`steadyhand plan`: the number of trials, and what the scenarios would then run."""

import pytest

from steadyhand.judging.statistics import failure_rate_bound


@pytest.mark.parametrize(
    ("options", "trials", "told"),
    [
        (("--bound", "0.01"), 299, "without a failure put its failure rate at 1% or less, with 95% confidence"),
        (("--bound", "0.05", "--confidence", "0.9"), 45, "at 5% or less, with 90% confidence"),
        (("--bound", "0.01", "--failures", "1"), 473, "with at most 1 failure put"),
    ],
)
def test_how_many_trials_a_bound_takes(batch, options, trials, told):
    ended = batch("plan", *options)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"{trials} trials of a scenario ")
    assert told in ended.out
    failures = int(options[-1]) if "--failures" in options else 0
    confidence = float(options[-1]) if "--confidence" in options else 0.95
    bound = float(options[1])
    assert failure_rate_bound(failures, trials, confidence) <= bound
    assert failure_rate_bound(failures, trials - 1, confidence) > bound


def test_what_the_scenarios_would_run(batch):
    ended = batch("plan", "--bound", "0.1", "untimed.yaml", "one.yaml", "-k", "untimed")
    assert ended.code == 0, ended
    assert ended.out.splitlines()[1:] == [
        "29 x untimed",
        "would run 29 trials of 1 scenario: 29 model calls",
        "target: model, scripted/replies.yaml",
        "up to 8 trials at once",
    ]
    assert not (batch.folder / ".steadyhand").exists()


@pytest.mark.parametrize("bound", ["0", "1", "nan", "x"])
def test_an_invalid_bound(batch, bound):
    assert batch("plan", "--bound", bound).code == 2


def test_a_bound_that_no_run_can_reach(batch):
    ended = batch("plan", "--bound", "0.000001", "untimed.yaml")
    assert ended.code == 2
    assert "a run has at most 100000 trials of a scenario; choose a higher bound" in ended.err
