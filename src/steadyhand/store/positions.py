"""Which row of the record a trial has, and what is known to stand there."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from steadyhand.records.evaluation import Verdict
from steadyhand.records.run import TrialKey

_PLANNED = """
SELECT scenario_id, min(idx), min(position), count(*), max(idx) - min(idx) + 1, count(DISTINCT position - idx) FROM plan
GROUP BY scenario_id
"""


class _Span(NamedTuple):
    """Trials of one scenario that follow each other, as they do in a plan."""

    first: int
    position: int
    trials: int


class Positions:
    """Of a run with a plan, a few numbers a scenario: a long run must not take more memory than a short one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._spans: dict[str, _Span] = {}
        self._single: dict[tuple[str, int], int] = {}
        self._verdicts: list[Verdict | None] = []
        for scenario_id, index, position, count, width, offsets in connection.execute(_PLANNED):
            if offsets == 1 and width == count:
                self._spans[scenario_id] = _Span(index, position, count)
            else:
                self._note_each(connection, scenario_id)
        self.planned: bool = bool(self._spans or self._single)
        self._next: int = 1
        rows = connection.execute("SELECT scenario_id, idx, verdict, position FROM trial ORDER BY position")
        for scenario_id, index, verdict, position in rows:
            if not self.planned:
                self._single[scenario_id, index] = position
            self.note(position, Verdict(verdict))

    def _note_each(self, connection: sqlite3.Connection, scenario_id: str) -> None:
        rows = connection.execute("SELECT idx, position FROM plan WHERE scenario_id=?", (scenario_id,))
        self._single.update({(scenario_id, index): position for index, position in rows})

    def find(self, key: TrialKey) -> int | None:
        """The row of a trial, or None when it has none yet."""
        span = self._spans.get(key.scenario_id)
        if span is not None:
            at = key.index - span.first
            return span.position + at if 0 <= at < span.trials else None
        return self._single.get((key.scenario_id, key.index))

    def add(self, key: TrialKey) -> int:
        """A row for a trial of a run without a plan: the next one."""
        position = self._single[key.scenario_id, key.index] = self._next
        self._next += 1
        return position

    def verdict(self, position: int) -> Verdict | None:
        return self._verdicts[position] if position < len(self._verdicts) else None

    def note(self, position: int, verdict: Verdict) -> None:
        missing = position + 1 - len(self._verdicts)
        if missing > 0:
            self._verdicts.extend([None] * missing)
        self._verdicts[position] = verdict
        self._next = max(self._next, position + 1)
