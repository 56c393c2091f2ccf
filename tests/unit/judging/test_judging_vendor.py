from __future__ import annotations

import pytest

from steadyhand.judging.vendor import vendor_of


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
    assert vendor_of(judge) == vendor_of(model)


@pytest.mark.parametrize(
    ("judge", "model"),
    [
        ("openai/gpt-4o", "anthropic/claude-haiku"),
        ("openrouter/anthropic/claude-haiku", "openrouter/openai/gpt-4o"),
        ("openai/qwen2.5-72b", "openai/gpt-4o"),
        ("ollama/mystery", "ollama/enigma"),
        ("acme/dolphin", "microsoft/phi-4"),
    ],
)
def test_models_of_different_vendors(judge: str, model: str):
    assert vendor_of(judge) != vendor_of(model)


@pytest.mark.parametrize("folder", ["", "../", "answers/"])
def test_the_folder_of_a_file_is_no_vendor(folder: str):
    one, other = f"acme/{folder}one.bin", f"acme/{folder}two.bin"
    assert vendor_of(one, names_file=True) != vendor_of(other, names_file=True)
    assert vendor_of(one) == vendor_of(other)
    family = f"acme/{folder}qwen2.gguf"
    assert vendor_of(family, names_file=True) == "qwen"
