"""An observer that shows no secrets."""

from __future__ import annotations

from steadyhand.ports.observer import RunObserver
from steadyhand.records.run import RunHeader, TrialKey, TrialRecord
from steadyhand.redaction import Redactor


class RedactedProgress:
    """A `ports.observer.RunObserver` that takes secrets out of what another one shows while a run goes on.

    A finished trial has none any more: it is shown as it was written.
    """

    def __init__(self, shown: RunObserver, redactor: Redactor) -> None:
        self._shown: RunObserver = shown
        self._redactor: Redactor = redactor
        self._clean: dict[str, str] = {}

    def run_started(self, header: RunHeader) -> None:
        self._shown.run_started(self._redactor.value(header))

    def trial_started(self, key: TrialKey, name: str) -> None:
        scenario_id = self._text(key.scenario_id)
        if scenario_id is not key.scenario_id:
            key = TrialKey(scenario_id=scenario_id, index=key.index)
        self._shown.trial_started(key, self._text(name))

    def trial_finished(self, record: TrialRecord) -> None:
        self._shown.trial_finished(record)

    def _text(self, text: str) -> str:
        """A run starts thousands of trials with the same few names."""
        known = self._clean.get(text)
        if known is None:
            known = self._clean[text] = self._redactor.text(text)
        return known

    def noted(self, message: str) -> None:
        self._shown.noted(self._redactor.text(message))

    def run_finished(self) -> None:
        self._shown.run_finished()
