"""A run is read once, whatever is made of it."""

from __future__ import annotations

import sys

import pytest

from steadyhand.cli.run import Reports, show_run
from steadyhand.reading.run import Reading
from steadyhand.store import schema
from support.report_runs import large_run

TRIALS = 30


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
