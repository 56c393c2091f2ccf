"""The scenarios of a stored run, each with how often it passed and what that makes of it."""

from __future__ import annotations

from steadyhand.judging.rates import ScenarioRate, scenario_rates
from steadyhand.store.reader import RunReader


def rates_of(reader: RunReader) -> list[ScenarioRate]:
    """In the order of the plan."""
    return scenario_rates(
        reader.counts_per_scenario(),
        planned=reader.planned_per_scenario(),
        required=reader.header.pass_rates,
        required_of_all=reader.header.pass_rate,
    )
