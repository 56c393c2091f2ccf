"""Progress shows no secrets, and is otherwise unchanged."""

import io

from steadyhand.records.run import TrialKey
from steadyhand.redaction import Redactor
from steadyhand.report.progress import PlainProgress, RedactedProgress
from support.sample_trials import HEADER, typical

CANARY = "canary-Zq7f93kd02mmx81"
MASK = "*" * len(CANARY)


def test_a_canary_in_a_key_a_name_and_a_note_is_redacted():
    class Kept(PlainProgress):
        def trial_started(self, key, name):
            self.started = (key, name)

    stream = io.StringIO()
    kept = Kept(stream)
    progress = RedactedProgress(kept, Redactor([CANARY]))
    key = TrialKey(scenario_id=f"about-{CANARY}", index=3)
    progress.run_started(HEADER)
    for _ in range(2):
        progress.trial_started(key, f"on {CANARY}")
        assert kept.started == (TrialKey(scenario_id=f"about-{MASK}", index=3), f"on {MASK}")
    progress.noted(f"beware of {CANARY}")
    progress.run_finished()
    said = stream.getvalue()
    assert CANARY not in said
    assert f"beware of {MASK}" in said


def test_what_holds_no_secret_is_passed_on_as_it_is():
    class Kept(PlainProgress):
        def trial_finished(self, record):
            self.record = record

    kept = Kept(io.StringIO())
    trial = typical(1)
    RedactedProgress(kept, Redactor([CANARY])).trial_finished(trial)
    assert kept.record is trial
