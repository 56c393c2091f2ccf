"""What the agent did in earlier turns, put back where it belongs in the exchange."""

from __future__ import annotations

from steadyhand.records.chat import Message


class ToolMemory:
    """A turn's messages hold what was said; the tool calls and answers in between are kept here."""

    def __init__(self) -> None:
        self._turns: list[tuple[tuple[Message, ...], list[Message]]] = []

    def begin(self, messages: tuple[Message, ...]) -> tuple[list[Message], list[Message]]:
        """The exchange with the tool messages of earlier turns, and the list that this turn's are to be added to.

        An earlier turn counts only when the exchange still begins as it did then.
        """
        whole: list[Message] = []
        done = 0
        for prefix, between in self._turns:
            if done <= len(prefix) and messages[: len(prefix)] == prefix:
                whole += [*messages[done : len(prefix)], *between]
                done = len(prefix)
        whole += messages[done:]
        between: list[Message] = []
        self._turns.append((messages, between))
        return whole, between
