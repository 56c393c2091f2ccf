from pathlib import Path

from steadyhand.compose.loading import ScenarioRegistries, build_registry, load_scenarios
from steadyhand.compose.models import build_gate, needs_network
from steadyhand.compose.settings import RunOptions, Selection, Settings
from steadyhand.records.chat import ChatRequest, Message

SCENARIO = """\
id: {id}
name: One
description: It answers.
environment: {{type: local}}
run: [{{input: Hello, evaluations: [{{type: string_contains, value: hello}}]}}]
judgment: {{strategy: all_pass}}
"""
REQUEST = ChatRequest(messages=(Message(role="user", content="x"),))


def gate_of(folder: Path, **options):
    scenarios = load_scenarios(Selection(paths=(str(folder),)), ScenarioRegistries(build_registry()))
    settings = Settings(RunOptions(**options))
    return build_gate(scenarios, settings, lambda message: None), needs_network(scenarios, settings)


def two_folders(folder: Path, *settings: str) -> None:
    for name, text in zip(("a", "b"), settings, strict=True):
        (folder / name).mkdir()
        (folder / name / f"{name}.scenario.yaml").write_text(SCENARIO.format(id=name))
        (folder / name / "steadyhand.toml").write_text(text)


async def reason_of_the_last(gate, calls):
    """What the last of so many calls would have to wait for; the clock is the real one, so it is not waited out."""
    for _ in range(calls - 1):
        async with gate.admit("openai/m", REQUEST):
            pass
    return gate._provider("openai/m").obstacle(1.0)[1]


async def test_of_two_limits_on_one_provider_the_lower_holds(tmp_path):
    few, many = (f"[providers.openai]\nrequests_per_minute = {limit}\n" for limit in (2, 500))
    two_folders(tmp_path, few, many)
    gate, _ = gate_of(tmp_path)
    assert await reason_of_the_last(gate, 2) == ""
    assert await reason_of_the_last(gate, 2) == "the limit of openai on requests a minute"


async def test_a_file_without_a_limit_does_not_lift_that_of_another(tmp_path):
    two_folders(
        tmp_path, "[providers.openai]\nrequests_per_minute = 1\n", '[providers.openai]\nbase_url = "http://h/"\n'
    )
    gate, _ = gate_of(tmp_path)
    assert await reason_of_the_last(gate, 2) == "the limit of openai on requests a minute"


async def test_a_replay_is_not_limited(tmp_path):
    two_folders(tmp_path, "[providers.openai]\nrequests_per_minute = 1\n", "")
    gate, _ = gate_of(tmp_path, replay=tmp_path)
    for _ in range(5):
        async with gate.admit("openai/m", REQUEST) as admission:
            assert admission.reason == ""


def test_what_is_reached_over_the_network(tmp_path):
    two_folders(tmp_path, 'model = "scripted/x.yaml"\n', 'model = "scripted/x.yaml"\n')
    for options, expected in (
        ({}, False),
        ({"model": "openai/m"}, True),
        ({"judge": "openai/m"}, True),
        ({"user_model": "openai/m"}, True),
        ({"agent": "http:http://127.0.0.1:9/v1"}, True),
    ):
        assert gate_of(tmp_path, **options)[1] is expected, options
