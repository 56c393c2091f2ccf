"""The example conversations, with the scripted replies that come with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from steadyhand.builtin.agents.model import ModelAgent
from steadyhand.builtin.models.scripted import ScriptedModel
from steadyhand.builtin.plugin import EVALUATORS
from steadyhand.builtin.users.simulator import LlmUserSimulator
from steadyhand.plugins.plugin import AgentSettings, ModelSettings, Plugin
from steadyhand.plugins.registry import EvaluationCatalogue, Registry
from steadyhand.records.evaluation import Verdict
from steadyhand.spec.load import load
from support.conversation import ending, hold
from support.judges import ScriptedJudge

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("billing.scenario.yaml", ("user_expresses_satisfaction", 3)),
        ("night_shift.scenario.yaml", ("script_finished", 3)),
        ("chest_pain.yaml", ("script_finished", 4)),
    ],
)
async def test_it_passes(tmp_path, name, expected):
    registry = Registry([Plugin(name="builtin", evaluators=EVALUATORS)])
    loaded = load([str(EXAMPLES / "conversations" / name)], catalogue=EvaluationCatalogue(registry))
    assert [str(problem) for problem in loaded.problems] == []
    model = ScriptedModel(ModelSettings(name="replies.yaml", folder=EXAMPLES))
    judge = ScriptedJudge(lambda _: ("yes", 0.9)) if name != "billing.scenario.yaml" else None  # for meaning checks
    record = await hold(
        tmp_path, loaded.scenarios[0], ModelAgent(AgentSettings(model=model, folder=EXAMPLES)), registry,
        user=LlmUserSimulator(lambda _: model), judge=judge,
    )  # fmt: skip
    assert record.judged.verdict is Verdict.PASSED, record.judged.reason
    assert ending(record) == expected
