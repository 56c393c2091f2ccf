"""Whether workers pay is decided by the first trials."""

from __future__ import annotations

import pytest

from steadyhand.compose.auto_workers import TriedOut


@pytest.mark.parametrize(
    ("tried", "worth", "told"),
    [
        (TriedOut(rest_s=30.0, busy=0.95), True, "workers run the rest: in one process, it would take about 30 s"),
        (TriedOut(rest_s=0.8, busy=0.95), False, "it takes about 0.8 s, too short for workers to gain"),
        (TriedOut(rest_s=30.0, busy=0.2), False, "one process runs the rest: it computes for only 20% of the time"),
    ],
)
def test_workers_are_for_trials_that_compute_for_long(tried, worth, told):
    assert tried.worth_workers is worth
    assert told in str(tried)
