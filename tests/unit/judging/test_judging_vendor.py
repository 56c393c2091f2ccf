from __future__ import annotations

import pytest

from steadyhand.judging.vendor import same_vendor


@pytest.mark.parametrize(
    ("judge", "model"),
    [
        ("openai/gpt-4o", "openai/o3-mini"),
        ("openai/some-finetune", "openai/gpt-4o"),
        ("anthropic/claude-sonnet", "openrouter/anthropic/claude-haiku"),
        ("bedrock/anthropic.claude-v2", "anthropic/claude-haiku"),
        ("google/gemini-2.5-pro", "openrouter/google/gemma-3"),
        ("ollama/llama3.1", "groq/meta-llama/Llama-4-scout"),
        ("acme/one", "acme/two"),
        ("azure/gpt4-eu", "openai/GPT-5"),
    ],
)
def test_models_of_the_same_vendor(judge: str, model: str):
    assert same_vendor(judge, model)


@pytest.mark.parametrize(
    ("judge", "model"),
    [
        ("openai/gpt-4o", "anthropic/claude-haiku"),
        ("openrouter/anthropic/claude-haiku", "openrouter/openai/gpt-4o"),
        ("openai/qwen2.5-72b", "openai/gpt-4o"),
        ("ollama/mystery", "ollama/enigma"),
        ("acme/dolphin", "microsoft/phi-4"),
        ("scripted/judge.yaml", "scripted/agent.yaml"),
        ("scripted/../judge.yaml", "scripted/../agent.yaml"),
        ("scripted/answers/judge.yaml", "scripted/answers/agent.yaml"),
        ("replay/tapes/one", "replay/tapes/two"),
    ],
)
def test_models_of_different_vendors(judge: str, model: str):
    assert not same_vendor(judge, model)
