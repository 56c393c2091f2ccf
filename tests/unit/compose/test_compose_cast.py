"""Who plays in a scenario, who chose it, and what a path in its name is relative to."""

from __future__ import annotations

from pathlib import Path

import pytest

from steadyhand.compose.cast import Choice
from steadyhand.compose.run import Run
from steadyhand.errors import SetupError
from steadyhand.records.config import RunOptions, Selection
from support.project import AGENT, Project
from support.shell import DECISION as PLAIN_DECISION

CONFIGURED = """\
model = "openai/configured"
judge = "openai/configured-judge"
user_model = "openai/configured-user"
agent = "http:http://configured/"
environment = "e2b"
"""
CHARACTER = AGENT + "character: {name: Ada, llm: {model: openai/of-the-scenario}}\n"
MATRIX = """\
name: M
base_scenario: one.scenario.yaml
matrix:
  - {parameter: model, values: [scripted/x.yaml]}
  - {parameter: judge, values: [scripted/j.yaml]}
  - {parameter: agent, values: [model]}
"""
DECISION = PLAIN_DECISION.format(id="SCN-C-001", prompt="What now?")
OPTIONS = {
    "model": "openai/m", "judge": "openai/j", "user_model": "openai/u", "agent": "runtime", "environment": "local",
}  # fmt: skip


def said(choice: Choice | None) -> tuple[str, str, Path] | None:
    return None if choice is None else (choice.value, choice.chosen_by, choice.folder)


def test_without_anything_the_defaults_play(project: Project):
    cast = project.cast(project.one())
    assert (cast.model, cast.judge, cast.user, cast.rubric) == (None,) * 4
    assert (cast.agent.value, cast.agent.chosen_by) == ("runtime", "default")
    decision = project.one(DECISION, "one.yaml")
    assert said(project.cast(decision).environment) == ("local", "default", project.folder)


def test_the_configuration_chooses_what_nobody_else_does(project: Project):
    project.write("inner/steadyhand.toml", CONFIGURED)
    cast = project.cast(project.one(), config=Path("inner/steadyhand.toml"))
    inner = project.folder / "inner"
    assert said(cast.model) == ("openai/configured", "configuration", inner)
    assert said(cast.judge) == ("openai/configured-judge", "configuration", inner)
    assert said(cast.user) == ("openai/configured-user", "configuration", inner)
    assert (cast.agent.value, cast.agent.chosen_by) == ("http:http://configured/", "configuration")
    assert (cast.environment.value, cast.environment.chosen_by) == ("local", "scenario")


def test_a_scenario_chooses_before_the_configuration_and_the_user_before_both(project: Project):
    project.write("steadyhand.toml", CONFIGURED)
    scenario = project.one(CHARACTER + "agent: model\n", "deep/one.scenario.yaml")
    own = project.cast(scenario)
    assert said(own.model) == ("openai/of-the-scenario", "scenario", project.folder / "deep")
    assert said(own.agent) == ("model", "scenario", project.folder / "deep")
    given = project.cast(scenario, **OPTIONS)
    chosen = {"model": given.model, "judge": given.judge, "user_model": given.user, "environment": given.environment}
    for role, choice in chosen.items():
        assert said(choice) == (OPTIONS[role], "user", project.folder)
    assert (given.agent.value, given.agent.chosen_by) == ("runtime", "user")


def test_a_matrix_chooses_before_everybody(project: Project):
    project.write("cells/one.scenario.yaml", CHARACTER)
    project.write("cells/m.matrix.yaml", MATRIX)
    (scenario,) = project.load("cells/m.matrix.yaml")
    cast, cells = project.cast(scenario, **OPTIONS), project.folder / "cells"
    assert said(cast.model) == ("scripted/x.yaml", "matrix", cells)
    assert said(cast.judge) == ("scripted/j.yaml", "matrix", cells)
    assert said(cast.agent) == ("model", "matrix", cells)
    assert [choice.is_authors for choice in (cast.model, cast.judge, cast.agent)] == [True] * 3


def test_each_of_several_targets_is_chosen_by_the_user(project: Project):
    """Also where the scenario names its own: a key is withheld from an address that a scenario chose, not from one that
    the user named."""
    project.write("one.scenario.yaml", CHARACTER + "agent: http:http://127.0.0.1:9\n")
    agents, models = ("http:http://127.0.0.1:1", "http:http://127.0.0.1:2"), ("scripted/a.yaml", "scripted/b.yaml")
    run = Run(Selection(paths=("one.scenario.yaml",)), RunOptions(agents=agents, models=models))
    casts = run.casts.all(run.scenarios)
    assert {(cast.agent.value, cast.agent.chosen_by) for cast in casts} == {(agent, "user") for agent in agents}
    assert {(cast.model.value, cast.model.chosen_by) for cast in casts} == {(model, "user") for model in models}


def test_the_user_is_played_by_the_model_under_test_unless_one_is_named(project: Project):
    scenario = project.one()
    assert project.cast(scenario, model="openai/m").plays_user.value == "openai/m"
    assert project.cast(scenario, model="openai/m", user_model="openai/u").plays_user.value == "openai/u"


def test_a_scenario_of_code_alone_tests_no_model_but_may_be_judged_by_it(project: Project):
    cast = project.cast(project.one(AGENT.replace("input: Hello", "code: echo hello")), model="openai/m")
    assert (cast.tested, cast.decides.value) == (None, "openai/m")


def test_a_rubric_is_a_file_and_whoever_names_it_chose_it(project: Project):
    rubric = project.write("mine.yaml", "name: mine\ndimensions: [{name: a, weight: 1.0, description: d}]\n")
    scenario = project.one(DECISION.replace("rubric_clinical", "mine"), "one.yaml")
    assert said(project.cast(scenario).rubric) == (str(rubric), "scenario", project.folder)
    assert project.cast(scenario, rubric="mine").rubric.chosen_by == "user"
    assert project.cast(project.one(DECISION.replace("rubric_clinical", "nowhere"), "one.yaml")).rubric is None


def test_a_name_in_a_check_is_relative_to_the_scenario_unless_it_is_an_alias(project: Project):
    project.write("steadyhand.toml", '[models]\nTEXT_SMALL = "scripted/small.yaml"\n')
    cast = project.cast(project.one(AGENT, "deep/one.scenario.yaml"))
    assert cast.named("scripted/c.yaml").folder == project.folder / "deep"
    small = cast.named("TEXT_SMALL")
    assert (small.value, small.folder, small.alias) == ("scripted/small.yaml", project.folder, True)


def test_aliases_stand_for_models_and_an_unmapped_one_for_the_default(project: Project):
    project.write("steadyhand.toml", '[models]\nTEXT_SMALL = "openai/small"\nmine = "openai/mine"\n')
    cast = project.cast(project.one(), model="mine")
    default = cast.model
    assert default.value == "openai/mine"
    assert cast.of_type("TEXT_SMALL", default).value == "openai/small"
    assert cast.of_type("TEXT_LARGE", default) == cast.of_type(None, default) == default
    assert cast.of_type("other/model", default).value == "other/model"


def test_a_name_without_a_provider_is_refused_with_the_aliases_there_are(project: Project):
    project.write("steadyhand.toml", '[models]\nsmall = "openai/small"\n')
    with pytest.raises(SetupError, match=r"'gpt' has no provider; .* openai/gpt \(aliases here: small\)"):
        project.cast(project.one(), model="gpt")


def test_an_agent_is_searched_for_next_to_the_scenario_only_in_the_users_project(project: Project, tmp_path_factory):
    """Otherwise a file that came with the scenario could replace the user's own agent."""
    inside = project.one(AGENT, "deep/one.scenario.yaml")
    assert project.cast(inside, agent="python:mine.py:agent").agent.folder == project.folder / "deep"
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "one.scenario.yaml"
    elsewhere.write_text(AGENT)
    (outside,) = project.load(str(elsewhere))
    cast = project.cast(outside, agent="python:mine.py:agent")
    assert (cast.trusted, cast.agent.folder) == (False, project.folder)
    assert project.cast(outside, agent="python:mine.py:agent", trust=True).agent.folder == elsewhere.parent
