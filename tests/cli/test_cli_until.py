"""`--until decided`: trials run only until the pass rate is decided, and all reports of it agree."""

import json
import signal
import xml.etree.ElementTree as ET

import pytest

from steadyhand.judging.sequential import Decision
from steadyhand.reading.run import Reading
from steadyhand.records.evaluation import Verdict

WRONG = "rules:\n  - reply: I wait.\n"
DOWN = "rules:\n  - {reply: I call, fail: {kind: stream}}\n"
SLOW = "rules:\n  - reply: I call for help now.\n    delay_ms: 20\n"
MOSTLY = "rules:\n  - {replies: [I call for help., I call for help., I call for help., I wait.], pick: random}\n"
FILES = ("--json", "r.json", "--junit", "r.xml")


def until(batch, *options, trials="100"):
    common = ("--until", "decided", "--trials", trials, "--seed", "7", "--concurrency", "4", "--no-progress", *FILES)
    return batch("run", "untimed.yaml", *common, *options)


def report(batch):
    return json.loads((batch.folder / "r.json").read_text()), ET.parse(batch.folder / "r.xml").getroot()


@pytest.mark.parametrize(
    ("replies", "rate", "code", "verdict"),
    [(None, "0.8", 0, "passed"), (WRONG, "0.8", 1, "failed"), (WRONG, None, 1, "failed")],
)
def test_a_clear_answer_saves_trials_and_is_told_alike(batch, replies, rate, code, verdict):
    if replies:
        batch.replies(replies)
    ended = until(batch, *(("--pass-rate", rate) if rate else ()))
    assert ended.code == code, ended
    (found,) = Reading(batch.reader()).rates
    assert found.until.decision is Decision(verdict)
    assert found.saved >= 50
    assert (found.not_run, found.finished + found.saved) == (0, 100)
    told, junit = report(batch)
    assert told["summary"]["saved"] == found.saved
    assert (told["summary"]["not_run"], told["summary"]["exit_code"]) == (0, code)
    (scenario,) = told["scenarios"]
    assert (scenario["verdict"], scenario["until"]["decision"], scenario["saved"]) == (verdict, verdict, found.saved)
    assert scenario["trials"]["not_run"] == 0
    (case,) = junit.iter("testcase")
    properties = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert (properties["verdict"], properties["trials_saved"]) == (verdict, str(found.saved))
    assert f"; {found.saved} saved\n" in ended.out
    assert "planned but not run" not in ended.out
    assert batch("show", "last").out == ended.out
    listed = batch("runs").out
    assert "finished" in listed
    assert "not run" not in listed
    again = batch("resume", "last", "--no-progress", "--html", "again.html", "--junit-inconclusive", "skipped")
    assert "0 of 100 trials left to run" in again.err
    assert (again.code, again.out) == (code, ended.out)
    assert f"<dt>saved</dt><dd>{found.saved}</dd>" in (batch.folder / "again.html").read_text()
    assert "<dt>not run</dt>" not in (batch.folder / "again.html").read_text()
    summary = batch("report", "last", "--markdown", "-").out
    assert f", {found.saved} saved" in summary
    assert "not run" not in summary
    for flag in ("-q", "-v"):
        assert batch("resume", "last", "--no-progress", flag).code == code


def test_undecided_at_the_ceiling_is_inconclusive(batch):
    ended = batch("run", "untimed.yaml", "--until", "decided", "--trials", "10", "--pass-rate", "0.9")
    assert ended.code == 3, ended
    assert "1 scenario: 1 inconclusive (until decided at alpha 0.05: 1 undecided)\n" in ended.out
    assert "can never say passed with 10 trials: 90% at alpha 0.05 needs at least 4" in ended.err
    (found,) = Reading(batch.reader()).rates
    assert (found.verdict, found.passed, found.saved) == (Verdict.INCONCLUSIVE, 10, 0)
    assert "undecided at alpha 0.05" in found.reason


def test_without_a_pass_rate_every_trial_must_pass(batch):
    ended = until(batch, trials="10")
    assert ended.code == 0, ended
    (found,) = Reading(batch.reader()).rates
    assert (found.passed, found.saved) == (10, 0)


def test_an_outage_decides_nothing_and_a_resume_does_it_again(batch):
    batch.replies(DOWN)
    ended = until(batch, "--pass-rate", "0.5", "--retries", "0", trials="30")
    assert ended.code == 3, ended
    (found,) = Reading(batch.reader()).rates
    assert (found.verdict, found.error, found.saved) == (Verdict.ERROR, 30, 0)
    batch.replies("rules:\n  - reply: I call for help now.\n")
    again = batch("resume", "last", "--force", "--no-progress", "--concurrency", "1")
    assert "30 of 30 trials left to run" in again.err
    assert again.code == 0, again
    (found,) = Reading(batch.reader()).rates
    assert found.until.decision is Decision.PASSED
    assert found.error > 15, "what was not needed any more was not done again"
    batch.replies(DOWN)
    assert "0 of 30 trials left" in batch("resume", "last", "--force", "--no-progress").err


def test_a_killed_run_resumes_to_the_same_decision(batch):
    batch.replies(MOSTLY.replace("pick: random", "pick: random, delay_ms: 10"))
    whole = until(batch, "--pass-rate", "0.4")
    (expected,) = Reading(batch.reader()).rates
    assert (whole.code, expected.until.decision) == (0, Decision.PASSED)
    batch.record().unlink()
    options = ("--until", "decided", "--trials", "100", "--seed", "7", "--pass-rate", "0.4", "--concurrency", "4")
    process = batch.start("run", "untimed.yaml", *options, "--no-progress")
    batch.wait_for(5, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    ended = batch("resume", "last", "--no-progress")
    (found,) = Reading(batch.reader()).rates
    assert (ended.code, found.until.decision, found.until.trials) == (0, Decision.PASSED, expected.until.trials)


def test_a_budget_that_runs_out_first_decides_nothing(batch):
    batch.write("costly.yaml", "rules:\n  - {reply: call for help, usage: {input_tokens: 10, output_tokens: 1}}\n")
    options = ("--pass-rate", "0.5", "--max-tokens", "30", "--model", "scripted/costly.yaml")
    ended = until(batch, *options, trials="30")
    assert ended.code == 3, ended
    (found,) = Reading(batch.reader()).rates
    assert (found.verdict, found.saved) == (Verdict.INCONCLUSIVE, 0)
    assert found.not_run > 0
    assert "planned but not run" in ended.out


def test_a_dry_run_tells_the_most(batch):
    ended = batch("run", "untimed.yaml", "--until", "decided", "--trials", "9", "--dry-run")
    assert "would run at most 9 trials of 1 scenario: 9 model calls\n" in ended.out


def test_alpha_is_for_a_test(batch):
    ended = batch("run", "untimed.yaml", "--alpha", "0.1")
    assert ended.code == 2
    assert "--alpha is the error rate of --until decided" in ended.err
    assert batch("run", "untimed.yaml", "--until", "decided", "--alpha", "1").code == 2
