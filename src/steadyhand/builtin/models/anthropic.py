"""`anthropic/NAME`: Anthropic's Messages API, and every compatible server, on our own connection."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from steadyhand.builtin.http_model import HttpModel
from steadyhand.builtin.models.vendor import HttpOptions, Vendor
from steadyhand.http.endpoint import Endpoint
from steadyhand.plugins.plugin import ModelSettings, Options, read_options
from steadyhand.wire.anthropic_messages import Messages
from steadyhand.wire.dialect import RequestSettings

DEFAULT_MAX_TOKENS = 4096
VENDOR = Vendor(
    provider="anthropic",
    public_url="https://api.anthropic.com",
    key_variable="ANTHROPIC_API_KEY",
    url_variable="ANTHROPIC_BASE_URL",
    key_header="x-api-key",
    defaults={"anthropic-version": "2023-06-01"},
)


class AnthropicOptions(HttpOptions):
    max_tokens: int = Field(default=DEFAULT_MAX_TOKENS, ge=1)


def read_settings(settings: ModelSettings) -> tuple[Endpoint, RequestSettings]:
    """Raises `SetupError` for an unknown option, a bad URL, or a key that is missing or invalid."""
    options = read_options(AnthropicOptions, settings.options, VENDOR.model_name(settings))
    return VENDOR.read(settings, options, "/v1/messages"), RequestSettings(
        model=settings.name,
        stream=options.stream,
        temperature=options.send_temperature,
        body=options.body,
        max_tokens=options.max_tokens,
    )


class AnthropicModel(HttpModel):
    """Built by the model factory for `anthropic`."""

    base_url_variable: ClassVar[str] = VENDOR.url_variable
    options: ClassVar[type[Options]] = AnthropicOptions

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` if the key is missing or a setting is wrong."""
        http, wire_settings = read_settings(settings)
        super().__init__(VENDOR.model_name(settings), http, Messages(settings=wire_settings))
