"""Blocks of trials that failed in the same way, without repetition, and transcripts with what was done."""

from pathlib import Path

import msgspec
import pytest

from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationResult, Evidence, JudgeNote, Verdict
from steadyhand.records.event import ActionTaken, CommandRan, Observed, Said, ServiceCalled
from steadyhand.records.result import ConversationEnding
from steadyhand.records.run import Judged, Target, TrialKey, TrialRecord
from steadyhand.report.details import check_text, explained_classes
from steadyhand.report.table import Cell, Page, render_table
from steadyhand.report.terminal import View, render_run
from steadyhand.report.transcript import render_transcript
from support.sample_run import BROKEN, HEADER, SAFE, UNDECIDED, UNSAFE, reading_of

PAGE = Page(width=80)
SNAPSHOTS = Path(__file__).parent / "snapshots"


def trial(scenario_id, index=0, verdict=Verdict.PASSED, checks=(), **more) -> TrialRecord:
    reason = more.pop("reason", "because")
    return msgspec.structs.replace(
        BROKEN,
        key=TrialKey(scenario_id=scenario_id, index=index),
        scenario_name=scenario_id,
        judged=Judged(verdict=verdict, reason=reason),
        evaluations=tuple(checks),
        phases=(),
        events=(),
        **more,
    )


def failed(name, message="it is wrong"):
    return EvaluationResult(verdict=Verdict.FAILED, type="regex_match", name=name, message=message)


def render(trials, **view):
    planned = {}
    for each in trials:
        planned[each.key.scenario_id] = planned.get(each.key.scenario_id, 0) + 1
    header = msgspec.structs.replace(HEADER, planned=len(trials))
    return list(render_run(reading_of(trials, header, planned), PAGE, view=View(**view)))


def heads(lines):
    return [line for line in lines if line.startswith(("FAILED", "ERROR", "INCONCLUSIVE"))]


def test_trials_with_the_same_failing_checks_are_one_block():
    one = [trial("a", index, Verdict.FAILED, [failed("x")]) for index in range(60)]
    other = [trial("a", 60 + index, Verdict.FAILED, [failed("x"), failed("y")]) for index in range(2)]
    assert heads(render([*one, *other])) == [
        "FAILED  a  60 of 62 trials: #0, #1, #2, #3, …",
        "FAILED  a  2 of 62 trials: #60, #61",
    ]


def test_checks_that_differ_in_verdict_or_place_are_not_the_same():
    unknown = msgspec.structs.replace(failed("x"), verdict=Verdict.INCONCLUSIVE)
    later = msgspec.structs.replace(failed("x"), turn=2)
    trials = [trial("a", index, Verdict.FAILED, [check]) for index, check in enumerate((failed("x"), unknown, later))]
    assert len(heads(render(trials))) == 3


def test_an_outage_is_one_block_whatever_the_scenario():
    errors = [trial(f"s{n}", 0, Verdict.ERROR, reason=f"run: no answer after {n} ms") for n in range(6)]
    assert heads(render(errors)) == ["ERROR  6 trials of 6 scenarios: s0, s1, s2, s3 and 2 more"]


def test_blocks_that_are_left_out_are_counted():
    many = [trial(f"s{n}", 0, Verdict.FAILED, [failed("x")]) for n in range(150)]
    lines = render(many)
    assert len(heads(lines)) == 20
    assert "130 more trials did not pass, for other reasons" in lines
    assert f"to see each of them in full: steadyhand show {HEADER.id} --all" in lines
    assert len(heads(render(many, detail="all"))) == 150


def test_a_pattern_is_said_once():
    check = EvaluationResult(
        verdict=Verdict.FAILED,
        type="regex_match",
        message=r"reply has no match for '\bcath lab\b'",
        evidence=Evidence(
            expected=r"a match for '\bcath lab\b', ignoring case",
            found="no match",
            where="reply",
            excerpt="Let us wait.",
        ),
    )
    assert check_text(check) == (check.message, {"excerpt": "Let us wait."})
    assert check_text(check, ["Let us wait."]) == (check.message, {})


@pytest.mark.parametrize(
    ("message", "evidence", "told"),
    [
        ("reply does not contain 'sorry'", {"found": "no match", "where": "reply"}, {}),
        ("a.md does not exist in the workspace", {"expected": "file a.md", "found": "no such file"}, {}),
        ("gone.txt does not exist", {"expected": "'bye' in gone.txt"}, {"expected": "'bye' in gone.txt"}),
        ("mail.send was called once; expected twice", {"found": "1 of 1 service call matched"}, {}),
        ("mail.send was never called", {"found": "0 of 7 calls matched"}, {"found": "0 of 7 calls matched"}),
        ("took 43.1 ms, above the maximum of 1 ms", {"expected": "at most 1 ms", "where": "the agent's own time"}, {}),
        ("expected 1 row, found 2", {"where": "SELECT id FROM t"}, {"where": "SELECT id FROM t"}),
        ("0 of 2 are positive", {"found": "- 'useless' (turn 2)"}, {"found": "- 'useless' (turn 2)"}),
        ("too rude", {"expected": "a polite greeting"}, {"expected": "a polite greeting"}),
        ("too rude", {"found": "a rude word"}, {"found": "a rude word"}),
    ],
)
def test_evidence_that_says_nothing_new_is_left_out(message, evidence, told):
    check = EvaluationResult(verdict=Verdict.FAILED, type="any", message=message, evidence=Evidence(**evidence))
    assert check_text(check, ["What a useless answer, I would say at turn 2."]).fields == told


def test_a_reason_that_is_in_what_was_found_is_not_said_again():
    reasoning = "The agent asked for the name again although it was given."
    listed = f"'name' in turn 2: {reasoning}; 'name' in turn 3: It greets a stranger."
    check = EvaluationResult(
        verdict=Verdict.FAILED,
        type="context_retention",
        message=f"kept in 0 of 2 turns; lost: {listed}",
        evidence=Evidence(found=listed),
        judge=JudgeNote(model="openai/j", prompt_hash="x", raw="{}", reasoning=reasoning),
    )
    assert check_text(check) == ("kept in 0 of 2 turns; lost: 'name' in turn 2", {"found": listed})


def test_every_check_that_did_not_pass_has_a_line():
    checks = [failed(f"c{number}", f"reply lacks {number}") for number in range(3)]
    unseen = EvaluationResult(verdict=Verdict.INCONCLUSIVE, type="x", name="unseen", message="not visible")
    lines = render([trial("a", 0, Verdict.FAILED, [*checks, checks[2], unseen])], detail="quiet")
    assert lines[:6] == [
        "FAILED  a",
        "  c0",
        "    reply lacks 0",
        "  also c1: reply lacks 1",
        "  also c2: reply lacks 2 (2 times)",
        "  also unseen (inconclusive): not visible",
    ]
    many = [failed(f"c{number}", f"reply lacks {number}") for number in range(20)]
    crowd = [trial(f"s{number}", 0, Verdict.FAILED, many) for number in range(20)]
    lines = render(crowd, detail="quiet")
    assert sum(line.startswith("  also c1, c2, c3, c4, ") for line in lines) == 20
    assert len(lines) < 110


def test_the_reasoning_of_a_judge_is_said_once():
    reasoning = "The agent never apologised, although the user was charged twice and had to ask three times."
    check = EvaluationResult(
        verdict=Verdict.FAILED,
        type="llm_judge",
        message=f"judged no; expected 'yes': {reasoning[:60]}...",
        evidence=Evidence(expected="yes", found="no (0.9)", where="judge openai/j", excerpt=reasoning),
        judge=JudgeNote(model="openai/j", prompt_hash="x", raw="{}", reasoning=reasoning),
    )
    told = check_text(check)
    assert told == ("judged no; expected 'yes'", {"found": "no (0.9)", "judge": reasoning})
    text = "\n".join(render([trial("a", 0, Verdict.FAILED, [check], reason=f"llm_judge: {check.message}")]))
    assert text.count("never apologised") == 1


def test_a_transcript_has_calls_with_arguments_and_results_in_order():
    events = (
        Said(at_ms=1.0, step=0, turn=1, message=Message(role="user", content="charged twice")),
        ActionTaken(at_ms=2.0, step=0, turn=1, id="1", name="LOOKUP", params={"id": 7}),
        ServiceCalled(
            at_ms=3.0, step=0, turn=1, service="billing", method="find", args=["a"], mock="m", result={"n": 2}
        ),
        Observed(at_ms=4.0, step=0, turn=1, action_id="1", name="LOOKUP", content=[1, 2]),
        ServiceCalled(at_ms=5.0, step=0, turn=1, service="billing", method="gone", error="no such method"),
        CommandRan(at_ms=6.0, step=0, turn=1, command="make", exit_code=2),
        Said(at_ms=7.0, step=0, turn=1, message=Message(role="assistant", content="refunded")),
    )
    ending = ConversationEnding(
        step=0, turns=1, terminated_early=True, termination_reason="satisfied", termination_evidence="thanks"
    )
    talked = msgspec.structs.replace(trial("a"), events=tuple(reversed(events)), conversations=(ending,))
    assert list(render_transcript(talked, PAGE)) == [
        "  transcript",
        "    turn 1, 6 ms",
        "    user       charged twice",
        "    action     LOOKUP(id=7) -> [1,2]",
        '    service    billing.find("a") -> {"n":2} (mocked)',
        "    service    billing.gone() failed: no such method",
        "    command    make -> exit code 2",
        "    assistant  refunded",
    ]
    assert "  ended by  satisfied, early, after turn 1: thanks" in render([talked], detail="everything")
    secret = msgspec.structs.replace(ending, transcript_exported=False)
    hidden = "\n".join(render_transcript(msgspec.structs.replace(talked, conversations=(secret,)), PAGE))
    assert "LOOKUP" not in hidden


def test_a_letter_is_explained_where_it_stands():
    assert explained_classes(UNSAFE.judged.failure_classes) == "A (critical invariant violated), D (too late)"


def test_rows_that_share_a_beginning_are_told_apart():
    names = [f"python:agents/support/very/long/path/of/an/agent.py:{name}" for name in ("one", "two")]
    lines = list(
        render_table(
            ("agent", "n"), [(Cell(text=name), Cell(text="1")) for name in names], Page(width=40), giving_way=0
        )
    )
    assert [line.split()[0] for line in lines[1:]] == ["…one", "…two"]


def test_a_table_with_several_wide_columns_fits_the_page():
    row = (
        "failed",
        "refund  A customer wants money back",
        "python:../agents/desk.py:reply",
        "safe in time",
        "22 ms",
    )
    rows = [tuple(Cell(text=text) for text in (*row, "target <=1000"))] * 2
    lines = list(
        render_table(
            ("verdict", "scenario", "agent", "outcome", "latency", "tier"), rows, PAGE, giving_way=1, cuttable=[2]
        )
    )
    assert max(map(len, lines)) == 80
    assert lines[1].split("  ")[0] == "failed"
    assert "python:../a" in lines[1]
    assert lines[0].index("outcome") == lines[1].index("safe in time")


def test_targets_are_columns_of_their_own():
    trials = [trial(f"q{n}[model=openai/{model}]", index) for n in (1, 2) for model in "ab" for index in (0, 1)]
    targets = {
        each.key.scenario_id: Target(scenario=each.key.scenario_id[:2], agent="model", model=each.key.scenario_id[9:-1])
        for each in trials
    }
    header = msgspec.structs.replace(HEADER, targets=targets, planned=8)
    planned = dict.fromkeys(targets, 2)
    lines = list(render_run(reading_of(trials, header, planned), PAGE))
    assert [" ".join(line.split()[:4]) for line in lines[:5]] == [
        "verdict scenario model passed",
        "passed q1 openai/a 2/2",
        "passed q1 openai/b 2/2",
        "passed q2 openai/a 2/2",
        "passed q2 openai/b 2/2",
    ]


def test_the_whole_report_of_several_trials():
    trials = [
        SAFE,
        UNSAFE,
        msgspec.structs.replace(UNSAFE, key=TrialKey(scenario_id="SCN-C-001", index=2)),
        UNDECIDED,
        BROKEN,
    ]
    planned = {"SCN-C-001": 3, "support": 1, "files": 1}
    header = msgspec.structs.replace(HEADER, planned=5)
    for name, view in (("several-80.txt", View()), ("several-quiet-80.txt", View(detail="quiet"))):
        reading = reading_of(trials, header, planned)
        lines = [line.replace(str(reading.path), "runs/x.sqlite") for line in render_run(reading, PAGE, view=view)]
        assert "\n".join(lines) + "\n" == (SNAPSHOTS / name).read_text(encoding="utf-8")
