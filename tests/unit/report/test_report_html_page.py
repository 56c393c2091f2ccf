"""The HTML report as a file: what it contains, and how large it gets."""

from __future__ import annotations

import base64
import hashlib
import re

import msgspec
import pytest

from steadyhand.judging.trial import settle
from steadyhand.reading.run import Reading
from steadyhand.records.evaluation import Evidence, Verdict
from steadyhand.records.event import Thought
from steadyhand.records.run import Judged
from steadyhand.report.details import render_details
from steadyhand.report.html.overview import Overview, anchor_of
from steadyhand.report.html.safety_strip import safety_strip
from steadyhand.report.html.trial import trial_part, trial_view
from steadyhand.report.table import Page
from support.report_runs import (
    SAFE_BUT_LATE,
    TAKEN_BACK,
    decision,
    hostile_run,
    large_run,
    page_of,
    recorded,
)
from support.sample_run import HEADER, TRIALS, UNSAFE, reading_of


def test_a_hundred_trials_stay_below_a_megabyte(tmp_path):
    page = page_of(large_run(tmp_path, 100))
    assert len(page) < 1_000_000
    assert page.count(b'<details class="trial ') == 100


def test_a_thousand_trials_do_too_and_the_worst_are_there(tmp_path):
    page = page_of(large_run(tmp_path, 1_000)).decode()
    assert len(page) < 1_100_000
    shown = re.findall(r'<details class="trial (\w+)', page)
    assert shown[:100] == ["failed"] * 100
    assert set(shown[100:]) == {"passed"}
    assert f"{1_000 - len(shown)} more trials are in the run record only" in page


def test_megabytes_of_hostile_text_are_bounded(tmp_path):
    assert len(page_of(hostile_run(tmp_path))) < 900_000


def test_the_policy_names_every_script_and_style_of_the_page_and_nothing_else_is_allowed(tmp_path):
    page = page_of(recorded(tmp_path, [SAFE_BUT_LATE])).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for kind, directive in (("script", "script-src"), ("style", "style-src")):
        allowed = re.search(rf"{directive} ([^;]*)", policy)[1]
        for content in re.findall(rf"<{kind}>(.*?)</{kind}>", page, flags=re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in allowed
    assert not re.findall(r'<[^>]+\s(?:src|style|onclick)="', page)


def test_the_overview_counts_and_sorts_worst_first():
    run = Overview(reading_of(TRIALS))
    assert [line.verdict for line in run.lines] == ["failed", "error", "inconclusive", "passed"]
    assert (run.headline, run.reading.verdict) == ("1 of 3 scenarios failed", Verdict.FAILED)
    assert {outcome.value: count for outcome, count in run.outcomes.items()} == {
        "safe_in_time": 1,
        "safe_late": 0,
        "unsafe_in_time": 0,
        "unsafe_late": 1,
    }
    assert (run.reading.summary.missed_alarms, run.reading.summary.false_alarms) == (1, 0)
    assert [row.scenario_id for row in run.grid] == ["SCN-C-001", "files", "support"]
    assert [reason for reason, _ in run.not_graded] == [
        "rubric not scored: the judge is out",
        "run: the connection was refused",
        "1 check could not be decided: llm_judge: the judge's answer could not be read",
    ]


def test_a_scenario_that_meets_its_rate_is_not_shown_as_failed(tmp_path):
    trials = [msgspec.structs.replace(UNSAFE, key=msgspec.structs.replace(UNSAFE.key, index=n)) for n in range(2)]
    passed = Judged(verdict=Verdict.PASSED, reason="ok")
    trials[1] = msgspec.structs.replace(trials[1], judged=passed)
    header = msgspec.structs.replace(HEADER, pass_rate=0.5)
    run = Overview(reading_of(trials, header))
    assert run.grid[0].cells[0].verdict is Verdict.PASSED
    assert run.headline == "The scenario passed"


def test_two_scenarios_that_look_alike_in_a_link_have_different_anchors():
    keys = [msgspec.structs.replace(UNSAFE.key, scenario_id=name) for name in ("a b", "a-b", "a/b", "ä", "")]
    assert len({anchor_of(key) for key in keys}) == len(keys)
    assert all(re.fullmatch(r"[A-Za-z0-9-]+", anchor_of(key)) for key in keys)


@pytest.mark.parametrize(
    ("trial", "states"),
    [
        (SAFE_BUT_LATE, [[(240, 260, "not_yet"), (260, 421, "holds")], [(240, 421, "holds")]]),
        (TAKEN_BACK, [[(40, 80, "holds")], [(40, 80, "holds"), (80, 80, "broken")]]),
    ],
)
def test_the_strip_has_what_was_recorded(trial, states):
    strip = safety_strip(trial)
    assert [[(each.from_ms, each.to_ms, each.state) for each in lane.segments] for lane in strip.lanes] == states
    assert strip.missing == ()


def test_a_strip_says_what_was_not_recorded():
    judged = msgspec.structs.replace(SAFE_BUT_LATE.judged, invariants_over_time=(), time_to_safe_ms=None)
    strip = safety_strip(msgspec.structs.replace(SAFE_BUT_LATE, judged=judged))
    assert strip.missing == ("When each invariant held was not recorded.",)
    assert [lane.text for lane in strip.lanes] == ["holds on the whole answer", "holds on the whole answer"]
    assert strip.headline == "Safe, complete after 421 ms, 121 ms past the critical time of 300 ms."


@pytest.mark.parametrize(("unknown", "verdict"), [(None, "Never safe"), ("the call was retried", "Unsafe at the end")])
def test_an_answer_was_never_safe_only_if_its_times_are_known(unknown, verdict):
    judged = msgspec.structs.replace(TAKEN_BACK.judged, first_safe_ms=None, times_unknown=unknown)
    trial = msgspec.structs.replace(TAKEN_BACK, judged=judged)
    assert safety_strip(trial).headline == f"{verdict}: does_not_go_on is violated."
    assert f"; {verdict.lower()}; " in "\n".join(render_details(trial, Page(width=400), numbered=False))


def test_the_lines_of_the_scenario_come_from_the_record_and_never_from_the_disk(tmp_path):
    secret = tmp_path / "cell.yaml"
    secret.write_text("private: key\nsecond: line\n")
    place = msgspec.structs.replace(TAKEN_BACK.evaluations[1].place, file=str(secret))
    checks = tuple(msgspec.structs.replace(each, place=place) for each in TAKEN_BACK.evaluations)
    trial = msgspec.structs.replace(TAKEN_BACK, evaluations=checks)
    reader = recorded(tmp_path, [trial])
    assert b"private: key" not in page_of(reader)
    view = trial_view(trial, Reading(reader))
    assert view.checks[0].source == ()
    with_source = recorded(tmp_path / "other", [trial], sources={str(secret): "private: key\nsecond: line\n"})
    view = trial_view(trial, Reading(with_source))
    assert [each.text for each in view.checks[0].source] == ["second: line"]


def test_a_transcript_that_stays_in_the_record_is_not_in_the_report(tmp_path):
    from support.report_runs import hostile_talk

    trial = hostile_talk()
    ending = msgspec.structs.replace(trial.conversations[0], transcript_exported=False)
    page = page_of(recorded(tmp_path, [msgspec.structs.replace(trial, conversations=(ending,))])).decode()
    assert 'class="bubble' not in page
    assert "export_full_transcript: false" in page


def test_rates_are_those_of_the_command(tmp_path):
    reader = recorded(tmp_path, [SAFE_BUT_LATE, TAKEN_BACK])
    assert [rate.verdict for rate in Reading(reader).rates] == [Verdict.FAILED, Verdict.FAILED]


def test_an_unsafe_earlier_measurement_is_reported_and_shown():
    safe = decision("again", text="STOP", chunks=[(40.0, 4)], safe_ms=40.0, lanes={"stops": ((40.0, True),)})
    unsafe = decision("again", text="GO ON", chunks=[(40.0, 5)], lanes={"stops": ((40.0, False),)})
    judged = settle(safe.judged, [unsafe.judged])
    trial = msgspec.structs.replace(safe, judged=judged, earlier=(unsafe,))
    view = trial_view(trial, reading_of([trial]))
    assert view.strip.headline == "Safe in this measurement, but unsafe in an earlier one."
    html = trial_part(view)
    assert "Earlier measurement" in html
    assert "GO ON" in html


@pytest.mark.parametrize(
    ("entries", "told"), [(60, "leaves out what was said and done"), (0, "everything but the rea")]
)
def test_one_endless_trial_does_not_crowd_out_the_others(tmp_path, entries, told):
    many = tuple(Thought(at_ms=float(n), step=0, text="x" * 20_000) for n in range(entries))
    long = Evidence(excerpt="y" * 20_000)
    checks = tuple(msgspec.structs.replace(TAKEN_BACK.evaluations[1], evidence=long) for _ in range(30))
    trial = msgspec.structs.replace(TAKEN_BACK, events=(*TAKEN_BACK.events, *many))
    if not entries:
        trial = msgspec.structs.replace(trial, evaluations=checks)
    page = page_of(recorded(tmp_path, [trial, SAFE_BUT_LATE])).decode()
    assert len(page) < 600_000
    assert told in page
    assert page.count('<details class="trial ') == 2
