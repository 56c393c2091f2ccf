"""What an Anthropic model is told: where the server is, the key, and extras."""

from __future__ import annotations

from steadyhand.builtin.models.http_settings import (
    OPTIONS,
    Asking,
    HttpSettings,
    read_endpoint,
    read_flag,
    read_headers,
    read_key,
    read_mapping,
    reject_unknown,
)
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import ModelSettings

PUBLIC_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 4096
_OPTIONS = (*(option for option in OPTIONS if option != "send_seed"), "max_tokens")


def read_settings(settings: ModelSettings) -> tuple[HttpSettings, Asking]:
    """Raises `SetupError` for an unknown option, a bad URL, or a key that is missing or cannot be sent."""
    name = f"anthropic/{settings.name}"
    options = settings.options
    reject_unknown(name, options, _OPTIONS)
    key_variable = str(options.get("api_key_env", "ANTHROPIC_API_KEY"))
    base_url = options.get("base_url") or settings.variables.get("ANTHROPIC_BASE_URL") or PUBLIC_URL
    url, host = read_endpoint(name, base_url, endpoint="/v1/messages", expected="")
    key = read_key(name, key_variable, settings.variables)
    if not key and base_url == PUBLIC_URL:
        raise SetupError(
            f"{name} needs a key: set {key_variable} in the environment or an --env-file, "
            f"or set ANTHROPIC_BASE_URL to a server that needs none"
        )
    max_tokens = options.get("max_tokens", DEFAULT_MAX_TOKENS)
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise SetupError(f"{name}: option max_tokens is {max_tokens!r}, expected a whole number above 0")
    headers = {"anthropic-version": VERSION}
    if key:
        headers["x-api-key"] = key
    headers.update(read_headers(name, options))
    http = HttpSettings(
        url=url, host=host, key=key, key_variable=key_variable, headers=headers, timeout_s=settings.timeout_s
    )
    return http, Asking(
        model=settings.name,
        stream=read_flag(name, options, "stream", default=True),
        temperature=read_flag(name, options, "send_temperature", default=True),
        body=read_mapping(name, options, "body"),
        max_tokens=max_tokens,
    )
