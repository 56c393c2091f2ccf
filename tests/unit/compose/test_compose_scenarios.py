"""From paths, tags and expressions to scenarios; libraries, rubrics, and ids that contain a secret."""

from __future__ import annotations

import pytest

from steadyhand.compose.cast import Rubrics, needs_agent, needs_user
from steadyhand.compose.scenarios import library_path, with_safe_ids
from steadyhand.errors import FileError, SetupError
from steadyhand.redaction import Redactor
from support.project import AGENT, JUDGED

CONVERSATION = """\
id: talk
name: Talk
description: They talk.
agent: model
environment: {type: local}
run:
  - input: Hello
    conversation:
      max_turns: 2
      user_simulator: {persona: A customer, objective: A refund, model_type: TEXT_SMALL}
      final_evaluations: [{type: llm_judge, prompt: Polite?, expected: "yes", model_type: openai/j}]
judgment: {strategy: all_pass}
"""
RUBRIC = """\
name: mine
description: Mine.
dimensions:
  - {name: clarity, weight: 1.0, description: Is it clear?}
"""
DECISION = """\
id: SCN-C-001
name: A decision
domain: clinical
description: Something happens.
messages: [{role: user, content: What now?}]
latency_budget: {target_ms: 5000, acceptable_ms: 10000, critical_ms: 20000}
safety_invariants:
  - {name: help, description: Help, check_type: regex, pattern: call for help, severity: 1.0}
constraint: {description: Urgent, time_pressure: immediate, consequence_of_delay: Harm}
rubric: RUBRIC
expected_action: Call for help
severity: 1.0
"""


def test_every_error_of_every_file_is_in_one_exception(project):
    project.write("a.scenario.yaml", AGENT.replace("string_contains", "string_contain"))
    project.write("b.scenario.yaml", AGENT.replace("description", "descripton"))
    with pytest.raises(FileError) as caught:
        project.load()
    assert {problem.place.file for problem in caught.value.problems} == {"a.scenario.yaml", "b.scenario.yaml"}


def test_tags_and_expressions_choose_and_nothing_left_is_said(project):
    project.write("a.scenario.yaml", AGENT.replace("id: one", "id: first\ntags: [quick]"))
    project.write("b.scenario.yaml", AGENT.replace("id: one", "id: second"))
    assert [scenario.id for scenario in project.load(tags=("quick",))] == ["first"]
    assert [scenario.id for scenario in project.load(expression="second")] == ["second"]
    with pytest.raises(SetupError, match=r"none of the 2 scenarios matches --tag slow -k 'x'"):
        project.load(tags=("slow",), expression="x")


def test_an_empty_folder_has_no_scenarios(project):
    (project.folder / "empty").mkdir()
    with pytest.raises(FileError, match=r"empty: the folder contains no \.yaml or \.yml files"):
        project.load("empty")


def test_a_library_by_its_name_and_a_list_of_them_for_a_wrong_one(project):
    assert project.load("@clinical")
    with pytest.raises(SetupError, match=r"unknown library '@clinic'; available: @clinical, @robotic"):
        library_path("@clinic")
    with pytest.raises(SetupError, match="unknown library"):
        library_path("@../rubrics")


@pytest.mark.parametrize(("where", "name"), [("", "beside"), ("own", "configured"), (None, "rubric_clinical")])
def test_a_rubric_is_beside_the_scenario_or_configured_or_shipped(project, where, name):
    project.write("steadyhand.toml", 'rubrics = "own"\n')
    if where is not None:
        project.write(f"{where or '.'}/{name}.yaml", RUBRIC)
    scenario = project.one(DECISION.replace("RUBRIC", name), "one.yaml")
    rubrics = Rubrics(project.settings())
    assert rubrics.check([scenario], read=True) == []
    assert rubrics.get(scenario).dimensions


def test_a_rubric_that_is_nowhere_is_a_problem_at_its_line_with_the_nearest_name(project):
    scenario = project.one(DECISION.replace("RUBRIC", "rubric_clinica"), "one.yaml")
    rubrics = Rubrics(project.settings())
    (problem,) = rubrics.check([scenario, scenario], read=False)
    assert (problem.code, problem.place.line) == ("unknown-name", 1 + DECISION[: DECISION.index("rubric:")].count("\n"))
    assert "did you mean `rubric_clinical`?" in problem.message
    with pytest.raises(FileError):
        rubrics.get(scenario)


def test_a_scenario_without_a_rubric_has_none(project):
    assert Rubrics(project.settings()).get(project.one()) is None


def test_what_a_scenario_needs(project):
    code = AGENT.replace("input: Hello", "code: print('hello')")
    plain, judged, talk = project.one(code), project.one(JUDGED), project.one(CONVERSATION)
    assert [needs_agent(each) for each in (plain, judged, talk)] == [False, True, True]
    assert [needs_user(each) for each in (plain, judged, talk)] == [False, False, True]
    decision = project.one(DECISION.replace("rubric: RUBRIC\n", "rubric: rubric_clinical\n"), "d.yaml")
    assert not project.cast(decision).reaches_services


def test_ids_with_a_secret_are_redacted_and_still_told_apart(project):
    project.write("a.scenario.yaml", AGENT.replace("id: one", "id: of-canary-aaaa1111"))
    project.write("b.scenario.yaml", AGENT.replace("id: one", "id: of-canary-bbbb2222"))
    project.write("c.scenario.yaml", AGENT)
    redactor = Redactor(["canary-aaaa1111", "canary-bbbb2222"])
    safe = with_safe_ids(project.load(), redactor)
    ids = [scenario.id for scenario in safe]
    assert "one" in ids
    assert len(set(ids)) == 3
    assert not any("canary" in each for each in ids)
    assert [scenario.id for scenario in with_safe_ids(safe, redactor)] == ids
