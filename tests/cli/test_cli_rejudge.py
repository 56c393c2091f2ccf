"""Rejudging stored trials: what is asked, what is kept, and what is no longer available."""

import json
import signal

import pytest

from steadyhand.store.reader import RunReader, list_runs

JUDGED = """\
id: polite
name: Polite
description: A judge decides.
agent: model
environment: {{type: local}}
trials: {trials}
run:
  - input: {input}
    evaluations:
      - {{type: llm_judge, prompt: {prompt}, expected: "yes"}}
      - {{type: string_contains, value: {value}}}
      - {{type: execution_time, max_duration_ms: {limit}}}
judgment: {{strategy: all_pass}}
"""
YES = 'rules:\n  - json: {reasoning: Fine., judgment: "yes", confidence: 0.9}\n'
NO = 'rules:\n  - json: {reasoning: Rude., judgment: "no", confidence: 0.1}\n'
FILES = """\
id: files
name: Files
description: A program writes a file.
environment: {type: local}
run:
  - lang: bash
    code: echo right > answer.txt; echo done
    evaluations:
      - {type: llm_judge, prompt: Is the file right?, expected: "yes"}
      - {type: llm_judge, prompt: Is the reply right?, expected: "yes", looks_at: [messages]}
judgment: {strategy: all_pass}
"""


def scenario(shell, **changed):
    values = {"trials": 2, "input": "Hello", "prompt": "Is it polite?", "value": "hello", "limit": 60000, **changed}
    shell.write("one.scenario.yaml", JUDGED.format(**values))


@pytest.fixture
def stored(shell):
    """A run of two trials, both passed, whose model no longer exists."""
    scenario(shell)
    shell.write("replies.yaml", "rules:\n  - reply: Why hello.\n")
    shell.write("yes.yaml", YES)
    shell.write("no.yaml", NO)
    ended = shell(
        *("run", "one.scenario.yaml", "--model", "scripted/replies.yaml", "--judge", "scripted/yes.yaml"),
        "--no-progress",
    )
    assert ended.code == 0, ended
    (shell.folder / "replies.yaml").unlink()
    return shell


def rejudge(shell, *options):
    """The exit code, the report, and the record."""
    ended = shell("rejudge", "last", "--no-progress", "--json", "again.json", "--transcript", "none", *options)
    file = shell.folder / "again.json"
    return ended, json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def verdicts(report):
    return [
        {each["type"]: (each["verdict"], each["message"]) for each in trial["evaluations"]}
        for trial in report["trials"]
    ]


def test_another_judge_gives_other_verdicts_and_no_agent_is_run(stored):
    (before,) = list_runs(stored.folder / ".steadyhand" / "runs")
    ended, report = rejudge(stored, "--judge", "scripted/no.yaml")
    assert ended.code == 1, ended
    assert report["run"]["origin"] == before.id
    assert f"judged again from run {before.id}" in ended.out
    assert [trial["verdict"] for trial in report["trials"]] == ["failed", "failed"]
    assert report["trials"][0]["transcript"][-1]["content"] == "Why hello."
    assert report["summary"]["cost"]["by_purpose"].keys() == {"judge"}, "the agent's calls were paid for in the origin"
    assert f"from {before.id}" in stored("runs").out
    assert before.id in stored("show", "last").out
    old = RunReader.open(before.path)
    assert [trial.judged.verdict for trial in old.trials()] == ["passed", "passed"], "the origin stays as it was"


def test_the_same_judge_comes_to_the_same_and_keeps_the_other_checks(stored):
    (before,) = list_runs(stored.folder / ".steadyhand" / "runs")
    ended, _ = rejudge(stored)
    assert ended.code == 0, ended
    after = next(entry for entry in list_runs(stored.folder / ".steadyhand" / "runs") if entry.id != before.id)
    for old, new in zip(RunReader.open(before.path).trials(), RunReader.open(after.path).trials(), strict=True):
        assert [each.verdict for each in new.evaluations] == [each.verdict for each in old.evaluations]
        assert new.evaluations[1:] == old.evaluations[1:], "kept as recorded"
        assert new.evaluations[0].judge.prompt_hash == old.evaluations[0].judge.prompt_hash
        assert (new.judged.latency_ms, new.seed) == (old.judged.latency_ms, old.seed)


def test_the_scenario_as_it_is_now(stored):
    """A changed question is asked, a changed check on the reply runs, and a check on what is gone does not."""
    scenario(stored, prompt="Is it warm?", value="goodbye", limit=1)
    ended, report = rejudge(stored)
    assert ended.code == 1, ended
    (first, _) = verdicts(report)
    assert first["llm_judge"][0] == "passed"
    assert first["string_contains"][0] == "failed"
    assert first["execution_time"][0] == "inconclusive"
    assert "what it reads is not stored" in first["execution_time"][1]


def test_an_answer_to_another_question_is_not_judged(stored):
    scenario(stored, input="Insult me")
    ended, report = rejudge(stored)
    assert ended.code == 3, ended
    assert {trial["verdict"] for trial in report["trials"]} == {"inconclusive"}
    assert "no longer asks what" in report["trials"][0]["reason"]
    assert not report["summary"]["cost"]["by_purpose"], "nobody was asked"


def test_a_file_that_was_not_stored_is_not_made_up(shell):
    shell.write("files.scenario.yaml", FILES)
    shell.write("yes.yaml", YES)
    ended = shell("run", "files.scenario.yaml", "--judge", "scripted/yes.yaml", "--no-progress")
    assert ended.code == 0, ended
    ended, report = rejudge(shell)
    assert ended.code == 3, ended
    found = [(each["verdict"], each["message"]) for each in report["trials"][0]["evaluations"]]
    assert found[0][0] == "inconclusive"
    assert "content of the file answer.txt" in found[0][1]
    assert found[1][0] == "passed"


def test_a_trial_in_error_stays_one(shell):
    scenario(shell)
    shell.write("replies.yaml", "rules:\n  - fail: {kind: connect}\n")
    shell.write("yes.yaml", YES)
    options = ("--model", "scripted/replies.yaml", "--judge", "scripted/yes.yaml", "--retries", "0", "--no-progress")
    assert shell("run", "one.scenario.yaml", *options).code == 3
    ended, report = rejudge(shell)
    assert ended.code == 3, ended
    assert {trial["verdict"] for trial in report["trials"]} == {"error"}


def test_a_rejudged_run_can_be_judged_again(stored):
    rejudge(stored, "--judge", "scripted/no.yaml")
    ended, report = rejudge(stored, "--judge", "scripted/yes.yaml")
    assert ended.code == 0, ended
    assert report["run"]["origin"] != report["run"]["id"]
    assert report["summary"]["cost"]["calls"] == 2


def test_trials_the_origin_never_ran_are_not_passed(shell):
    """Two of three trials are there: nothing failed, and nothing is reported as passed."""
    scenario(shell, trials=3)
    shell.write("replies.yaml", "rules:\n  - reply: Why hello.\n    usage: {input_tokens: 5, output_tokens: 5}\n")
    shell.write("yes.yaml", YES)
    options = ("--model", "scripted/replies.yaml", "--judge", "scripted/yes.yaml", "--no-progress")
    ended = shell("run", "one.scenario.yaml", *options, "--max-tokens", "1", "--concurrency", "1")
    assert ended.code == 3, ended
    ended, report = rejudge(shell)
    assert ended.code == 3, ended
    assert "trials are missing from the record of that run" in ended.err
    assert report["summary"]["not_run"] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("nothing",), "no run 'nothing'"),
        (("last", "--judge", "nobody"), "has no provider"),
        (("last", "--rubric", "missing"), "rubric"),
    ],
)
def test_what_cannot_start(stored, options, said):
    ended = stored("rejudge", *options, "--no-progress")
    assert (ended.code, said in ended.err) == (2, True), ended


def test_a_scenario_that_is_gone(stored):
    stored.write(
        "one.scenario.yaml",
        JUDGED.format(trials=1, input="x", prompt="y", value="z", limit=1).replace("id: polite", "id: other"),
    )
    ended = stored("rejudge", "last", "--no-progress")
    assert (ended.code, "no longer in the files" in ended.err) == (2, True), ended


def test_killed_and_resumed(stored):
    """The agent's part is read from the original run again, and no trial is judged twice."""
    slow = YES.replace("  - json", "  - delay_ms: 30\n    json")
    stored.write(
        "one.scenario.yaml", (stored.folder / "one.scenario.yaml").read_text().replace("trials: 2", "trials: 40")
    )
    stored.write("replies.yaml", "rules:\n  - reply: Why hello.\n")
    options = ("--model", "scripted/replies.yaml", "--judge", "scripted/yes.yaml", "--no-progress")
    assert stored("run", "one.scenario.yaml", *options).code == 0
    (stored.folder / "replies.yaml").unlink()
    stored.write("slow.yaml", slow)
    runs = stored.folder / ".steadyhand" / "runs"
    known = set(runs.glob("*.sqlite"))
    process = stored.start("rejudge", "last", "--judge", "scripted/slow.yaml", "--no-progress", "--concurrency", "1")
    record = None
    while process.poll() is None:
        fresh = set(runs.glob("*.sqlite")) - known
        record = fresh.pop() if fresh else None
        try:
            if record is not None and len(RunReader.open(record).rows()) >= 3:
                break
        except Exception:  # noqa: BLE001 - it is being made
            continue
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {trial.key: trial for trial in RunReader.open(record).trials()}
    assert 3 <= len(before) < 40
    ended = stored("resume", record.stem, "--no-progress")
    assert ended.code == 0, ended
    after = {trial.key: trial for trial in RunReader.open(record).trials()}
    assert len(after) == 40
    assert all(after[key] == trial for key, trial in before.items())
    assert RunReader.open(record).header.origin is not None
