"""Plugin names of ElizaOS scenarios that need no plugin here, because the runtime has what they bring."""

from __future__ import annotations

import re

_NPM_NAME = re.compile(r"@[a-z0-9~-][a-z0-9._~-]*/[a-z0-9~-][a-z0-9._~-]*", re.IGNORECASE)
_SCOPES = ("@elizaos/", "@elizaos-plugins/")
_COVERED = frozenset(
    {
        "core",
        "plugin-bootstrap",
        "plugin-message-handling",
        "plugin-node",
        "plugin-sql",
        "plugin-inmemorydb",
        "plugin-e2b",
        "plugin-anthropic",
        "plugin-elizacloud",
        "plugin-google-genai",
        "plugin-google",
        "plugin-groq",
        "plugin-local-ai",
        "plugin-local-embedding",
        "plugin-mistral",
        "plugin-ollama",
        "plugin-openai",
        "plugin-openrouter",
        "plugin-redpill",
        "plugin-vercel-ai-gateway",
    }
)


def is_npm_name(name: str) -> bool:
    """Whether it is written `@scope/name`, as packages of the JavaScript world are."""
    return _NPM_NAME.fullmatch(name) is not None


def is_covered(name: str) -> bool:
    """Whether the runtime itself does what this plugin is for: message handling, storage, model providers."""
    lowered = name.lower()
    return any(lowered.startswith(scope) and lowered[len(scope) :] in _COVERED for scope in _SCOPES)
