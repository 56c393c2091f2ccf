"""`openai/NAME`: OpenAI's chat completions or responses, and every server that speaks either, on our own connection."""

from __future__ import annotations

from steadyhand.builtin.models.http.client import (
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
from steadyhand.builtin.models.http.model import HttpModel
from steadyhand.builtin.models.openai_chat import ChatCompletions
from steadyhand.builtin.models.openai_responses import Responses
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import ModelSettings

PUBLIC_URL = "https://api.openai.com/v1"
_ENDPOINTS = {"chat": "/chat/completions", "responses": "/responses"}


def read_settings(settings: ModelSettings) -> tuple[HttpSettings, Asking]:
    """Raises `SetupError` for an unknown option, a bad URL, or a key that is missing or cannot be sent."""
    name = f"openai/{settings.name}"
    options = settings.options
    reject_unknown(name, options, (*OPTIONS, "api"))
    api = options.get("api", "chat")
    if api not in _ENDPOINTS:
        raise SetupError(f"{name}: option api is {api!r}, expected one of: {', '.join(_ENDPOINTS)}")
    seed = read_flag(name, options, "send_seed", default=False)
    if seed and api == "responses":
        raise SetupError(
            f"{name}: send_seed is set, but the Responses API takes no seed; remove one of the two options"
        )
    key_variable = str(options.get("api_key_env", "OPENAI_API_KEY"))
    base_url = options.get("base_url") or settings.variables.get("OPENAI_BASE_URL") or PUBLIC_URL
    url, host = read_endpoint(name, base_url, endpoint=_ENDPOINTS[api], expected="/v1")
    key = read_key(name, key_variable, settings.variables)
    if not key and base_url == PUBLIC_URL:
        raise SetupError(
            f"{name} needs a key: set {key_variable} in the environment or an --env-file, "
            f"or set OPENAI_BASE_URL to a server that needs none"
        )
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    headers.update(read_headers(name, options))
    http = HttpSettings(
        url=url, host=host, key=key, key_variable=key_variable, headers=headers, timeout_s=settings.timeout_s
    )
    return http, Asking(
        model=settings.name,
        stream=read_flag(name, options, "stream", default=True),
        seed=seed,
        temperature=read_flag(name, options, "send_temperature", default=True),
        body=read_mapping(name, options, "body"),
        api=api,
    )


class OpenAIModel(HttpModel):
    """Built by the model factory for `openai`. Option `api` chooses between `chat` (the default) and `responses`."""

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` when the key is missing or a setting is wrong."""
        http, asking = read_settings(settings)
        wire = Responses(asking=asking) if asking.api == "responses" else ChatCompletions(asking=asking)
        super().__init__(f"openai/{settings.name}", http, wire)
