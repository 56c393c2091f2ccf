"""The specifications' own examples load as they are written."""

import textwrap
from pathlib import Path

import jsonschema
import pytest

from steadyhand.records.chat import Message
from steadyhand.records.location import Place
from steadyhand.records.scenario import Ask, Converse, MockFault, MockWhen, evaluation_specs
from steadyhand.spec.schema import json_schemas
from steadyhand.spec.yaml import parse

EXAMPLES = Path(__file__).parent / "examples"
HEAD = "name: Example\ndescription: An example\nenvironment:\n  type: local\njudgment:\n  strategy: all_pass\n"
STEP = 'run:\n  - input: "hello"\n    evaluations:\n      - type: string_contains\n        value: hi\n'


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.yaml").read_text()


FILES = {
    "conversation": HEAD + example("conversation"),
    "mocks": HEAD + STEP + "setup:\n" + textwrap.indent(example("mocks"), "  "),
    "plugins": HEAD + STEP + example("plugins"),
    "llm_judge": HEAD + "run:\n  - input: hi\n    evaluations:\n" + textwrap.indent(example("llm_judge"), "      "),
    "decision": example("decision_required") + example("decision_optional"),
}


@pytest.fixture(scope="module")
def schemas(catalogue):
    schemas = json_schemas(catalogue, ["local"])
    for name in ("agent", "decision"):
        jsonschema.Draft202012Validator.check_schema(schemas[name])
    return schemas


@pytest.mark.parametrize("name", FILES)
def test_each_loads_without_a_finding_and_the_schema_agrees(name, load_text, schemas):
    loaded = load_text(FILES[name])
    assert [str(problem) for problem in loaded.problems] == []
    assert len(loaded.scenarios) == 1
    schema = schemas["decision" if name == "decision" else "agent"]
    jsonschema.Draft202012Validator(schema).validate(parse(FILES[name])[1])


def test_the_conversation(load_text):
    (scenario,) = load_text(FILES["conversation"]).scenarios
    (step,) = scenario.steps
    assert step.name == "Customer Support Conversation"
    assert isinstance(step.task, Converse)
    assert [message.content for message in step.task.opening] == ["Hi, I need help with billing"]
    config = step.task.config
    assert (config.max_turns, config.timeout_per_turn_ms, config.total_timeout_ms) == (6, 30_000, 300_000)
    user = config.user_simulator
    assert (user.temperature, user.max_tokens, user.model_type, user.knowledge_level) == (
        0.6,
        200,
        "TEXT_LARGE",
        "intermediate",
    )
    assert user.constraints == ("Be polite and cooperative", "Provide details when asked")
    assert [condition.type for condition in config.termination_conditions] == [
        "user_expresses_satisfaction",
        "agent_provides_solution",
    ]
    assert config.termination_conditions[0].keywords == ("thank you", "resolved", "perfect")
    assert config.turn_evaluations[0].params == {"prompt": "Did the agent respond helpfully?", "expected": "yes"}
    final = config.final_evaluations[0]
    assert final.params["capabilities"] == ["Understood the customer's concern", "Provided helpful solutions"]
    lines = FILES["conversation"].splitlines()
    assert "Was the issue" in lines[final.place.line]
    assert final.place.path == "run[0].conversation.final_evaluations[0]"
    assert config.debug_options.export_full_transcript
    assert scenario.id == "file"
    assert len(list(evaluation_specs(scenario))) == 2


def test_the_mock(load_text):
    (mock,) = load_text(FILES["mocks"]).scenarios[0].setup.mocks
    assert (mock.service, mock.method) == ("service_name", "method_name")
    assert mock.when == MockWhen(
        args=[["exact", "args"]],
        input={"param": "value"},
        context={"user_id": "123"},
        matcher="args[0].includes('test')",
        partial_args=["partial"],
    )
    assert mock.response == {"data": {"key": "value"}}
    assert mock.response_fn == "() => ({ timestamp: Date.now() })"
    assert mock.error == MockFault(code="API_ERROR", message="Rate limit exceeded", status=429)
    assert (mock.delay_ms, mock.probability) == (1000, 0.1)


def test_the_plugins(load_text):
    first, second = load_text(FILES["plugins"]).scenarios[0].plugins
    assert (first.name, first.version, first.enabled, first.config) == ("@elizaos/plugin-bootstrap", None, True, {})
    assert (second.name, second.version, second.enabled) == ("@elizaos/plugin-github", "1.0.0", True)
    assert second.config == {"api_key": "github_token", "rate_limit": 100}


def test_the_judge(load_text):
    (evaluation,) = load_text(FILES["llm_judge"]).scenarios[0].steps[0].evaluations
    assert evaluation.type == "llm_judge"
    assert evaluation.params["json_schema"]["required"] == ["judgment", "confidence", "reasoning"]
    assert evaluation.params["temperature"] == 0.1
    assert len(evaluation.params["capabilities"]) == 3


def test_the_decision(load_text):
    (scenario,) = load_text(FILES["decision"]).scenarios
    assert (scenario.id, scenario.name, scenario.domain) == ("SCN-C-001", "ST-Elevation MI", "clinical")
    (step,) = scenario.steps
    assert step.task == Ask(
        messages=(Message(role="system", content="System prompt..."), Message(role="user", content="User query..."))
    )
    invariant, budget = step.evaluations
    assert (invariant.type, invariant.name, invariant.severity) == ("regex", "invariant_name", 1.0)
    assert invariant.params == {"pattern": "\\bpattern\\b"}
    assert invariant.place == Place(file="file.yaml", line=16, column=5, path="safety_invariants[0]")
    assert (budget.type, budget.name, budget.severity) == ("latency_budget", "latency_budget", None)
    assert budget.params == {"target_ms": 500, "acceptable_ms": 1000, "critical_ms": 2000}
    assert budget.place == Place(file="file.yaml", line=11, column=1, path="latency_budget")
    assert scenario.constraint is not None
    assert scenario.constraint.time_pressure == "immediate"
    assert (scenario.rubric, scenario.severity) == ("rubric_clinical", 1.0)
    assert scenario.tags == ("cardiac", "esi-1")
    assert scenario.metadata == {"esi_level": 1, "time_to_harm_hours": 0.5}
    assert scenario.judgment.strategy == "all_pass"
    assert len(scenario.digest) == 16
