"""Who speaks for the user in a conversation."""

from __future__ import annotations

from typing import Protocol

from steadyhand.ports.agent import TrialContext
from steadyhand.records.result import ConversationTurn
from steadyhand.records.scenario import UserSimulatorConfig

ASKED_AGAIN = "simulated_user_asked_again"
"""Topic of the note that a simulated reply was refused. Its `figures` have the `reason`, and `kept: true` when the
second try was no better and was used all the same."""


class UserSimulator(Protocol):
    """Speaks for the user. One instance serves one trial."""

    async def generate_response(
        self, history: tuple[ConversationTurn, ...], config: UserSimulatorConfig, trial: TrialContext
    ) -> str:
        """The user's next message; with an empty `history`, the first one.

        Raises a `TrialError`, such as `ModelError`, when there is none to be had. A reply that had to be asked for
        again is told by a `Noted` event with the topic `ASKED_AGAIN`.
        """
        ...
