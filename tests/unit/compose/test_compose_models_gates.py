from pathlib import Path

import pytest

from steadyhand.builtin.models.openai import OpenAIEmbeddings
from steadyhand.compose.cast import Casts
from steadyhand.compose.models import build_gate, needs_network, providers_of
from steadyhand.compose.scenarios import load_scenarios, open_registries
from steadyhand.compose.settings import Settings
from steadyhand.ports.model import ModelFacts
from steadyhand.records.chat import ChatRequest, Message
from steadyhand.records.config import RunOptions, Selection
from support.project import AGENT

REQUEST = ChatRequest(messages=(Message(role="user", content="x"),))


@pytest.fixture
def parts_of(tmp_path: Path):
    """The gate of a run, whether it needs the network, and what its providers declare."""

    def build(config: str, **options):
        (tmp_path / "one.scenario.yaml").write_text(AGENT)
        (tmp_path / "mine.toml").write_text(config)
        settings = Settings(RunOptions(config=tmp_path / "mine.toml", **options))
        registries = open_registries(settings)
        scenarios = load_scenarios(Selection(paths=(str(tmp_path / "one.scenario.yaml"),)), registries)
        casts = Casts(settings, registries).all(scenarios)
        providers = providers_of(casts)
        gate = build_gate(providers, settings, lambda message: None)
        return gate, needs_network(casts, providers), providers

    return build


async def test_the_limit_of_the_configuration_holds(parts_of):
    gate, _, _ = parts_of("[providers.openai]\nrequests_per_minute = 1\n", model="openai/m")
    async with gate.admit("openai/m", REQUEST):
        pass
    assert gate._provider("openai/m").obstacle(1.0).why == "openai's limit on requests per minute"


async def test_a_replay_is_not_limited(parts_of, tmp_path):
    gate, _, _ = parts_of("[providers.openai]\nrequests_per_minute = 1\n", model="openai/m", replay=tmp_path)
    for _ in range(5):
        async with gate.admit("openai/m", REQUEST) as admission:
            assert admission.reason == ""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"model": "openai/m"}, True),
        ({"judge": "openai/m"}, True),
        ({"agent": "http:http://127.0.0.1:9/v1"}, True),
        ({"model": "replay/x"}, False),
    ],
)
def test_what_is_reached_over_the_network(parts_of, options, expected):
    assert parts_of('model = "scripted/x.yaml"\n', **options)[1] is expected


def test_what_the_built_in_providers_declare(parts_of):
    declared = {
        "scripted": ModelFacts(uses_network=False, free=True, names_file=True),
        "replay": ModelFacts(uses_network=False, free=True, names_file=True),
        "local": ModelFacts(uses_network=True, free=True, names_file=True),
        "openai": ModelFacts(base_url_variable="OPENAI_BASE_URL", embedder=OpenAIEmbeddings),
        "anthropic": ModelFacts(base_url_variable="ANTHROPIC_BASE_URL"),
        "pydantic-ai": ModelFacts(),
    }
    for provider, facts in declared.items():
        assert parts_of("", model=f"{provider}/x")[2] == {provider: facts}
    own = '[providers.mine]\nbase_url = "http://h/v1"\n'
    assert parts_of(own, model="mine/x")[2] == {"mine": declared["openai"]}
