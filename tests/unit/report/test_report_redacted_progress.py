"""Progress shows no secrets, and is otherwise what it was."""

import io

import msgspec

from holdfast.records.redaction import Redactor
from holdfast.records.run import TrialKey
from holdfast.records.verdict import Verdict
from holdfast.report.progress import PlainProgress
from holdfast.report.redacted_progress import RedactedProgress
from unit.store.sample_trials import HEADER, typical

CANARY = "canary-Zq7f93kd02mmx81"
MASK = "*" * len(CANARY)


def test_a_canary_in_a_reason_a_key_and_a_note_is_blotted_out():
    stream = io.StringIO()
    progress = RedactedProgress(PlainProgress(stream), Redactor([CANARY]))
    trial = typical(1, Verdict.ERROR)
    judged = msgspec.structs.replace(trial.judged, reason=f"the server said {CANARY}")
    key = TrialKey(scenario_id=f"about-{CANARY}")
    progress.run_started(HEADER)
    progress.trial_started(key, CANARY)
    progress.trial_finished(msgspec.structs.replace(trial, judged=judged, key=key))
    progress.noted(f"beware of {CANARY}")
    progress.run_finished()
    said = stream.getvalue()
    assert CANARY not in said
    assert f"about-{MASK}" in said
    assert f"the server said {MASK}" in said
    assert f"beware of {MASK}" in said


def test_what_holds_no_secret_is_passed_on_as_it_is():
    class Kept(PlainProgress):
        def trial_finished(self, record):
            self.record = record

    kept = Kept(io.StringIO())
    trial = typical(1)
    RedactedProgress(kept, Redactor([CANARY])).trial_finished(trial)
    assert kept.record is trial
