"""Third-party parts that break their port: the run does not start, or the trial is an error that says so. Never a pass,
never a failure of the agent, and never a bug of ours."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import steadyhand
from steadyhand.plugin import ActionTaken, Attempt, ChatResponse, Evidence, LatencyBounds, Reply, RubricScore
from support import third_party as acme

AGENT: dict[str, Any] = {
    "id": "acme",
    "name": "Acme",
    "description": "d",
    "agent": "acme",
    "environment": {"type": "acme"},
    "run": [
        {
            "input": "Hello",
            "evaluations": [
                {"type": "acme_says", "word": "hello"},
                {"type": "acme_did", "action": "acme_note"},
                {"type": "acme_approves", "question": "Is it polite?"},
                {"type": "acme_prompt", "within_ms": 60000},
            ],
        },
        {
            "input": "Hello",
            "conversation": {"max_turns": 2, "user_simulator": {"persona": "p", "objective": "o"}},
            "evaluations": [{"type": "acme_says", "word": "hello"}],
        },
    ],
    "judgment": {"strategy": "all_pass"},
}
CONFIG = 'model = "acme/m"\njudge = "acme_free/j"\njudge_kind = "acme"\nuser_kind = "acme"\n'


def boom(*_: Any, **__: Any) -> Any:
    raise RuntimeError("boom")


async def boom_async(*_: Any, **__: Any) -> Any:
    raise RuntimeError("boom")


def answering(value: Any) -> Any:
    async def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer


def broken(part: type, **replaced: Any) -> type:
    return type(part.__name__, (part,), replaced)


def replying(**fields: Any) -> type:
    """A model whose answer has these fields."""
    answer = {"text": "hello", "attempt": Attempt(started_ms=0.0), **fields}
    return broken(acme.AcmeModel, attempt=answering(ChatResponse(**answer)))


def reporting(event: Any) -> type:
    """An agent that reports this event."""

    async def respond(self: Any, turn: Any) -> Reply:
        self._trial.emit(event)
        return Reply(text="hello")

    return broken(acme.AcmeAgent, respond=respond)


def bare(**members: Any) -> type:
    """A part without a base class that has these members alone."""
    return type("Bare", (), {"__init__": lambda self, *_: None, **members})


def lacking(port: type, method: str) -> type:
    """A part that implements its port except for one method."""
    rest = {name: None for name in getattr(port, "__abstractmethods__", ()) if name != method}
    return type("Lacking", (port,), {"__init__": lambda self, *_: None, **rest})


def plugin(point: str, name: str, part: Any) -> acme.Plugin:
    parts = {**getattr(acme.plugin, point), name: part}
    return msgspec.structs.replace(acme.plugin, **{point: parts})


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme.toml").write_text(CONFIG)


def run(point: str, name: str, part: Any, scenario: dict[str, Any] = AGENT):
    return steadyhand.run(scenario, config="acme.toml", plugins=[plugin(point, name, part)])


def test_it_passes_while_nothing_is_broken():
    assert run("models", "acme", acme.AcmeModel).passed


@pytest.mark.parametrize(
    ("point", "name", "part", "told"),
    [
        (
            "evaluators",
            "acme_says",
            broken(acme.Says, __init__=boom),
            r"evaluator 'acme_says' cannot be created: .*boom",
        ),
        ("evaluators", "acme_says", 5, "the evaluation type 'acme_says' is a int, not a class or a function"),
        (
            "evaluators",
            "acme_did",
            broken(acme.Did, reads=frozenset({"action"})),
            r"evaluator 'acme_did' reads 'action', which does not exist; did you mean `actions`\?",
        ),
        ("evaluators", "acme_approves", broken(acme.Approves, needs_judge=boom), "cannot say whether it needs a judge"),
        (
            "models",
            "acme",
            broken(acme.AcmeModel, __init__=boom),
            r"model acme/m cannot be created: .*RuntimeError: boom",
        ),
        ("models", "acme", None, "the model provider 'acme' is a NoneType"),
        ("agents", "acme", broken(acme.AcmeAgent, __init__=boom), r"the agent cannot be created: .*boom"),
        ("agents", "acme", broken(acme.AcmeAgent, shows="all"), "`shows` of the agent acme is 'all'"),
        ("agents", "acme", broken(acme.AcmeAgent, options={}), "expected a subclass of Options"),
        ("environments", "acme", broken(acme.AcmeEnvironment, __init__=boom), "the environment cannot be created"),
        ("judges", "acme", broken(acme.AcmeJudge, __init__=boom), "judge acme cannot be created"),
        ("users", "acme", broken(acme.AcmeUser, __init__=boom), "simulated user acme cannot be created"),
        (
            "evaluators",
            "acme_says",
            bare(evaluate=boom_async),
            r"`params` of the evaluator 'acme_says' is None; derive",
        ),
        ("evaluators", "acme_says", lacking(acme.Evaluator, "evaluate"), "abstract method '?evaluate"),
        ("models", "acme", lacking(acme.ChatModel, "attempt"), "model acme/m cannot be created: TypeError: .*attempt"),
        (
            "models",
            "acme",
            bare(name="m"),
            r"model acme/m has no `attempt` and `close`, .* \(class Bare\)",
        ),
        ("models", "acme", broken(acme.AcmeModel, name=5), "`name` of model acme/m is 5; expected a text"),
        ("agents", "acme", lacking(acme.Agent, "respond"), "the agent cannot be created: TypeError: .*respond"),
        ("agents", "acme", broken(acme.AcmeAgent, name=None), "`name` of the agent is None"),
        (
            "environments",
            "acme",
            lacking(acme.Environment, "read"),
            "the environment cannot be created: TypeError: .*read",
        ),
        ("judges", "acme", lacking(acme.Judge, "ask"), "judge acme cannot be created: TypeError: .*ask"),
        ("users", "acme", lacking(acme.UserSimulator, "generate_response"), "TypeError: .*generate_response"),
        (
            "agents",
            "acme",
            broken(acme.AcmeAgent, __init__=lambda self: None),
            "created: TypeError: .* takes 1 positional",
        ),
        ("actions", "acme_note", lambda text: text, "action 'acme_note': parameter 'text' needs a type hint"),
        ("actions", "acme_note", 5, "action 'acme_note' is a int, not an Action"),
        ("services", "acme_log", None, "service 'acme_log' is None"),
    ],
)
def test_a_part_that_cannot_be_made_stops_the_run_from_starting(point, name, part, told):
    with pytest.raises(steadyhand.SetupError, match=told):
        run(point, name, part)


@pytest.mark.parametrize(
    ("point", "name", "part", "told"),
    [
        ("evaluators", "acme_says", broken(acme.Says, evaluate=answering(None)), "it returned None"),
        ("evaluators", "acme_says", broken(acme.Says, evaluate=boom_async), f"boom (raised at {__file__}:"),
        (
            "evaluators",
            "acme_says",
            broken(acme.Says, evaluate=lambda *_: acme.passed("x")),
            "define it with `async def`",
        ),
        ("evaluators", "acme_says", broken(acme.Says, evaluate=answering(acme.passed(5))), "its message is 5"),
        ("evaluators", "acme_says", broken(acme.Says, evaluate=answering(acme.passed("x", evidence="y"))), "is 'y'"),
        (
            "evaluators",
            "acme_says",
            broken(acme.Says, evaluate=answering(acme.passed("x", evidence=Evidence(expected=5)))),
            "its evidence has a value of the wrong type: Expected `str | null`, got `int`",
        ),
        ("evaluators", "acme_prompt", broken(acme.Prompt, latency_bounds=boom), "boom"),
        (
            "models",
            "acme",
            broken(acme.AcmeModel, attempt=boom_async),
            f"run: the model acme/m raised RuntimeError: boom (raised at {__file__}:",
        ),
        ("models", "acme", broken(acme.AcmeModel, attempt=answering(None)), "the model acme/m returned NoneType"),
        ("models", "acme", broken(acme.AcmeModel, attempt=lambda *_, **__: 5), "define it with `async def`"),
        ("models", "acme", replying(text=None), "`text` of acme/m's ChatResponse has type NoneType; expected str"),
        ("models", "acme", replying(attempt=None), "`attempt` of acme/m's ChatResponse has type NoneType"),
        ("models", "acme", replying(usage={"input_tokens": 1}), "has type dict; expected Usage"),
        ("models", "acme", replying(tool_calls=({"name": "x"},)), "has type dict; expected ToolCall"),
        ("agents", "acme", broken(acme.AcmeAgent, respond=answering("hello")), "expected a Reply"),
        ("agents", "acme", broken(acme.AcmeAgent, respond=answering(Reply(text=None))), "has type NoneType"),
        (
            "agents",
            "acme",
            broken(acme.AcmeAgent, respond=boom_async),
            f"the agent raised RuntimeError: boom (raised at {__file__}:",
        ),
        ("agents", "acme", broken(acme.AcmeAgent, respond=lambda *_: 5), "define it with `async def`"),
        ("agents", "acme", reporting({"name": "x"}), "`emit` was given a dict; expected an event"),
        ("agents", "acme", reporting(ActionTaken(at_ms=0, id=1, name="x")), "`id` of ActionTaken is 1: Expected `str`"),
        ("agents", "acme", reporting(ActionTaken(at_ms=0, id="1", name="x", params=[1])), "`params` of ActionTaken"),
        ("agents", "acme", broken(acme.AcmeAgent, open=boom_async), "boom"),
        ("agents", "acme", broken(acme.AcmeAgent, close=boom_async), "boom"),
        ("environments", "acme", broken(acme.AcmeEnvironment, setup=boom_async), "boom"),
        ("environments", "acme", broken(acme.AcmeEnvironment, teardown=boom_async), "boom"),
        ("judges", "acme", broken(acme.AcmeJudge, ask=answering(None)), "NoneType"),
        ("users", "acme", broken(acme.AcmeUser, generate_response=answering(None)), "the simulated user said None"),
        ("users", "acme", broken(acme.AcmeUser, generate_response=answering(" ")), "the simulated user said ' '"),
        ("services", "acme_log", boom, "boom"),
    ],
)
def test_a_part_that_breaks_makes_the_trial_an_error(point, name, part, told):
    scenario = AGENT
    if point == "users":
        scenario = {**AGENT, "run": [AGENT["run"][0], {**AGENT["run"][1], "input": None}]}
        del scenario["run"][1]["input"]
    (trial,) = run(point, name, part, scenario)
    assert (trial.verdict, told in trial.reason) == ("error", True), trial.reason


def test_a_model_that_cannot_be_closed_costs_no_result():
    assert run("models", "acme", broken(acme.AcmeModel, close=boom_async)).passed


@pytest.mark.parametrize("last_byte_ms", [float("nan"), -5.0])
def test_an_impossible_latency_is_not_graded(last_byte_ms):
    class Odd(acme.AcmeModel):
        async def attempt(self, request, *, zero):
            found = await super().attempt(request, zero=zero)
            attempt = msgspec.structs.replace(found.attempt, last_byte_ms=last_byte_ms)
            return msgspec.structs.replace(found, attempt=attempt)

    class Lenient(acme.Prompt):
        async def evaluate(self, params, result, context):
            return acme.passed("in time", figures={"latency_ms": 1.0, "tier": "target"})

        def latency_bounds(self, params):
            return LatencyBounds(target_ms=1, acceptable_ms=2, critical_ms=3)

    odd = msgspec.structs.replace(
        plugin("models", "acme", Odd), evaluators={**acme.plugin.evaluators, "acme_prompt": Lenient}
    )
    (trial,) = steadyhand.run(AGENT, config="acme.toml", plugins=[odd])
    assert (trial.verdict, trial.latency_tier) == ("inconclusive", None)


@pytest.mark.parametrize(
    "score", [None, RubricScore(name="r", overall=75.0), RubricScore(name="r", scores={"a": -1.0})]
)
def test_an_impossible_score_does_not_count(score):
    decision = {
        "id": "d",
        "name": "D",
        "domain": "clinical",
        "description": "d",
        "messages": [{"role": "user", "content": "Hello"}],
        "latency_budget": {"target_ms": 60000, "acceptable_ms": 60000, "critical_ms": 60000},
        "safety_invariants": [
            {"name": "a", "description": "d", "check_type": "acme_says", "params": {"word": "hello"}, "severity": 1.0}
        ],
        "constraint": {"description": "d", "time_pressure": "immediate", "consequence_of_delay": "d"},
        "rubric": "rubric_clinical",
        "expected_action": "a",
        "severity": 1.0,
    }
    (trial,) = run("judges", "acme", broken(acme.AcmeJudge, score=answering(score)), decision)
    assert (trial.verdict, trial.record.judged.rubric.overall) == ("passed", None)
    assert trial.record.judged.rubric.reason.startswith("not scored: ")
