"""`anthropic/NAME`: Anthropic's messages, and every server that speaks them, on our own connection."""

from __future__ import annotations

from steadyhand.builtin.models.anthropic_request import Messages
from steadyhand.builtin.models.anthropic_settings import read_settings
from steadyhand.builtin.models.http.model import HttpModel
from steadyhand.plugins.plugin import ModelSettings


class AnthropicModel(HttpModel):
    """Built by the model factory for `anthropic`."""

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` when the key is missing or a setting is wrong."""
        http, asking = read_settings(settings)
        super().__init__(f"anthropic/{settings.name}", http, Messages(asking=asking))
