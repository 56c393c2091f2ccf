"""What every evaluator must do. To hold another one to it, add its parameters to `CHECKS`.

Whether a check asks a judge is declared by its evaluator (`needs_judge`), and only a check that does is given one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.builtin.environments.local import LocalEnvironment
from holdfast.builtin.evaluators.table import EVALUATORS
from holdfast.plugins.factories import EnvironmentSettings
from holdfast.plugins.plugin import Plugin
from holdfast.plugins.registry import Registry
from holdfast.ports.evaluator import EvaluationContext, JudgedCheck
from holdfast.records.conversation import ConversationResult, ConversationTurn
from holdfast.records.evaluation import EvaluationSpec
from holdfast.records.execution import ExecutionResult
from holdfast.records.message import Message
from holdfast.records.scenario import Scenario
from unit.builtin_evaluators.conftest import Trial
from unit.builtin_evaluators.test_builtin_evaluators_params import GOOD
from unit.engine_conversation.talking import PLACE, ToldJudge

CHECKS: list[tuple[str, dict[str, Any]]] = [
    *GOOD,
    ("user_satisfaction", {"measurement_method": "sentiment_analysis"}),
    ("user_satisfaction", {"measurement_method": "keyword_analysis"}),
]
TURNS = tuple(
    ConversationTurn(turn_number=number, user_input="My name is Ada.", agent_response="Call an ambulance.")
    for number in (1, 2, 3)
)
TALK = ConversationResult(turns=TURNS, total_duration_ms=1, terminated_early=False, termination_reason=None)
RESULT = ExecutionResult(
    reply="Call an ambulance.",
    messages=(Message(role="user", content="Help!"), Message(role="assistant", content="Call an ambulance.")),
    conversation=TALK,
)


@pytest.mark.parametrize(("type_", "params"), CHECKS, ids=[f"{type_}-{at}" for at, (type_, _) in enumerate(CHECKS)])
async def test_a_check_asks_a_judge_exactly_when_it_declares_to(tmp_path: Path, type_: str, params: dict[str, Any]):
    evaluator = Registry([Plugin(name="builtin", evaluators=EVALUATORS)]).evaluator(type_)
    judge = ToldJudge(*[("yes", 1.0)] * 20)
    scenario = Scenario(id="s", name="s", description="", place=PLACE, digest="", steps=())
    environment = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"))
    trial = Trial(scenario, environment, judge=judge)
    spec = EvaluationSpec(type=type_, place=PLACE, params=params)
    checked = evaluator.params.model_validate(params)
    try:
        await evaluator.evaluate(checked, RESULT, EvaluationContext(trial=trial, spec=spec))
    finally:
        await environment.teardown()
    declared = isinstance(evaluator, JudgedCheck) and evaluator.needs_judge(checked)
    assert bool(judge.asked) == declared


def test_every_evaluator_is_held_to_it():
    assert {type_ for type_, _ in CHECKS} == set(EVALUATORS)
