"""Whether two models come from the same house: a judge tends to like what its own family writes."""

from __future__ import annotations

import re

_VENDORS: dict[str, str] = {
    "openai": "openai",
    "azure": "openai",
    "chatgpt": "openai",
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "anthropic": "anthropic",
    "claude": "anthropic",
    "google": "google",
    "gemini": "google",
    "gemma": "google",
    "vertex": "google",
    "meta": "meta",
    "llama": "meta",
    "codellama": "meta",
    "mistral": "mistral",
    "mistralai": "mistral",
    "mixtral": "mistral",
    "ministral": "mistral",
    "codestral": "mistral",
    "magistral": "mistral",
    "deepseek": "deepseek",
    "qwen": "qwen",
    "qwq": "qwen",
    "xai": "xai",
    "grok": "xai",
    "cohere": "cohere",
    "command": "cohere",
    "microsoft": "microsoft",
    "phi": "microsoft",
    "amazon": "amazon",
    "nova": "amazon",
    "titan": "amazon",
    "moonshot": "moonshot",
    "moonshotai": "moonshot",
    "kimi": "moonshot",
    "zhipu": "zhipu",
    "glm": "zhipu",
}
# Serve models of many houses or none: their own name says nothing about who made the model.
_CARRIERS = {
    "openrouter",
    "ollama",
    "vllm",
    "bedrock",
    "together",
    "groq",
    "fireworks",
    "huggingface",
    "litellm",
    "scripted",
    "replay",
}
# What follows is the path of a file, and the folder it is in made no model.
_FILES = {"scripted", "replay", "local"}
_WORD = re.compile(r"[a-z]+[0-9]*")


def vendor_of(name: str) -> str:
    """The house behind `provider/model`, as told by the model's family name and, failing that, by the path to it.

    A family name goes first, since an OpenAI-compatible address may serve anybody's model. A name that says nothing
    stands for itself.
    """
    *path, model = name.strip().casefold().split("/")
    for part in (model, *reversed(path)):
        for word in _WORD.findall(part):
            vendor = _VENDORS.get(word) or _VENDORS.get(word.rstrip("0123456789"))
            if vendor is not None:
                return vendor
    if path and path[0] in _FILES:
        return name.strip().casefold()
    named = [part for part in path if part.strip(".") and part not in _CARRIERS]
    return named[-1] if named else name.strip().casefold()


def same_vendor(judge_name: str, model_name: str) -> bool:
    """Whether a judge and the model under test come from the same house, through whichever gateway."""
    return vendor_of(judge_name) == vendor_of(model_name)
