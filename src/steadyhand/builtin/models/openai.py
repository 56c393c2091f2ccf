"""`openai/NAME`: OpenAI's Chat Completions or Responses API, and every compatible server, on our own connection."""

from __future__ import annotations

from typing import ClassVar, Literal

from steadyhand.builtin.models.http.model import HttpModel
from steadyhand.builtin.models.http.settings import (
    Asking,
    HttpOptions,
    HttpSettings,
    check_headers,
    read_endpoint,
    read_key,
)
from steadyhand.builtin.models.openai_chat import ChatCompletions
from steadyhand.builtin.models.openai_responses import Responses
from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import ModelSettings, Options, read_options

PROVIDER = "openai"
PUBLIC_URL = "https://api.openai.com/v1"
_ENDPOINTS = {"chat": "/chat/completions", "responses": "/responses"}


class OpenAIOptions(HttpOptions):
    send_seed: bool = False
    api: Literal["chat", "responses"] = "chat"


def read_settings(settings: ModelSettings) -> tuple[HttpSettings, Asking]:
    """Raises `SetupError` for an unknown option, a bad URL, or a key that is missing or invalid.

    The variables `OPENAI_API_KEY` and `OPENAI_BASE_URL` apply to the provider `openai` only, never to one that the user
    named.
    """
    ours = settings.provider in ("", PROVIDER)
    name = f"{settings.provider or PROVIDER}/{settings.name}"
    options = read_options(OpenAIOptions, settings.options, name)
    if options.send_seed and options.api == "responses":
        raise SetupError(
            f"{name}: send_seed is set, but the Responses API takes no seed; remove one of the two options"
        )
    key_variable = options.api_key_env or ("OPENAI_API_KEY" if ours else "")
    base_url = options.base_url or (ours and settings.variables.get("OPENAI_BASE_URL")) or PUBLIC_URL
    url, host = read_endpoint(name, base_url, endpoint=_ENDPOINTS[options.api], expected="/v1")
    key = read_key(name, key_variable, settings.variables)
    if not key and base_url == PUBLIC_URL:
        raise SetupError(
            f"{name} needs a key: set {key_variable or 'api_key_env'} in the environment or an --env-file, "
            f"or set OPENAI_BASE_URL to a server that needs none"
            if ours
            else f"{name} needs a server: give [providers.{settings.provider}] a base_url"
        )
    if not key and options.api_key_env and not ours:
        raise SetupError(f"{name} needs a key: set {options.api_key_env} in the environment or an --env-file")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    headers.update(check_headers(name, options.headers))
    http = HttpSettings(
        url=url, host=host, key=key, key_variable=key_variable, headers=headers, timeout_s=settings.timeout_s
    )
    return http, Asking(
        model=settings.name,
        stream=options.stream,
        seed=options.send_seed,
        temperature=options.send_temperature,
        body=options.body,
        api=options.api,
    )


class OpenAIModel(HttpModel):
    """Built by the model factory for `openai`, and for every provider to which the user gives a base URL.

    Option `api` chooses between `chat` (the default) and `responses`.
    """

    base_url_variable: ClassVar[str] = "OPENAI_BASE_URL"
    options: ClassVar[type[Options]] = OpenAIOptions

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` if the key is missing or a setting is wrong."""
        http, asking = read_settings(settings)
        wire = Responses(asking=asking) if asking.api == "responses" else ChatCompletions(asking=asking)
        super().__init__(f"{settings.provider or PROVIDER}/{settings.name}", http, wire)
