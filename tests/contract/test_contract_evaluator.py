"""What every check must do: read only what it declares, and ask a judge only if it declares that.

To apply it to another one, add its parameters to `PARAMS` and `CHECKS`. A check that asks a judge reads what there is;
the judge is told what is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.plugin import EVALUATORS, builtin_plugin, script_sandbox
from steadyhand.builtin.services.database import make_database
from steadyhand.plugins.plugin import EnvironmentSettings, Plugin
from steadyhand.plugins.registry import Registry
from steadyhand.ports.evaluator import EvaluationContext, needs_judge, reads_of
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.location import Place
from steadyhand.records.result import ConversationResult, ConversationTurn, ExecutionResult, Latency
from steadyhand.records.scenario import DatabaseSeed, Scenario
from support.agents import a_trial
from support.conversation import PLACE
from support.evaluation import Trial
from support.judges import ScriptedJudge
from support.trial import HERE
from unit.builtin.evaluators.test_builtin_evaluators_text_parameters import GOOD

PARAMS: dict[str, list[dict[str, Any]]] = {
    "string_contains": [{"value": "x", "scope": "transcript"}],
    "regex_match": [{"pattern": "x", "scope": "agent"}],
    "file_exists": [{"path": "a"}],
    "file_contains": [{"path": "a", "value": "x"}],
    "command_exit_code_is": [{"command": "test -e a"}],
    "trajectory_contains_action": [{"action": "a"}, {"action": "a", "max_count": 0}],
    "llm_judge": [{"prompt": "?", "expected": "yes"}],
    "execution_time": [{"max_duration_ms": 5}],
    "conversation_length": [{"max_turns": 5}],
    "conversation_flow": [{"required_patterns": ["question_then_answer"]}],
    "user_satisfaction": [{"measurement_method": "keyword_analysis", "satisfaction_threshold": 0.5}],
    "context_retention": [{"test_memory_of": ["x"]}],
    "holds_across_turns": [{"value": "x"}, {"criterion": "x"}],
    "regex": [{"pattern": "x"}],
    "contains": [{"pattern": "x"}],
    "not_contains": [{"pattern": "x"}],
    "judge": [{"judge_criterion": "x"}],
    "advises": [{"action": "order x", "judge_criterion": "x"}],
    "forbids": [{"action": "order x", "judge_criterion": "x"}],
    "states": [{"of": "x", "value": "1 mg", "judge_criterion": "x"}],
    "chooses": [{"options": ["y", "z"], "expected": "y", "judge_criterion": "x"}],
    "nothing_else": [{"judge_criterion": "x"}],
    "latency_budget": [{"target_ms": 1, "acceptable_ms": 2, "critical_ms": 3}],
    "sequence": [{"rules": [{"never": "a"}]}],
    "service_called": [{"service": "s"}, {"service": "s", "max_count": 0}],
    "database_query": [{"query": "SELECT 1", "row_count": 1}],
    "not_regex": [{"pattern": "x", "scope": "transcript"}],
    "equals": [{"value": "x"}],
    "similar_to": [{"value": "x"}],
    "refuses": [{}],
    "language_is": [{"language": "de"}],
    "json_schema": [{"schema": {}}, {"schema": {"required": ["x"]}, "action": "a"}],
    "json_path": [{"path": "$.x", "equals": 1}, {"path": "$.x", "equals": 1, "action": "a"}],
    "tool_args_valid": [{}, {"action": "a"}],
    "no_repeated_calls": [{}, {"action": "a"}],
    "max_tokens": [{"value": 1}],
    "cost_below": [{"value": 1}],
    "javascript": [{"expression": "reply === 'x'"}, {"expression": "deeds.length === 0"}],
    "python": [{"function": "./checks.py:of_the_reply"}],
}
JUDGED = {"llm_judge", "judge", "advises", "forbids", "states", "chooses", "nothing_else"}
ASKS_IN_DOUBT = {"holds_across_turns"}
"""They ask only what rules cannot tell."""

READ_AT = {
    "deeds": "deeds",
    "trajectory": "actions",
    "service_calls": "services",
    "files": "files",
    "calls": "model_calls",
}
"""Where it is in a result."""
LOOKS_UP_SCHEMAS = {"tool_args_valid"}
"""It asks the trial's services what they take, not what was done with them."""
DECIDES_LATER = {"python"}
"""It is handed everything, and decides nothing if its function takes what cannot be seen."""


class Watched:
    """Stands in for an object and notes which of these attributes are read."""

    def __init__(self, target: Any, names: dict[str, str], seen: set[str]) -> None:
        self._target, self._names, self._seen = target, names, seen

    def __getattr__(self, name: str) -> Any:
        if name in self._names:
            self._seen.add(self._names[name])
        return getattr(self._target, name)


def _result() -> ExecutionResult:
    said = (Message(role="user", content="x?"), Message(role="assistant", content="x"))
    turn = ConversationTurn(turn_number=1, user_input="x?", agent_response="x", room_id="r")
    talk = ConversationResult(
        turns=(turn,), total_duration_ms=1.0, terminated_early=False, termination_reason=None, success=True
    )
    return ExecutionResult(reply="x", messages=said, latency=Latency(ms=1.0), conversation=talk)


def test_every_check_takes_part():
    assert set(PARAMS) == set(EVALUATORS)


@pytest.mark.parametrize(
    ("type_", "params"), [(type_, params) for type_, all_ in PARAMS.items() for params in all_], ids=str
)
async def test_it_reads_what_it_declares(type_: str, params: dict[str, Any], tmp_path: Path):
    evaluator = Registry([builtin_plugin()]).evaluator(type_)
    trial = a_trial(tmp_path, judge=ScriptedJudge(lambda _: ("yes", 1.0)))
    await trial.environment.setup([])
    trial.parts.scripts = script_sandbox()
    (tmp_path / "checks.py").write_text("def of_the_reply(reply): return reply == 'x'")
    trial.scenario = msgspec.structs.replace(trial.scenario, place=Place(file=str(tmp_path / "a.yaml")))
    (tmp_path / "empty.sqlite").touch()
    seed = DatabaseSeed(url="sqlite:///empty.sqlite")
    trial.parts.database = make_database(seed, environment=trial.environment, folder=tmp_path, live=True)
    await trial.parts.database.open()
    seen: set[str] = set()
    watched = Watched(trial, {"environment": "files", "database": "database", "services": "services"}, seen)
    context = EvaluationContext(trial=watched, spec=EvaluationSpec(type=type_, place=HERE, params=params))
    checked = evaluator.params.model_validate(params)
    await evaluator.evaluate(checked, Watched(_result(), READ_AT, seen), context)
    await trial.parts.database.close()
    await trial.environment.teardown()
    trial.parts.scripts.close()
    declared = set(reads_of(evaluator, checked))
    assert declared <= set(reads_of(evaluator))
    if "model_calls" not in declared:  # their times, and the agents that made them, are no secret
        seen.discard("model_calls")
    if type_ in LOOKS_UP_SCHEMAS:
        seen.discard("services")
    if type_ in DECIDES_LATER:
        seen.clear()
    if "deeds" in seen:  # one list of actions and service calls; the check declares which of them it rests on
        assert declared & {"actions", "services"}
        seen = (seen - {"deeds"}) | declared
    assert declared <= seen
    assert seen == declared or (type_ in JUDGED and not declared)


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
    judge = ScriptedJudge(lambda _: ("yes", 1.0))
    scenario = Scenario(id="s", name="s", description="", place=PLACE, digest="", steps=())
    environment = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"))
    (tmp_path / "checks.py").write_text("def is_polite(reply): return True")
    scenario = msgspec.structs.replace(scenario, place=Place(file=str(tmp_path / "a.yaml")))
    sandbox = script_sandbox()
    trial = Trial(scenario, environment, judge=judge, scripts=sandbox)
    spec = EvaluationSpec(type=type_, place=PLACE, params=params)
    checked = evaluator.params.model_validate(params)
    try:
        await evaluator.evaluate(checked, RESULT, EvaluationContext(trial=trial, spec=spec))
    finally:
        sandbox.close()
        await environment.teardown()
    declared = needs_judge(evaluator, checked)
    assert bool(judge.asked) == declared or (declared and type_ in ASKS_IN_DOUBT)


def test_every_evaluator_is_held_to_it():
    assert {type_ for type_, _ in CHECKS} == set(EVALUATORS)
