"""A planted canary gets neither into the record's file nor into any report made from it."""

import msgspec
import pytest

from steadyhand.reading.run import Reading
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ActionTaken, CommandRan, ErrorHappened, Noted, Said
from steadyhand.records.run import TrialKey, TrialRecord
from steadyhand.redaction import Redactor
from steadyhand.report.json import to_json
from steadyhand.report.junit import to_junit
from steadyhand.report.table import Page
from steadyhand.report.terminal import render_run
from steadyhand.store.reader import RunReader
from steadyhand.store.writer import RunWriter
from support.sample_trials import HEADER, typical

CANARY = "canary-Zq7f93kd02mmx81"
SHAPED = "sk-proj-shaped0123456789"
REDACTOR = Redactor([CANARY])


def planted(index: int) -> TrialRecord:
    """A failed trial with the canary in every place that can hold text."""
    trial = typical(index, Verdict.FAILED)
    judged = msgspec.structs.replace(trial.judged, reason=f"it said {CANARY}")
    evaluation = msgspec.structs.replace(trial.evaluations[0], message=f"found {CANARY}", figures={"got": [CANARY]})
    return msgspec.structs.replace(
        trial,
        judged=judged,
        scenario_name=f"About {CANARY}",
        evaluations=(evaluation,),
        events=(
            *trial.events,
            Said(at_ms=1, message=Message(role="assistant", content=f"My key is {CANARY} or {SHAPED}.")),
            ErrorHappened(at_ms=2, phase="run", message=CANARY, error_type="E", traceback=f"raise E({CANARY!r})"),
            Noted(at_ms=3, message=f"beware of {CANARY}", level="warning"),
            CommandRan(at_ms=4, command=f"curl -H 'x: {CANARY}'", exit_code=1, stdout=CANARY, stderr=CANARY),
            ActionTaken(at_ms=5, id="1", name="login", params={"api_key": "hunter2", "x": {CANARY: CANARY}}),
        ),
        earlier=(trial, msgspec.structs.replace(trial, judged=judged)),
    )


@pytest.fixture
def reader(tmp_path):
    header = msgspec.structs.replace(HEADER, command=("run", f"--key={CANARY}"), options={"note": CANARY})
    writer = RunWriter.create(tmp_path, header, redactor=REDACTOR)
    for index in range(3):
        writer.append(planted(index))
    writer.append(typical(9))
    writer.close()
    return RunReader.open(writer.path)


def test_the_file_holds_no_canary_packed_or_unpacked(reader):
    assert CANARY.encode() not in reader.path.read_bytes()
    told = repr(list(reader.trials())) + repr(reader.header)
    assert CANARY not in told
    assert CANARY[:11] not in told
    assert SHAPED not in told
    assert "hunter2" not in told
    assert "My key is " + "*" * len(CANARY) in told


def test_a_clean_trial_is_stored_as_it_was(reader):
    assert reader.trial(TrialKey(scenario_id="SCN-C-001", index=9)) == typical(9)


def test_no_report_made_from_it_holds_one(reader):
    reading = Reading(reader)
    reports = [
        b"".join(to_json(reading)).decode(),
        to_junit(reading),
        "\n".join(render_run(reading, Page(width=300))),
    ]
    for report in reports:
        assert CANARY not in report
        assert CANARY[:11] not in report
        assert "*" * len(CANARY) in report
