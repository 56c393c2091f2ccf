"""What is not an answer, as a user meets it: thoughts of every kind of agent, and what is passed over."""

from __future__ import annotations

import json

import pytest

SCENARIO = """\
id: thinks
name: Thinks first
description: The words are in the thought only.
environment: {type: local}
run:
  - input: What now?
    evaluations:
      - {type: regex_match, pattern: "call an ambulance"}
      - {type: not_contains, pattern: stay home}
judgment: {strategy: all_pass}
"""
THOUGHT = "<think>call an ambulance? Or stay home?</think>"
AGENT = f"""\
import json
input()
print(json.dumps({{"type": "reply", "text": {THOUGHT!r} + "Sleep first."}}), flush=True)
"""
CALLABLE = f"def reply(message):\n    return {THOUGHT!r} + 'Call an ambulance.'\n"


def outcome(shell, *args):
    ended = shell("run", "one.scenario.yaml", "--no-progress", "--json", "out.json", *args)
    (trial,) = json.loads((shell.folder / "out.json").read_text())["trials"]
    thoughts = [entry["content"] for entry in trial["trajectory"] if entry["type"] == "thought"]
    said = [message["content"] for message in trial["transcript"] if message["role"] == "assistant"]
    return ended, trial, thoughts, said


@pytest.mark.parametrize(
    ("agent", "said", "verdict"),
    [
        ("python:agent.py:reply", "Call an ambulance.", "passed"),
        ("command:python3 {folder}/agent_program.py", "Sleep first.\n", "failed"),
        ("model", "Call an ambulance.", "passed"),
        ("runtime", "Call an ambulance.", "passed"),
    ],
)
def test_thoughts_of_an_agent_are_no_answer(shell, agent, said, verdict):
    shell.write("one.scenario.yaml", SCENARIO)
    shell.write("agent.py", CALLABLE)
    shell.write("agent_program.py", AGENT)
    shell.write("replies.yaml", f'rules:\n  - reply: "{THOUGHT}Call an ambulance."\n')
    model = ("--model", "scripted/replies.yaml") if agent in ("model", "runtime") else ()
    _, trial, thoughts, answers = outcome(shell, "--agent", agent.format(folder=shell.folder), *model)
    assert (trial["verdict"], thoughts, [each.strip() for each in answers]) == (
        verdict,
        ["call an ambulance? Or stay home?"],
        [said.strip()],
    )


def test_a_model_that_only_thinks_fails_and_its_thought_is_shown_folded(shell):
    shell.write("one.scenario.yaml", SCENARIO)
    shell.write("replies.yaml", 'rules:\n  - reply: "<think>call an ambulance"\n')
    ended, trial, thoughts, answers = outcome(shell, "--agent", "model", "--model", "scripted/replies.yaml")
    assert (ended.code, trial["verdict"], answers, thoughts) == (1, "failed", [""], ["call an ambulance"])
    assert {each["message"] for each in trial["evaluations"]} == {"the reply is empty"}
    assert "thought    call an ambulance (17 characters)" in ended.out
    assert "assistant  (no text)" in ended.out


def test_a_stored_answer_that_still_holds_its_thought_is_judged_without_it(shell):
    shell.write("one.scenario.yaml", SCENARIO)
    shell.write("replies.yaml", f'rules:\n  - reply: "{THOUGHT}Call an ambulance."\n')
    shell.write("steadyhand.toml", '[providers.scripted]\nreasoning_tags = "none"\n')
    _, trial, thoughts, answers = outcome(shell, "--agent", "model", "--model", "scripted/replies.yaml")
    assert (trial["verdict"], thoughts, answers) == ("failed", [], [f"{THOUGHT}Call an ambulance."])
    (record,) = (shell.folder / ".steadyhand/runs").glob("*.sqlite")
    shell.write("steadyhand.toml", "")
    shell.write("one.scenario.yaml", SCENARIO.replace("stay home", "or stay home"))
    shell("rejudge", record.stem, "--no-progress", "--json", "again.json")
    (again,) = json.loads((shell.folder / "again.json").read_text())["trials"]
    assert [each["verdict"] for each in again["evaluations"]] == ["passed", "passed"], again["evaluations"]


def test_a_folder_with_other_yaml_says_what_it_passed_over(shell):
    shell.write("s/one.scenario.yaml", SCENARIO)
    shell.write("s/deploy.yaml", "kind: Deployment\n")
    shell.write("replies.yaml", "rules:\n  - reply: Call an ambulance.\n")
    note = "note: skipped 1 YAML file (not a scenario, matrix or rubric): s/deploy.yaml"
    for command in ("validate", "list", "lint"):
        assert note in shell(command, "s").err.splitlines(), command
    ended = shell("run", "s", "--agent", "model", "--model", "scripted/replies.yaml")
    assert ended.code == 0
    assert note in ended.err
