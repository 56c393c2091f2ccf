"""Who judges, who wins if several are named, and what is said about a judge that may not be impartial."""

from __future__ import annotations

import pytest

from steadyhand.errors import SetupError
from steadyhand.records.scenario import Scenario
from support.project import AGENT, JUDGED, Project

SCRIPT = "rules:\n  - reply: hello\n"
WITH_TYPE = JUDGED.replace('expected: "yes"', 'expected: "yes", model_type: TEXT_LARGE')
ENDING = """\
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
      termination_conditions: [{type: custom_condition, llm_judge: {prompt: Is it over?}}]
      final_evaluations: [{type: conversation_length, max_turns: 2}]
judgment: {strategy: all_pass}
"""


def asked(project: Project, question: str, scenario: Scenario, **options):
    return getattr(project.judges(**options), question)(project.cast(scenario, **options))


@pytest.mark.parametrize(("text", "needed"), [(AGENT, False), (JUDGED, True), (ENDING, True)])
def test_a_judge_is_needed_where_a_check_or_an_ending_asks_one(project, text, needed):
    assert asked(project, "needed", project.one(text)) is needed


def test_a_plugins_check_that_declares_to_need_a_judge_needs_one(project):
    project.write(
        "mine.py",
        "from steadyhand.plugins.plugin import Plugin\n"
        "from steadyhand.ports.evaluator import EvaluationParams\n"
        "from steadyhand.records.evaluation import passed\n"
        "class Asks:\n"
        "    type, params = 'asks', EvaluationParams\n"
        "    @classmethod\n"
        "    def needs_judge(cls, params): return True\n"
        "    async def evaluate(self, params, result, context): return passed('')\n"
        "plugin = Plugin(name='mine', evaluators={'asks': Asks})\n",
    )
    text = AGENT.replace("{type: string_contains, value: hello}", "{type: asks}") + "plugins: [./mine.py]\n"
    assert asked(project, "needed", project.one(text))


def test_without_a_named_judge_nobody_judges(project):
    assert asked(project, "get", project.one(JUDGED)) is None


def test_the_judge_that_is_named_judges_else_the_model_under_test(project):
    for name in ("m.yaml", "j.yaml"):
        project.write(name, SCRIPT)
    scenario = project.one(JUDGED)
    own = asked(project, "get", scenario, model="scripted/m.yaml")
    other = asked(project, "get", scenario, model="scripted/m.yaml", judge="scripted/j.yaml")
    assert (own.name, own.self_judged) == ("scripted/m.yaml", True)
    assert (other.name, other.self_judged) == ("scripted/j.yaml", False)


def test_scenarios_with_the_same_judge_share_it(project):
    project.write("m.yaml", SCRIPT)
    judges, casts = project.judges(model="scripted/m.yaml"), project.casts(model="scripted/m.yaml")
    first, second = project.one(JUDGED), project.one(JUDGED.replace("id: one", "id: two"), "two.scenario.yaml")
    assert judges.get(casts.of(first)) is judges.get(casts.of(second))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "openai/m"}, ["self-judged: openai/m is its own judge; give --judge for an independent one"]),
        (
            {"model": "openai/m", "judge": "openai/m"},
            ["self-judged: openai/m is its own judge; name another one"],
        ),
        (
            {"model": "openai/m", "judge": "openai/j"},
            ["the judge openai/j and the model under test openai/m are from the same vendor, openai"],
        ),
        ({"model": "openai/m", "judge": "anthropic/j"}, []),
        ({"model": "scripted/answers/m.yaml", "judge": "scripted/answers/j.yaml"}, []),
        ({"judge": "openai/j"}, []),
    ],
)
def test_what_is_said_of_a_judge_that_may_not_be_impartial(project, options, said):
    scenario = project.one(JUDGED)
    assert asked(project, "warnings", scenario, **options) == said
    if said:
        with pytest.raises(SetupError, match=r"--strict-judge: one\.scenario\.yaml"):
            asked(project, "warnings", scenario, **options, strict_judge=True)


def test_nothing_is_said_where_nothing_is_judged(project):
    assert asked(project, "warnings", project.one(AGENT), model="openai/m") == []


def test_the_judge_that_a_check_asks_for_is_looked_at_too(project):
    project.write("steadyhand.toml", '[models]\nTEXT_LARGE = "openai/m"\n')
    (said,) = asked(project, "warnings", project.one(WITH_TYPE), model="openai/m")
    assert said.startswith("self-judged: openai/m")


def test_an_option_that_wins_over_a_model_type_says_what_is_not_followed(project):
    project.write("steadyhand.toml", '[models]\nTEXT_LARGE = "openai/large"\nTEXT_SMALL = "openai/u"\n')
    judged, talk = project.one(WITH_TYPE), project.one(ENDING)
    assert asked(project, "overrides", judged, model="openai/m") == []
    assert asked(project, "overrides", judged, model="openai/m", judge="openai/j") == [
        "--judge openai/j is used in place of `model_type: TEXT_LARGE`, which stands for openai/large"
    ]
    assert asked(project, "overrides", judged, judge="openai/large") == []
    assert asked(project, "overrides", talk, user_model="openai/other") == [
        "--user-model openai/other is used in place of `model_type: TEXT_SMALL`, which stands for openai/u"
    ]
    assert asked(project, "overrides", talk, user_model="openai/u") == []
