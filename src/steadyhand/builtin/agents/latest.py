"""What the user said last."""

from __future__ import annotations

from steadyhand.ports.agent import Turn


def latest_user_text(turn: Turn) -> str:
    """The last message of the user; empty when there is none."""
    return next((message.content for message in reversed(turn.messages) if message.role == "user"), "")
