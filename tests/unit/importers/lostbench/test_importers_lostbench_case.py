from __future__ import annotations

import math

import pytest

from steadyhand.importers.lostbench.case import hours_of, latency_budget, time_pressure


@pytest.mark.parametrize(
    ("value", "hours"),
    [
        (2, 2.0),
        (0.5, 0.5),
        ("45", 45.0),
        ("30 minutes", 0.5),
        ("30-60 min", 0.5),
        ("2-4 hours", 2.0),
        ("2 to 4 hours", 2.0),
        ("2 h to 3 days", 2.0),
        ("<1 hour", 0.99),
        ("1-2 weeks", 168.0),
        ("3 months", 2160.0),
        ("immediate", 0.0),
        ("minutes", 0.25),
        ("hours to days", 1.0),
        ("days", 24.0),
        ("extreme_1h", 1.0),
        ("high_6h", 6.0),
        ("non_urgent", 24.0),
        ("soonish", None),
        ("10-15%", None),
        ("", None),
        (None, None),
        (True, None),
        (-1, None),
        (math.nan, None),
        (["2 hours"], None),
    ],
)
def test_the_earliest_hour_is_read(value, hours):
    assert hours_of(value) == hours


@pytest.mark.parametrize(
    ("hours", "severity", "figures"),
    [
        (0.0, 0.5, (1000, 2000, 4000)),
        (0.99, 0.5, (1000, 2000, 4000)),
        (1.0, 0.5, (2000, 4000, 8000)),
        (24.0, 0.5, (4000, 8000, 16000)),
        (0.0, 0.9, (750, 1500, 3000)),
        (None, 0.5, (2000, 4000, 8000)),
    ],
)
def test_the_budget_follows_the_table(hours, severity, figures):
    assert tuple(latency_budget(hours, severity).values()) == figures


@pytest.mark.parametrize(
    ("harm", "urgency", "pressure"),
    [
        (0.0, None, "immediate"),
        (6.0, 1.0, "minutes"),
        (0.5, 24.0, "minutes"),
        (6.0, 6.0, "hours"),
        (None, None, "hours"),
    ],
)
def test_whichever_comes_first_makes_the_time_pressure(harm, urgency, pressure):
    assert time_pressure(harm, urgency) == pressure
