"""What an OpenAI-compatible model is told: where the server is, the key, and extras."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from holdfast.errors import SetupError
from holdfast.plugins.factories import ModelSettings
from holdfast.records.base import Record

PUBLIC_URL = "https://api.openai.com/v1"
_ENDPOINT = "/chat/completions"
_OPTIONS = ("base_url", "api_key_env", "headers", "body", "stream")


class OpenAISettings(Record):
    """Checked and complete. `url` is the endpoint itself; `host` is what messages call it."""

    url: str
    host: str
    key: str
    key_variable: str
    headers: dict[str, str] = {}
    body: dict[str, Any] = {}
    stream: bool = True


def read_settings(settings: ModelSettings) -> OpenAISettings:
    """Raises `SetupError` for an unknown option, a bad URL, or a key that is missing or cannot be sent."""
    name = f"openai/{settings.name}"
    options = settings.options
    _reject_unknown(name, options)
    key_variable = str(options.get("api_key_env", "OPENAI_API_KEY"))
    base_url = options.get("base_url") or settings.variables.get("OPENAI_BASE_URL") or PUBLIC_URL
    url, host = _endpoint(name, base_url)
    key = settings.variables.get(key_variable, "").strip()
    if not key and base_url == PUBLIC_URL:
        raise SetupError(
            f"{name} needs a key: set {key_variable} in the environment or an --env-file, "
            f"or set OPENAI_BASE_URL to a server that needs none"
        )
    if not (key.isascii() and key.isprintable()):
        raise SetupError(f"{name}: {key_variable} holds characters that no key has; copy it again")
    stream = options.get("stream", True)
    if not isinstance(stream, bool):
        raise SetupError(f"{name}: option stream is {stream!r}, expected true or false")
    return OpenAISettings(
        url=url,
        host=host,
        key=key,
        key_variable=key_variable,
        headers={str(header): str(value) for header, value in _mapping(name, options, "headers").items()},
        body=dict(_mapping(name, options, "body")),
        stream=stream,
    )


def _reject_unknown(name: str, options: Mapping[str, Any]) -> None:
    for option in options:
        if option not in _OPTIONS:
            near = difflib.get_close_matches(option, _OPTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SetupError(f"{name}: unknown option {option!r}{hint} (known: {', '.join(_OPTIONS)})")


def _mapping(name: str, options: Mapping[str, Any], option: str) -> Mapping[str, Any]:
    value = options.get(option, {})
    if not isinstance(value, Mapping):
        raise SetupError(f"{name}: option {option} is {value!r}, expected names and values")
    return cast("Mapping[str, Any]", value)


def _endpoint(name: str, base_url: Any) -> tuple[str, str]:
    try:
        parts = urlsplit(str(base_url))
        _ = parts.port
    except ValueError as error:
        raise SetupError(f"{name}: the base URL is not a URL: {error}") from error
    if parts.username or parts.password:
        raise SetupError(f"{name}: the base URL holds a user name or password; give a key through api_key_env instead")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SetupError(f"{name}: the base URL is {base_url!r}, expected http://HOST/v1 or https://HOST/v1")
    path = parts.path.rstrip("/")
    if not path.endswith(_ENDPOINT):
        path += _ENDPOINT
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), parts.netloc
