"""`openai/NAME`: OpenAI's chat completions or responses, and every server that speaks either, on our own connection."""

from __future__ import annotations

from steadyhand.builtin.models.http.model import HttpModel
from steadyhand.builtin.models.openai_request import ChatCompletions
from steadyhand.builtin.models.openai_settings import read_settings
from steadyhand.builtin.models.responses_request import Responses
from steadyhand.plugins.plugin import ModelSettings


class OpenAIModel(HttpModel):
    """Built by the model factory for `openai`. Option `api` chooses between `chat` (the default) and `responses`."""

    def __init__(self, settings: ModelSettings) -> None:
        """Raises `SetupError` when the key is missing or a setting is wrong."""
        http, asking = read_settings(settings)
        wire = Responses(asking=asking) if asking.api == "responses" else ChatCompletions(asking=asking)
        super().__init__(f"openai/{settings.name}", http, wire)
