"""A planned trial and the settings become the parts of a trial."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from steadyhand.batch.plan import Plan
from steadyhand.compose.builder import Builder, RunParts
from steadyhand.compose.cast import Casts
from steadyhand.compose.models import Tape
from steadyhand.engine.limits import LagMonitor, SpendingLimit
from steadyhand.engine.model_call import OpenGate
from steadyhand.errors import FileError, SetupError
from steadyhand.judging.cost import Prices
from steadyhand.records.scenario import Scenario
from steadyhand.redaction import Redactor
from support.project import AGENT, JUDGED, Project

MOCKED = AGENT.replace(
    "run:", "setup: {mocks: [{service: orders, method: get, response: 1, when: {matcher: 'args[0] == 1'}}]}\nrun:"
)


@pytest.fixture
async def builder(project: Project, tmp_path: Path) -> AsyncIterator[Callable[..., Builder]]:
    project.write("m.yaml", "rules: [{reply: hello}]\n")
    made: list[Builder] = []

    def build(**options) -> Builder:
        settings = project.settings(**{"model": "scripted/m.yaml", **options})
        parts = RunParts(
            casts=Casts(settings, project.registries),
            workspaces=tmp_path / "workspaces",
            lag=LagMonitor(),
            gate=OpenGate(),
            tape=Tape(settings.options, Redactor(())),
            budget=SpendingLimit(Prices({}), max_cost=settings.options.max_cost),
        )
        made.append(Builder(parts))
        return made[-1]

    yield build
    for each in made:
        await each.close()


def planned(*scenarios: Scenario, trials: int = 2):
    return list(Plan(scenarios, seed=3, trials=trials))


async def test_trials_share_the_model_and_have_the_rest_to_themselves(project, builder):
    scenario, made = project.one(), builder()
    made.prepare([scenario])
    first, second = (made.build(each) for each in planned(scenario))
    assert first.model_name == second.model_name == "scripted/m.yaml"
    assert first.agent is not second.agent
    assert first.environment is not second.environment
    assert (first.key.index, second.key.index) == (0, 1)
    assert first.seed != second.seed
    assert first.checks is second.checks


async def test_what_a_scenario_does_not_use_is_not_built(project, builder):
    scenario, made = project.one(AGENT + "agent: model\n"), builder()
    made.prepare([scenario])
    parts = made.build(planned(scenario)[0])
    assert (parts.database, parts.user, parts.judge, parts.score_rubric) == (None,) * 4


async def test_a_judge_is_built_where_a_check_needs_one(project, builder):
    scenario, made = project.one(JUDGED), builder()
    made.prepare([scenario])
    assert made.build(planned(scenario)[0]).judge is not None


async def test_options_reach_the_trial(project, builder):
    scenario = project.one()
    made = builder(retries=7, enforce_deadline=True, live=True)
    made.prepare([scenario])
    parts = made.build(planned(scenario)[0])
    assert (parts.retry.retries, parts.enforce_deadline, parts.live) == (7, True, True)


async def test_mocks_bring_services_and_a_bad_script_is_an_error_of_its_file(project, builder):
    scenario, made = project.one(MOCKED), builder()
    made.prepare([scenario])
    assert made.build(planned(scenario)[0]).services is not None
    with pytest.raises(FileError, match="`matcher` is not valid JavaScript"):
        builder().prepare([project.one(MOCKED.replace("args[0] == 1", "args["))])


async def test_what_the_agent_never_gets_is_said(project, builder):
    made = builder()
    made.prepare([project.one(MOCKED + "agent: model\n")])
    (message,) = made.out_of_reach()
    assert message.startswith("the scenario's mocks do not reach the agent model:scripted/m.yaml")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "scripted/none.yaml"}, r"none\.yaml"),
        ({"model": None}, "needs a model"),
        ({"agent": "python:./none.py:agent"}, r"none\.py"),
        ({"environment": "moon"}, "moon"),
        ({"max_cost": 1.0, "model": "openai/gpt-nobody-prices"}, "OPENAI_API_KEY|price"),
    ],
)
async def test_what_would_fail_in_every_trial_is_found_first(project, builder, options, message, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SetupError, match=message):
        builder(**options).prepare([project.one()])
