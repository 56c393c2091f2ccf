"""Who speaks for the user in a conversation."""

from __future__ import annotations

from typing import Protocol

from holdfast.ports.agent import TrialContext
from holdfast.records.conversation import ConversationTurn
from holdfast.records.scenario import UserSimulatorConfig


class UserSimulator(Protocol):
    async def generate_response(
        self, history: tuple[ConversationTurn, ...], config: UserSimulatorConfig, trial: TrialContext
    ) -> str:
        """The user's next message. Raises `ModelError` or `AgentError` when there is none to be had."""
        ...
