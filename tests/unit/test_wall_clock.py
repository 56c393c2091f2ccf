"""Setting the clock during a run changes no measurement: durations come from a clock that nobody can set."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "steadyhand"
WALL_CLOCK = re.compile(r"time\.time(?:_ns)?\(\)|datetime\.(?:utc)?now\(|gmtime\(|localtime\(")
# Where the time of day is wanted: stamps, spans, and a server's `Retry-After` that names a time of day.
STAMPS = {
    "batch/worker_pool.py",
    "builtin/models/cassette.py",
    "http/endpoint.py",
    "cli/gate.py",
    "compose/calibration.py",
    "cli/runs.py",
    "compose/run.py",
    "compose/shards.py",
    "compose/worker.py",
    "gateway/traces.py",
    "records/base.py",
    "viewer/labels.py",
}


def test_the_time_of_day_is_read_for_stamps_only():
    found = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if WALL_CLOCK.search(file.read_text(encoding="utf-8"))
    }
    assert found == STAMPS
