"""Which entry of a conversation's script belongs to which turn."""

from __future__ import annotations

from collections.abc import Iterator

from steadyhand.records.evaluation import EvaluationSpec
from steadyhand.records.scenario import Converse, ScriptedTurn


class Script:
    """The first entry is said in turn 2; where the step opens with nothing, in turn 1."""

    def __init__(self, task: Converse) -> None:
        self._entries = task.config.script
        self._first = 2 if task.opening else 1

    def entry_at(self, turn: int) -> ScriptedTurn | None:
        index = turn - self._first
        return self._entries[index] if 0 <= index < len(self._entries) else None

    def evaluations_at(self, turn: int) -> tuple[EvaluationSpec, ...]:
        entry = self.entry_at(turn)
        return entry.evaluations if entry else ()

    def evaluations_after(self, turn: int) -> Iterator[tuple[int, EvaluationSpec]]:
        """The checks of later turns than this, with their turn."""
        for index, entry in enumerate(self._entries):
            number = index + self._first
            if number > turn:
                for spec in entry.evaluations:
                    yield number, spec
