"""`openai/NAME`: OpenAI's Chat Completions or Responses API, and every compatible server, on our own connection."""

from __future__ import annotations

from typing import ClassVar, Literal

from steadyhand.builtin.http_model import HttpModel
from steadyhand.builtin.models.vendor import HttpOptions, Vendor
from steadyhand.errors import SetupError
from steadyhand.http.endpoint import Endpoint
from steadyhand.plugins.plugin import ModelSettings, Options, read_options
from steadyhand.wire.dialect import RequestSettings
from steadyhand.wire.openai_chat import ChatCompletions
from steadyhand.wire.openai_embeddings import Embeddings
from steadyhand.wire.openai_responses import Responses

VENDOR = Vendor(
    provider="openai",
    public_url="https://api.openai.com/v1",
    key_variable="OPENAI_API_KEY",
    url_variable="OPENAI_BASE_URL",
    key_header="Authorization",
    key_prefix="Bearer ",
    expected="/v1",
)
_ENDPOINTS = {"chat": "/chat/completions", "responses": "/responses"}


class OpenAIOptions(HttpOptions):
    send_seed: bool = False
    api: Literal["chat", "responses"] = "chat"


def read_settings(settings: ModelSettings) -> tuple[Endpoint, RequestSettings]:
    """Raises `SetupError` for an unknown option, a bad URL, or a key that is missing or invalid."""
    name = VENDOR.model_name(settings)
    options = read_options(OpenAIOptions, settings.options, name)
    if options.send_seed and options.api == "responses":
        raise SetupError(
            f"{name}: send_seed is set, but the Responses API takes no seed; remove one of the two options"
        )
    return VENDOR.read(settings, options, _ENDPOINTS[options.api]), RequestSettings(
        model=settings.name,
        stream=options.stream,
        seed=options.send_seed,
        temperature=options.send_temperature,
        body=options.body,
        api=options.api,
    )


class OpenAIEmbeddings(HttpModel):
    """What `ModelFacts.embedder` builds. `body` has fields of the other APIs, and is not sent."""

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` as a chat model does."""
        name = VENDOR.model_name(settings)
        endpoint = VENDOR.read(settings, read_options(OpenAIOptions, settings.options, name), "/embeddings")
        super().__init__(name, endpoint, Embeddings(settings.name))


class OpenAIModel(HttpModel):
    """Built by the model factory for `openai`, and for every provider to which the user gives a base URL.

    Option `api` chooses between `chat` (the default) and `responses`.
    """

    base_url_variable: ClassVar[str] = VENDOR.url_variable
    options: ClassVar[type[Options]] = OpenAIOptions
    embedder: ClassVar[type[OpenAIEmbeddings]] = OpenAIEmbeddings

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` if the key is missing or a setting is wrong."""
        http, wire_settings = read_settings(settings)
        wire = (Responses if wire_settings.api == "responses" else ChatCompletions)(settings=wire_settings)
        super().__init__(VENDOR.model_name(settings), http, wire)
