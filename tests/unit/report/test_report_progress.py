import contextlib
import io
import os
import pty
import re
import threading

import msgspec

from steadyhand.records.event import Retried
from steadyhand.records.run import CallWait, RunHealth, TrialKey
from steadyhand.report.progress import PlainProgress, ProgressRate, SilentProgress, health_line, progress_for
from support.sample_run import BROKEN, HEADER, SAFE, TRIALS, UNSAFE

HELD_UP = RunHealth(
    waits=(
        CallWait(reason="openai is rate limiting us (429)", calls=8, left_s=41.3),
        CallWait(reason="other is down", calls=1, left_s=20.0, down="other"),
        CallWait(reason="short 500", calls=1, left_s=0.2),
    ),
    lag_ms=12.4,
)
WORDS = (
    "waiting 42 s: openai is rate limiting us (429), 8 calls",
    "other is down, retrying in 20 s, 1 call",
    "lag 12 ms",
)


def watch(observer):
    observer.run_started(HEADER)
    for trial in TRIALS:
        observer.trial_started(trial.key, trial.scenario_name)
        observer.trial_finished(trial)
    observer.noted("mocks are\nignored")
    observer.trial_started(TrialKey(scenario_id="still"), "running")
    observer.run_finished()


def test_plain_lines():
    stream = io.StringIO()
    watch(progress_for(stream))
    assert stream.getvalue().splitlines() == [
        "passed        SCN-C-001  480 ms",
        (
            "failed        SCN-C-001#1  2101 ms  1 retry, waited 1.5 s, lag 32 ms, 1 remeasured  "
            "safety invariant violated: activates_cath_lab"
        ),
        "inconclusive  support  310 ms  1 check could not be decided: llm_judge: the judge's answer could not be read",
        "error         files  run: the connection was refused",
        "note: mocks are ignored",
    ]


def test_a_trial_says_how_often_its_calls_were_tried_again():
    stream = io.StringIO()
    again = Retried(at_ms=1, model="m/m", purpose="agent", reason="503", wait_ms=10, attempt=1)
    retried = msgspec.structs.replace(SAFE, events=(*SAFE.events, again))
    progress_for(stream).trial_finished(msgspec.structs.replace(retried, earlier=(retried,)))
    assert stream.getvalue() == "passed        SCN-C-001  480 ms  2 retries, 1 remeasured\n"


def test_what_holds_the_run_up_on_one_line():
    assert health_line(HELD_UP) == "; ".join(WORDS)
    assert health_line(RunHealth(lag_ms=2.0)) == ""


def test_plain_lines_tell_once_what_holds_the_run_up():
    asked = threading.Semaphore(0)

    def health():
        asked.release()
        return HELD_UP

    stream = io.StringIO()
    observer = PlainProgress(stream, health, every_s=0.001)
    observer.run_started(HEADER)
    for _ in range(3):
        asked.acquire()
    observer.run_finished()
    assert stream.getvalue().splitlines() == ["0 of 4 (0%); " + "; ".join(WORDS)]


def test_share_rate_and_time_left():
    now = 100.0
    pace = ProgressRate(lambda: now)
    pace.start(msgspec.structs.replace(HEADER, planned=60))
    assert (pace.share(), pace.speed()) == ("0 of 60 (0%)", "")
    for _ in range(12):
        now += 0.5
        pace.count()
    assert (pace.share(), pace.speed()) == ("12 of 60 (20%)", "2.0 trials/s, 24.0 s left")
    now += 18.0
    assert pace.speed() == "30.0 trials/min, 1 min 36 s left"


def test_with_until_decided_the_rest_is_a_bound():
    now = 0.0
    pace = ProgressRate(lambda: now)
    pace.start(msgspec.structs.replace(HEADER, planned=1000, until="decided"))
    now += 1.0
    pace.count()
    assert (pace.share(), pace.speed()) == (
        "1 of at most 1000 (0%)",
        "1.0 trials/s, at most 16 min 39 s left",
    )


def test_silence():
    stream = io.StringIO()
    observer = progress_for(stream, enabled=False)
    assert isinstance(observer, SilentProgress)
    watch(observer)
    assert stream.getvalue() == ""


def test_a_reader_that_went_away_does_not_stop_the_run():
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w", buffering=1)
    observer = PlainProgress(stream)
    observer.trial_finished(UNSAFE)
    observer.trial_finished(BROKEN)
    with contextlib.suppress(BrokenPipeError):
        stream.close()
    observer.trial_finished(BROKEN)


def live(monkeypatch, columns: int, use) -> str:
    """What `use` makes a live display write on a terminal of that width."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.delenv("NO_COLOR", raising=False)
    master, slave = pty.openpty()
    pieces = []

    def read_to_the_end():
        with contextlib.suppress(OSError):
            while piece := os.read(master, 4096):
                pieces.append(piece)

    reader = threading.Thread(target=read_to_the_end)
    reader.start()
    with os.fdopen(slave, "w") as stream:
        use(progress_for(stream, health=lambda: HELD_UP))
    reader.join()
    os.close(master)
    return b"".join(pieces).decode()


def test_live_on_a_terminal(monkeypatch):
    def use(observer):
        observer.noted("said before\nthe run")
        watch(observer)

    shown = live(monkeypatch, 140, use)
    verdicts = ("4 of 4 (100%)", "1 passed", "1 failed", "1 inconclusive", "1 error")
    for expected in (
        *verdicts,
        "running: still",
        "failed  SCN-C-001#1: safety invariant violated: activates_cath_lab",
        "error  files: run: the connection was refused",
        "note: said before the run",
        "note: mocks",
        "1 retry, waited 1.5 s",
        *WORDS,
    ):
        assert expected in shown


def test_live_lines_fit_a_narrow_terminal_and_name_each_scenario_once(monkeypatch):
    long = msgspec.structs.replace(UNSAFE.judged, reason="a long reason " * 20)
    header = msgspec.structs.replace(HEADER, planned=12_000)

    def use(observer):
        observer.run_started(header)
        for _ in range(1_000):
            for trial in TRIALS:
                observer.trial_finished(trial)
        observer.trial_finished(msgspec.structs.replace(UNSAFE, judged=long))
        for index in range(8):
            observer.trial_started(TrialKey(scenario_id="SCN-A-LONG-NAME-OF-A-SCENARIO", index=index), "the same name")
        for number in range(5):
            observer.trial_started(TrialKey(scenario_id=f"other-{number}"), "another")
        observer.run_finished()

    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", live(monkeypatch, 80, use))
    lines = [line for line in re.split(r"[\r\n]+", shown) if line]
    assert max(map(len, lines)) <= 80
    assert "running: SCN-A-LONG-NAME-OF-A-SC… (8), other-0, other-1 and 3 more" in lines
    assert any(line.endswith("…") and line.startswith("failed  SCN-C-001#1: a long reason") for line in lines)
    assert any("tokens" in line for line in lines)
