"""The shipped decisions notice nearly every bad answer that can be made from their own good ones, without a judge."""

from __future__ import annotations

from functools import cache

import pytest

from steadyhand.compose.mutation import Mutation
from steadyhand.compose.scenarios import ScenarioRegistries, build_registry, load_scenarios
from steadyhand.records.config import Selection
from steadyhand.records.mutation import MutationReport
from steadyhand.records.scenario import Scenario

LEAST_KILLED = 0.95
LEAST_MUTANTS = 10


@cache
def _loaded() -> tuple[ScenarioRegistries, list[Scenario]]:
    registries = ScenarioRegistries(build_registry())
    return registries, load_scenarios(Selection(paths=("@clinical", "@robotic")), registries)


async def _report() -> MutationReport:
    registries, scenarios = _loaded()
    return await Mutation(scenarios, registries).of_examples()


async def test_each_shipped_decision_notices_nearly_every_mutant_and_every_severe_one():
    report = await _report()
    assert len(report.scenarios) == 20
    assert report.unused == ()
    for each in report.scenarios:
        counted = each.killed + each.survived
        assert counted >= LEAST_MUTANTS, each.id
        assert each.killed >= LEAST_KILLED * counted, each.id
        severe = [m.text for m in each.mutants if m.status == "survived" and (m.severity or 0) >= 1.0]
        assert severe == [], each.id


@pytest.mark.parametrize("scenario", _loaded()[1], ids=[each.id for each in _loaded()[1]])
async def test_each_shipped_decision_has_a_good_answer_that_is_read_to_its_end(scenario: Scenario):
    """One of which nothing is left to a judge, so that nothing is left to a judge in its refusal either."""
    registries, _ = _loaded()
    (report,) = (await Mutation([scenario], registries).of_examples()).scenarios
    decided = {each.origin for each in report.mutants} - {
        each.origin for each in report.mutants if each.status == "needs_judge"
    }
    assert decided
