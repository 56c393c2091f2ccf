"""The simulated user: a chat model that plays a persona with an objective."""

from __future__ import annotations

from collections.abc import Callable

from steadyhand.builtin.users.cleaning import clean
from steadyhand.builtin.users.faults import REMEDY, fault_of
from steadyhand.builtin.users.prompts import (
    RECENT_TURNS,
    again_prompt,
    bounded,
    part_prompt,
    summary_prompt,
    turn_prompt,
)
from steadyhand.errors import ModelError
from steadyhand.ports.agent import ASKED_AGAIN, TrialContext
from steadyhand.ports.model import ChatModel
from steadyhand.records.chat import ChatRequest, ChatResponse, FinishReason, Message
from steadyhand.records.event import Noted
from steadyhand.records.result import ConversationTurn
from steadyhand.records.scenario import Converse, UserSimulatorConfig

_SUMMARY_TOKENS = 220

Exchange = tuple[str, str]


class LlmUserSimulator:
    """Implements `ports.user.UserSimulator`. `models` gives the chat model for a scenario's `model_type`.

    One instance serves one trial, because it keeps the summaries of that trial's conversations.
    """

    def __init__(self, models: Callable[[str | None], ChatModel]) -> None:
        self._models = models
        self._summaries: dict[tuple[Exchange, ...], str] = {}

    async def generate_response(
        self, history: tuple[ConversationTurn, ...], config: UserSimulatorConfig, trial: TrialContext
    ) -> str:
        """The user's next message. A reply that is out of its part is asked for once more.

        Raises `ModelError` when the model fails, has nothing to say twice over, or does not end a line by itself.
        Nothing is ever put in its place.
        """
        model = self._models(config.model_type)
        summary = await self._summary(history[:-RECENT_TURNS], model, trial)
        prompt = turn_prompt(history, summary)
        text = await self._ask(model, config, prompt, trial)
        fault = fault_of(text, history, config)
        if fault is None:
            return text
        _note(trial, f"the simulated user was asked again: {REMEDY[fault]}", {"reason": fault, "refused": text})
        text = await self._ask(model, config, again_prompt(prompt, text, REMEDY[fault]), trial)
        if not text:
            raise ModelError(
                f"{model.name}: the simulated user was asked twice and the second answer was empty", kind="malformed"
            )
        fault = fault_of(text, history, config)
        if fault is not None:
            message = f"the simulated user's second try is used although {REMEDY[fault]}"
            _note(trial, message, {"reason": fault, "kept": True}, level="warning")
        return text

    async def _ask(self, model: ChatModel, config: UserSimulatorConfig, prompt: str, trial: TrialContext) -> str:
        system = part_prompt(config)
        response = await trial.call(
            model,
            ChatRequest(
                messages=(Message(role="system", content=system), Message(role="user", content=prompt)),
                temperature=config.temperature,
                max_tokens=config.max_tokens,
                seed=trial.seed,
                purpose="user",
            ),
        )
        if _is_logged(config, trial):
            message = f"user simulation\n--- part\n{system}\n--- asked\n{prompt}\n--- answered\n{response.text}"
            trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message, level="debug", topic="user_simulation"))
        _require_whole(model, response, "the simulated user's line")
        return clean(response.text)

    async def _summary(
        self, earlier: tuple[ConversationTurn, ...], model: ChatModel, trial: TrialContext
    ) -> str | None:
        """What the earlier turns were about: the longest summary there is already, brought up to date."""
        if not earlier:
            return None
        said = tuple((turn.user_input, turn.agent_response) for turn in earlier)
        if said in self._summaries:
            return self._summaries[said]
        known = next((count for count in range(len(said) - 1, 0, -1) if said[:count] in self._summaries), 0)
        prompt = summary_prompt(self._summaries.get(said[:known]), earlier[known:])
        response = await trial.call(
            model,
            ChatRequest(
                messages=(Message(role="user", content=prompt),),
                temperature=0.0,
                max_tokens=_SUMMARY_TOKENS,
                seed=trial.seed,
                purpose="summary",
            ),
        )
        if response.finish_reason is not FinishReason.LENGTH:  # shorter than it might be, and bounded in any case
            _require_whole(model, response, "the summary of the conversation")
        summary = bounded(clean(response.text))
        if not summary:
            raise ModelError(f"{model.name}: the summary of the conversation came back empty", kind="malformed")
        self._summaries.pop(said[:known], None)
        self._summaries[said] = summary
        return summary


def _require_whole(model: ChatModel, response: ChatResponse, what: str) -> None:
    """Raises `ModelError` for what the model did not end by itself: half a line is not what the user says."""
    finish = response.finish
    if finish is not None and not finish.plain:
        raise ModelError(f"{model.name}: {what} cannot be used: {finish}", kind="malformed")


def _is_logged(config: UserSimulatorConfig, trial: TrialContext) -> bool:
    """Whether the conversation that this user is part of asks for its simulation to be logged."""
    return any(
        isinstance(step.task, Converse)
        and step.task.config.user_simulator == config
        and step.task.config.debug_options.log_user_simulation
        for step in trial.scenario.steps
    )


def _note(trial: TrialContext, message: str, figures: dict[str, object], *, level: str = "info") -> None:
    trial.emit(Noted(at_ms=trial.elapsed_ms(), message=message, level=level, topic=ASKED_AGAIN, figures=figures))
