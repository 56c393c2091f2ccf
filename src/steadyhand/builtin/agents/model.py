"""The `model` agent: a chat model and nothing else. Decision scenarios use it."""

from __future__ import annotations

from typing import ClassVar

from steadyhand.errors import SetupError
from steadyhand.plugins.plugin import AgentSettings
from steadyhand.ports.agent import Reply, Shows, TrialContext, Turn
from steadyhand.ports.model import ChatModel
from steadyhand.records.chat import ChatRequest, Message


class ModelAgent:
    """Sends the whole exchange to the model and replies with its answer. A `character` sets the system prompt."""

    closes_at_once: ClassVar[bool] = True
    asks_model: ClassVar[str] = "once"
    shows: Shows = Shows(
        model_calls="seen", acts=False, advice="to let the model act, run it as the `runtime` agent (--agent runtime)"
    )

    def __init__(self, settings: AgentSettings) -> None:
        if settings.model is None:
            raise SetupError("the `model` agent needs a model: give --model, or `model` in steadyhand.toml")
        self._model: ChatModel = settings.model
        self._trial: TrialContext | None = None

    @property
    def name(self) -> str:
        return f"model:{self._model.name}"

    async def open(self, trial: TrialContext) -> None:
        self._trial = trial

    async def respond(self, turn: Turn) -> Reply:
        assert self._trial is not None, "respond before open"
        trial = self._trial
        character = trial.scenario.character
        messages = turn.messages
        if character is not None and character.system and messages[0].role != "system":
            messages = (Message(role="system", content=character.system), *messages)
        response = await trial.call(
            self._model,
            ChatRequest(
                messages=messages,
                temperature=character.temperature if character else None,
                seed=trial.seed,
                purpose="agent",
                cut_after_ms=turn.cut_after_ms,
            ),
        )
        return Reply(text=response.text)

    async def close(self) -> None:
        self._trial = None
