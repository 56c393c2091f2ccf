"""Records that older versions wrote can still be opened and read in full: one is kept for each version of the format.

`records/format-N.sqlite` was written by a version with format N, which ran the examples; `records/format-N.json` is
what it says about each trial. Formats 1 and 2 were never released.
"""

import json
import shutil
from pathlib import Path

import pytest

from steadyhand import open_run
from steadyhand.records.run import FORMAT_VERSION
from steadyhand.store.reader import RunReader

KEPT = Path(__file__).parent / "records"
FIRST_RELEASED = 3


@pytest.fixture(params=range(FIRST_RELEASED, FORMAT_VERSION + 1))
def version(request):
    return request.param


@pytest.fixture
def record(version, tmp_path):
    """A copy: SQLite may leave files next to one that it opens."""
    file = KEPT / f"format-{version}.sqlite"
    assert file.is_file(), f"the format is now {version}: keep a record of it as {file.name}, and read the older ones"
    return Path(shutil.copy(file, tmp_path))


def said_of(trial):
    """What every version must read in the same way."""
    judged = trial.judged
    return {
        "key": str(trial.key),
        "verdict": judged.verdict.value,
        "reason": judged.reason,
        "latency_ms": judged.latency_ms,
        "seed": trial.seed,
        "evaluations": [[each.type, each.verdict.value, each.message] for each in trial.evaluations],
        "events": [type(event).__name__ for event in trial.events],
        "earlier": [said_of(each) for each in trial.earlier],
    }


def test_every_trial_is_read_as_it_was_written(record, version):
    reader = RunReader.open(record)
    assert reader.unreadable() == frozenset()
    kept = json.loads((KEPT / f"format-{version}.json").read_text(encoding="utf-8"))
    assert [said_of(trial) for trial in reader.trials()] == kept
    assert [str(entry.key) for entry in reader.plan()] == [trial["key"] for trial in kept]
    assert reader.to_do() == []


def test_the_run_has_the_exit_code_it_had(record):
    run = open_run(record)
    assert (run.finished, run.exit_code) == (True, 1)
