"""The vendor of a model: a judge tends to favour its own family's writing."""

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
# They serve models of many vendors, so their name says nothing about who made the model.
_GATEWAYS = {
    "openrouter",
    "ollama",
    "vllm",
    "bedrock",
    "together",
    "groq",
    "fireworks",
    "huggingface",
    "litellm",
}
_WORD = re.compile(r"[a-z]+[0-9]*")


def vendor_of(name: str, *, names_file: bool = False) -> str:
    """The vendor behind `provider/model`: from the model's family name or, failing that, from the path before it.

    The family name comes first, since an OpenAI-compatible address may serve anyone's model. A name without a known
    vendor is its own vendor; with `names_file`, the folders in it do not name one.
    """
    *path, model = name.strip().casefold().split("/")
    for part in (model, *reversed(path)):
        for word in _WORD.findall(part):
            vendor = _VENDORS.get(word) or _VENDORS.get(word.rstrip("0123456789"))
            if vendor is not None:
                return vendor
    if names_file:
        return name.strip().casefold()
    named = [part for part in path if part.strip(".") and part not in _GATEWAYS]
    return named[-1] if named else name.strip().casefold()
