from pathlib import Path

import pytest

from steadyhand.batch.plan import Plan, estimate
from steadyhand.compose.models import asks_judge
from steadyhand.compose.scenarios import build_registry
from steadyhand.plugins.registry import EvaluationCatalogue
from steadyhand.spec.load import load

ASK = """\
name: Ask
description: d
environment: {type: local}
run:
  - {input: hello, evaluations: [{type: string_contains, value: a}]}
  - {code: ls}
judgment: {strategy: all_pass}
"""
TALK = """\
name: Talk
description: d
environment: {type: local}
run:
  - input: hello
    evaluations: [{type: llm_judge, prompt: p, expected: "yes"}]
    conversation:
      max_turns: 4
      user_simulator: {persona: p, objective: o}
      termination_conditions: [{type: goal_achieved, llm_judge: {prompt: p}}]
      turn_evaluations: [{type: llm_judge, prompt: p, expected: "yes"}]
      final_evaluations: [{type: llm_judge, prompt: p, expected: "yes"}]
judgment: {strategy: all_pass}
"""
SCRIPT = """\
name: Script
description: d
environment: {type: local}
run:
  - conversation:
      script: [one, {say: two, evaluations: [{type: llm_judge, prompt: p, expected: "yes"}]}]
      final_evaluations: [{type: user_satisfaction, measurement_method: keyword_analysis}]
judgment: {strategy: all_pass}
"""
CODE = "name: Code\ndescription: d\nenvironment: {type: local}\nrun: [{code: ls}]\njudgment: {strategy: all_pass}\n"


@pytest.mark.parametrize(
    ("text", "trials", "asks", "told"),
    [
        (ASK, 1, "once", "1 trial of 1 scenario: 1 model call"),
        (ASK, 3, "once", "3 trials of 1 scenario: 3 model calls"),
        (ASK, 2, "repeatedly", "2 trials of 1 scenario: 2 turns of the agent, each at least one model call"),
        (ASK, 2, "unknown", "2 trials of 1 scenario: 2 turns of the agent"),
        (CODE, 2, "repeatedly", "2 trials of 1 scenario: 0 model calls"),
        (SCRIPT, 1, "once", "1 trial of 1 scenario: 1 to 2 model calls; up to 1 check by a judge"),
        (
            TALK,
            2,
            "once",
            (
                "2 trials of 1 scenario: 2 to 8 model calls; up to 8 model calls for the simulated user; "
                "up to 20 checks by a judge"
            ),
        ),
    ],
)
def test_it_says_what_is_known_and_no_more(tmp_path: Path, text, trials, asks, told):
    (tmp_path / "one.yaml").write_text(text)
    loaded = load([tmp_path / "one.yaml"], catalogue=EvaluationCatalogue(build_registry()))
    assert not loaded.errors
    planned = Plan(loaded.scenarios, seed=1, trials=trials)
    registry = build_registry()

    def judged(_, check):
        return asks_judge(check, registry)

    found = estimate(planned, lambda _: asks, judged)
    assert str(found) == told
    rubric = estimate(planned, lambda _: asks, judged, lambda _: True)
    assert rubric.judge_checks == found.judge_checks + trials
