"""The example of docs/plugins.md, through resolution, the runtime, the agent and its checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from steadyhand.builtin.agents.runtime import RuntimeAgent
from steadyhand.plugins.plugin import AgentSettings
from steadyhand.plugins.registry import Registry
from steadyhand.plugins.resolve import resolve_plugins
from steadyhand.ports.agent import Turn
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec, Verdict
from steadyhand.records.event import ActionTaken, ServiceCalled, TrajectoryStep
from steadyhand.records.result import ConversationTurn, ExecutionResult
from steadyhand.records.scenario import PluginRef
from steadyhand.runtime.runtime import AgentRuntime
from steadyhand.testing import ScriptedChatModel
from support.trial import HERE, TrialStandIn, calls, says

FOLDER = Path(__file__).parents[4] / "examples" / "plugins"
SCENARIO = yaml.safe_load((FOLDER / "orders.scenario.yaml").read_text())


def registry() -> Registry:
    refs = [PluginRef(place=HERE, **given) for given in SCENARIO["plugins"]]
    return Registry([]).extended(resolve_plugins(refs, folder=FOLDER, live=False).plugins)


async def play(folder: Path, *answers: Any) -> tuple[TrialStandIn, ExecutionResult]:
    parts = registry()
    trial = TrialStandIn(folder)
    trial.services = AgentRuntime(actions=parts.actions(), services=parts.services())
    await trial.services.open(trial)
    agent = RuntimeAgent(AgentSettings(model=ScriptedChatModel(answers), folder=folder))
    await agent.open(trial)
    reply = await agent.respond(Turn(messages=(Message(role="user", content="?"),)))
    await agent.close()
    await trial.services.close()
    return trial, ExecutionResult(reply=reply.text, service_calls=tuple(trial.of(ServiceCalled)))


async def check(trial: TrialStandIn, result: ExecutionResult) -> Verdict:
    evaluator = registry().evaluator("amount_quoted")
    params = evaluator.params.model_validate({"order_id": "17"})
    context = EvaluationContext(trial=trial, spec=EvaluationSpec(type="amount_quoted", place=HERE))
    return (await evaluator.evaluate(params, result, context)).verdict


async def test_the_check_compares_the_reply_with_the_service(tmp_path: Path):
    looked_up = calls(("look_up_order", {"order_id": "17"}))
    assert await check(*await play(tmp_path, looked_up, says("It came to 42.50 EUR."))) is Verdict.PASSED
    assert await check(*await play(tmp_path, looked_up, says("It came to 40 EUR."))) is Verdict.FAILED
    assert await check(*await play(tmp_path, says("It came to 42.50 EUR."))) is Verdict.INCONCLUSIVE


async def test_an_order_that_is_not_there_is_the_agents_to_deal_with(tmp_path: Path):
    trial, result = await play(tmp_path, calls(("look_up_order", {"order_id": "18"})), says("There is none."))
    assert result.reply == "There is none."
    assert [taken.status for taken in trial.of(ActionTaken)] == ["error"]
    assert result.service_calls[0].error == "there is no order '18'"


async def test_each_trial_has_its_own_orders(tmp_path: Path):
    refund = calls(("refund_order", {"order_id": "17", "reason": "broken"}))
    await play(tmp_path, refund, says("done"))
    trial, _ = await play(tmp_path, calls(("look_up_order", {"order_id": "17"})), says("ok"))
    assert trial.of(ServiceCalled)[0].result == {"total": 42.5, "refunded": False}


def test_the_termination_condition_that_the_scenario_names(tmp_path: Path):
    (condition,) = SCENARIO["run"][1]["conversation"]["termination_conditions"]
    settled = registry().termination(condition["function"])
    step = TrajectoryStep(type="action", at_ms=0.0, name="refund_order", status="success")
    trial = TrialStandIn(tmp_path)
    done = ConversationTurn(turn_number=1, user_input="a", agent_response="b", trajectory=(step,))
    idle = ConversationTurn(turn_number=1, user_input="a", agent_response="b")
    assert settled((done,), trial) == "the order was refunded"
    assert settled((idle,), trial) == ""
