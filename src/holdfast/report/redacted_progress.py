"""An observer that shows no secrets."""

from __future__ import annotations

import msgspec

from holdfast.ports.observer import RunObserver
from holdfast.records.redaction import Redactor
from holdfast.records.run import RunHeader, TrialKey, TrialRecord


class RedactedProgress:
    """A `ports.observer.RunObserver` that takes secrets out of what another one shows while a run goes on.

    Of a finished trial that is its key, its names and what was judged; the rest is left as it is, since it is in the
    run record, without secrets, by then.
    """

    def __init__(self, shown: RunObserver, redactor: Redactor) -> None:
        self._shown: RunObserver = shown
        self._redactor: Redactor = redactor

    def run_started(self, header: RunHeader) -> None:
        self._shown.run_started(self._redactor.value(header))

    def trial_started(self, key: TrialKey, name: str) -> None:
        self._shown.trial_started(self._redactor.value(key), self._redactor.text(name))

    def trial_finished(self, record: TrialRecord) -> None:
        clean = self._redactor.value
        shown = {
            "key": clean(record.key),
            "judged": clean(record.judged),
            "scenario_name": clean(record.scenario_name),
            "agent": clean(record.agent),
            "model": clean(record.model),
        }
        if any(value is not getattr(record, name) for name, value in shown.items()):
            record = msgspec.structs.replace(record, **shown)
        self._shown.trial_finished(record)

    def noted(self, message: str) -> None:
        self._shown.noted(self._redactor.text(message))

    def run_finished(self) -> None:
        self._shown.run_finished()
