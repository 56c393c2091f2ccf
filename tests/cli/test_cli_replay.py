"""`--record`, `--replay`, `--max-tokens` and `--max-cost`, as a user runs them."""

import json

from support.shell import AGENT

SAFE = "rules:\n  - {reply: call for help, usage: {input_tokens: 90, output_tokens: 10}}\n"


def report(shell) -> dict:
    return json.loads((shell.folder / "r.json").read_text())


def test_a_recorded_run_replays_without_the_model_and_grades_no_latency(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    shell.write("b.scenario.yaml", AGENT.replace("value: hello", "value: help"))
    live = shell("run", ".", "--record", "tape", "--json", "r.json")
    assert live.code == 0, live.out + live.err
    texts = [[said["content"] for said in trial["transcript"]] for trial in report(shell)["trials"]]
    (shell.folder / "replies.yaml").unlink()

    replayed = shell("run", ".", "--replay", "tape", "--json", "r.json")
    assert replayed.code == 3, replayed.out + replayed.err
    trials = {trial["scenario"]["id"]: trial for trial in report(shell)["trials"]}
    assert (trials["b"]["verdict"], trials["SCN-C-001"]["verdict"]) == ("passed", "inconclusive")
    assert trials["SCN-C-001"]["latency_not_graded"] == ["the answer was replayed"]
    assert sorted([said["content"] for said in trial["transcript"]] for trial in trials.values()) == sorted(texts)


def test_a_call_without_a_recording_is_named_and_an_error(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    assert shell("run", "a.yaml", "--record", "tape").code == 0
    shell.decision("a.yaml", prompt="And now?")
    ended = shell("run", "a.yaml", "--replay", "tape")
    assert ended.code == 3
    assert "the recording in tape has no answer for a call of scripted/replies.yaml for the agent" in ended.err
    assert "'And now?'" in ended.err


def test_recording_and_replaying_at_once_or_over_a_recording_does_not_start(shell):
    shell.replies(SAFE)
    shell.decision("a.yaml")
    assert "cannot be used together" in shell("run", "a.yaml", "--record", "x", "--replay", "y").err
    assert "has no recording" in shell("run", "a.yaml", "--replay", "none").err
    shell("run", "a.yaml", "--record", "tape")
    again = shell("run", "a.yaml", "--record", "tape")
    assert (again.code, "already has a recording" in again.err) == (2, True)


def test_a_limit_on_tokens_stops_the_run_and_keeps_what_is_done(shell):
    shell.replies(SAFE)
    for number in range(5):
        shell.decision(f"{number}.yaml", id=f"SCN-C-{number:03}")
    ended = shell("run", ".", "--max-tokens", "200", "--concurrency", "1", "--json", "r.json")
    assert ended.code == 3
    assert "note: --max-tokens reached: 200 of 200 tokens; no more trials were started" in ended.err
    summary = report(shell)["summary"]
    assert (summary["passed"], summary["not_run"]) == (2, 3)


def test_a_limit_on_cost_needs_prices_and_keeps_them(shell):
    shell.write("replies.yaml", SAFE)
    for number in range(3):
        shell.decision(f"{number}.yaml", id=f"SCN-C-{number:03}")
    unknown = shell("run", ".", "--model", "openai/x", "--max-cost", "1", OPENAI_API_KEY="none-of-that")
    assert unknown.code == 2
    assert "--max-cost needs the price of openai/x" in unknown.err
    shell.write("steadyhand.toml", '[prices."scripted/replies.yaml"]\ninput = 1000\noutput = 1000\n')
    ended = shell("run", ".", "--model", "scripted/replies.yaml", "--max-cost", "0.15", "--concurrency", "1")
    assert ended.code == 3
    assert "note: --max-cost reached: 0.2000 of 0.15; no more trials were started" in ended.err
    assert "2 passed" in ended.out
