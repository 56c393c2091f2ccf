import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from steadyhand.reading.run import Reading
from steadyhand.records.chat import Finish, FinishReason
from steadyhand.records.evaluation import Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.records.run import Target, TrialKey
from steadyhand.report.run_list import render_runs
from steadyhand.report.table import Page, cells, clip, visible
from steadyhand.report.terminal import View, render_run
from steadyhand.report.wording import milliseconds
from steadyhand.store.reader import list_runs
from steadyhand.store.writer import RunWriter
from support.sample_run import BROKEN, HEADER, SAFE, TRIALS, UNDECIDED, UNSAFE, reading_of
from support.sample_trials import typical

SNAPSHOTS = Path(__file__).parent / "snapshots"


ONE_EACH = (SAFE, msgspec.structs.replace(UNSAFE, key=TrialKey(scenario_id="SCN-C-002")), UNDECIDED, BROKEN)
NORMAL = View()


def render(trials, *, width=100, colour=False, header=HEADER, view=NORMAL):
    page = Page(width=width, colour=colour)
    reading = reading_of(trials, header)
    return "\n".join(render_run(reading, page, view=view)).replace(str(reading.path), "runs/x.sqlite") + "\n"


@pytest.mark.parametrize(
    ("name", "width", "colour"),
    [("table-80.txt", 80, False), ("table-120.txt", 120, False), ("table-100-colour.txt", 100, True)],
)
def test_the_whole_table(name, width, colour):
    assert render(ONE_EACH, width=width, colour=colour) == (SNAPSHOTS / name).read_text(encoding="utf-8")


def test_it_fits_the_page_and_colours_take_no_room():
    plain = render(TRIALS, width=80)
    assert max(map(cells, plain.splitlines())) <= 80
    coloured = render(TRIALS, width=80, colour=True)
    bare = coloured
    for code in ("32", "33", "31", "1;31", "1;35", "1", "2", "0"):
        bare = bare.replace(f"\x1b[{code}m", "")
    assert bare == plain
    assert "\x1b" not in plain


def test_a_run_in_which_everything_passed():
    assert render([SAFE], header=msgspec.structs.replace(HEADER, planned=3)).splitlines() == [
        "verdict  scenario                    outcome       latency               safe after  checks",
        "passed   SCN-C-001  ST-Elevation MI  safe in time  480 ms  target <=500  480 ms      2/2",
        "",
        "warning: the judge openai/gpt-j is of the same vendor as the model under test",
        "",
        "1 trial: 1 passed; 2 planned but not run",
        "1 model call: 28 tokens, cost unknown",
        "record: runs/x.sqlite",
    ]


@pytest.mark.parametrize(
    ("finish", "shown"),
    [
        (Finish(reason=FinishReason.LENGTH, raw="length"), "cut short"),
        (Finish(reason=FinishReason.LENGTH, raw="max_tokens", token_limit=9), "our limit"),
        (Finish(reason=FinishReason.REFUSAL, raw="refusal"), "refusal"),
    ],
)
def test_an_unusual_ending_is_shown_in_the_table(finish, shown):
    events = tuple(
        msgspec.structs.replace(each, finish=finish) if isinstance(each, ModelCalled) else each for each in SAFE.events
    )
    header, row, *_ = render([msgspec.structs.replace(SAFE, events=events)], width=160).splitlines()
    assert header.endswith("checks  ended")
    assert row.endswith(f"2/2     {shown}")


def test_a_wide_page_has_room_for_every_figure():
    excluding = msgspec.structs.replace(SAFE.judged, time_to_safe_excludes=("polite",))
    assert render([msgspec.structs.replace(SAFE, judged=excluding)], width=160).splitlines()[:3] == [
        (
            "verdict  scenario                    outcome       latency               first token  safe after  "
            "safe by t/a/c  rubric  checks"
        ),
        (
            "passed   SCN-C-001  ST-Elevation MI  safe in time  480 ms  target <=500  100 ms       480 ms*     "
            "yes/yes/yes    0.90    2/2"
        ),
        "* excluding invariants that can only be checked on the complete answer",
    ]


def test_a_call_that_was_cut_off_does_not_look_as_if_it_had_ended_then():
    judged = msgspec.structs.replace(UNSAFE.judged, latency_ms=2000.0, latency_cut=True)
    assert "over 2000 ms, cut off" in render([msgspec.structs.replace(UNSAFE, judged=judged)])


def test_missed_and_false_alarms_are_counted_apart():
    false = msgspec.structs.replace(UNSAFE, expects="defer", events=(), earlier=())
    other = msgspec.structs.replace(false, key=TrialKey(scenario_id="other"))
    text = render([SAFE, UNSAFE, UNSAFE, other])
    assert "4 trials: 1 passed, 3 failed (2 missed alarms, 1 false alarm)" in text
    assert "false: the agent should have deferred" in text


def test_columns_that_nothing_fills_are_left_out():
    assert render([BROKEN], width=40).splitlines()[:2] == ["verdict  scenario  checks", "error    files     0/0"]


def test_nothing_was_run():
    header = msgspec.structs.replace(HEADER, planned=0)
    assert render([], header=header) == "\nno trials were run\nrecord: runs/x.sqlite\n"


def test_many_trials_are_folded_but_all_counted():
    trials = [typical(index, Verdict.FAILED if index % 10 == 0 else Verdict.PASSED) for index in range(300)]
    lines = render(trials, view=View(detail="all")).splitlines()
    assert sum(line.startswith("failed ") for line in lines) == 30
    assert not any(line.startswith("passed") for line in lines)
    assert "(270 passed trials not listed)" in lines
    lines = render(trials).splitlines()
    assert "FAILED  SCN-C-001  ST-Elevation MI  30 of 300 trials: #0, #10, #20, #30, …" in lines
    assert "300 trials: 270 passed, 30 failed" in lines


def test_more_failures_than_rows():
    trials = [typical(index, Verdict.ERROR) for index in range(250)]
    lines = render(trials, view=View(detail="all")).splitlines()
    assert sum(line.startswith("error ") for line in lines) == 200
    assert "(50 more trials that did not pass are not listed)" in lines


@pytest.mark.parametrize(
    ("ms", "text"),
    [(480.0, "480 ms"), (500.2, "501 ms"), (9.01, "9.1 ms"), (0.0, "0 ms"), (float("inf"), "inf ms")],
)
def test_a_figure_never_looks_better_than_it_was(ms, text):
    assert milliseconds(ms) == text


def test_widths_and_escapes():
    assert [cells(text) for text in ("abc", "日本", "é", "e\u0301")] == [3, 4, 1, 1]
    assert clip("日本語", 5) == "日本…"
    assert clip("日本語", 4) == "日…"
    assert visible("a\x1b[31m\tb\r\nc\u202e\ud800") == "a\\x1b[31m    b\nc\\u202e\\ud800"
    assert list(Page(width=40).wrap("word " * 20, most=2)) == [
        "word word word word word word word word",
        "word word word word word word word word…",
    ]
    assert "".join(Page(width=40).wrap("x" * 95)) == "x" * 95


def test_the_table_is_printed_without_loading_a_layout_library():
    code = "import sys, steadyhand.report.terminal, steadyhand.report.progress; print('rich' in sys.modules)"
    environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_list_of_runs_and_a_stored_run(tmp_path):
    whole = msgspec.structs.replace(HEADER, took_ms=2500.0, targets={"a": Target(scenario="a", model="scripted/a")})
    writer = RunWriter.create(tmp_path, whole)
    for trial in TRIALS:
        writer.append(trial)
    writer.close()
    header = msgspec.structs.replace(whole, id="20261115-080000-0001", started_at="2026-11-15T08:00:00+00:00")
    writer = RunWriter.create(tmp_path, header)
    writer.append(SAFE)
    writer.close("interrupted")
    (tmp_path / "20261114-000000-0000.sqlite").write_text("no")

    lines = list(render_runs(list_runs(tmp_path), Page(width=200)))
    assert [re.sub(" +", " ", line) for line in lines[:4]] == [
        "run started status target passed failed inconclusive error not run took command",
        "20261116-104455-3f9a 2026-11-16 10:44:55 finished scripted/a 1 1 1 1 2.5 s steadyhand run scenarios",
        "20261115-080000-0001 2026-11-15 08:00:00 interrupted scripted/a 1 3 2.5 s steadyhand run scenarios",
        "20261114-000000-0000 unreadable",
    ]
    assert lines[4].startswith("20261114-000000-0000: ")
    assert list(render_runs([], Page())) == ["no runs recorded yet"]

    path = tmp_path / "20261116-104455-3f9a.sqlite"
    assert list(render_run(Reading.open(path), Page()))[-1] == f"record: {path}"
    assert list(render_run(Reading.open(writer.path), Page()))[-1] == "status: interrupted"


def test_trials_of_different_scenarios_carry_no_number():
    lines = render([SAFE, msgspec.structs.replace(BROKEN, key=TrialKey(scenario_id="other"))]).splitlines()
    assert "#" not in lines[1] + lines[2]
    assert "#1" in render([SAFE, UNSAFE])
