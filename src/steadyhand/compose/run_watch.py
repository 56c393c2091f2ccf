"""Ends a run in which nothing succeeds any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from steadyhand.batch.provider import ProviderGate
from steadyhand.engine.model_call import ODD_USAGE
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import Noted
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord

_STALL_LOOK_S = 1.0


class RunWatch:
    """Implements `RunObserver`. A run is stalled if providers have been failing for `limit_s` without any progress (a
    call that was answered, a trial that was decided) and every trial in flight waits for them.

    A trial that is busy with something else, such as an agent that computes, keeps a run from being stalled.
    """

    reads_whole_trials = False

    def __init__(self, gate: ProviderGate | None, limit_s: float, note: Callable[[str], None]) -> None:
        self._gate = gate
        self._limit_s = limit_s
        self._note = note
        self._running: int = 0
        self._told_of_usage: bool = False

    def run_started(self, header: RunHeader) -> None: ...

    def trial_started(self, key: TrialKey, name: str) -> None:
        self._running += 1

    def trial_finished(self, record: TrialRecord) -> None:
        self._running -= 1
        if self._gate is not None and record.judged.verdict is not Verdict.ERROR:
            self._gate.progressed()
        if not self._told_of_usage:
            for event in record.events:
                if type(event) is Noted and event.topic == ODD_USAGE:
                    self._told_of_usage = True
                    self._note(event.message)
                    break

    def noted(self, message: str) -> None: ...

    def run_finished(self) -> None: ...

    async def stalled(self) -> str:
        """Returns, with the reason, when the run is stalled; else never."""
        while True:
            await asyncio.sleep(_STALL_LOOK_S)
            gate = self._gate
            if gate is not None and gate.failing_s() >= self._limit_s and gate.waiting_calls() >= self._running > 0:
                stalled = f"nothing has succeeded for {gate.failing_s():.0f} s (--stall-limit {self._limit_s:g})"
                return f"{stalled}; the run was ended: {gate.last_refusal()}"
