"""Reports of real runs, of every kind, against the JSON Schema that `steadyhand schema report` prints."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from steadyhand.testing import Answer
from support.loopback import Loopback

CONVERSATION = """\
name: A talk
description: The user disagrees.
environment: {type: local}
run:
  - input: Is it safe?
    conversation:
      script: [Are you sure?]
      turn_evaluations:
        - {type: string_contains, value: sure}
judgment: {strategy: all_pass}
"""
SERVICE = """\
id: orders
name: A mocked service
description: The agent looks an order up.
environment: {type: local}
setup:
  mocks:
    - {service: orders, method: find, response: {id: 7}}
run:
  - input: Find my order.
    evaluations:
      - {type: llm_judge, prompt: Was it found?, expected: "yes"}
judgment: {strategy: all_pass}
trials: 2
"""
MATRIX = """\
base_scenario: orders.scenario.yaml
matrix:
  - {parameter: "setup.mocks[0].response.id", values: [7, 8]}
"""
REPLIES = """\
rules:
  - {purpose: judge, json: {judgment: "yes", confidence: 0.9, reasoning: It was.}}
  - {tool_results: true, echo: true}
  - {contains: Find my order, tool_calls: [{name: orders_find, arguments: {}}]}
  - {contains: one, reply: call for help}
  - {contains: two, reply: wait}
  - {contains: safe, reply: I am sure.}
  - {contains: sure, reply: It is.}
"""


def checked(shell, file: str):
    """The report, after checking that it matches the schema."""
    schema = json.loads(shell("schema", "report").out)
    Draft202012Validator.check_schema(schema)
    report = json.loads((shell.folder / file).read_text())
    Draft202012Validator(schema).validate(report)
    return report


def test_passed_failed_broken_conversation_and_matrix(shell):
    shell.replies(REPLIES)
    for number, prompt in enumerate(("one", "two", "three"), 1):
        shell.decision(f"{prompt}.yaml", id=f"SCN-C-00{number}", prompt=prompt)
    shell.write("talk.scenario.yaml", CONVERSATION)
    shell.write("orders.scenario.yaml", SERVICE)
    shell.write("orders.matrix.yaml", MATRIX)
    shell("run", ".", "--json", "r.json", "--no-progress", "--seed", "1")
    report = checked(shell, "r.json")
    verdicts = {each["id"]: each["verdict"] for each in report["scenarios"]}
    decisions = {name: verdict for name, verdict in verdicts.items() if name.startswith("SCN")}
    assert decisions == {"SCN-C-001": "passed", "SCN-C-002": "failed", "SCN-C-003": "error"}
    assert any(trial["errors"] for trial in report["trials"])
    assert any(trial["conversations"] and trial["metrics"] for trial in report["trials"])
    kinds = {entry["type"] for trial in report["trials"] for entry in trial["trajectory"]}
    assert kinds == {"action", "observation", "service_call"}
    assert any(check["judge"] for trial in report["trials"] for check in trial["evaluations"])
    (matrix,) = report["matrices"]
    assert [value["value"] for value in matrix["axes"][0]["values"]] == [7, 8]
    assert {each["trials"]["total"] for each in report["scenarios"] if each["matrix"]} == {2}


def test_a_resumed_run_with_a_trial_that_was_replaced(shell):
    answers = iter([Answer(text="I am", finish_reason="content_filter"), Answer(text="call for help")])
    shell.write("steadyhand.toml", '[prices."openai/m"]\ninput = 1.0\noutput = 2.0\n')
    shell.decision("it.yaml", id="it")
    with Loopback(lambda served: next(answers)) as server:
        shell("run", ".", "--model", "openai/m", "--json", "first.json", OPENAI_BASE_URL=server.url)
        shell("resume", "last", "--json", "again.json", OPENAI_BASE_URL=server.url)
    (first,) = checked(shell, "first.json")["trials"]
    resumed = checked(shell, "again.json")
    assert first["verdict"] == "error"
    assert resumed["run"]["prices"] == {"openai/m": {"input": 1.0, "output": 2.0}}
    assert [each["verdict"] for each in resumed["trials"][0]["replaced"]] == ["error"]


def test_a_run_that_stopped_early(shell):
    shell.write("steadyhand.toml", "")
    shell.decision("it.yaml", id="it")
    with Loopback(lambda served: Answer(text="call for help")) as server:
        limited = ("--trials", "3", "--max-tokens", "1", "--concurrency", "1", "--json", "r.json")
        shell("run", ".", "--model", "openai/m", *limited, OPENAI_BASE_URL=server.url)
    summary = checked(shell, "r.json")["summary"]
    assert (summary["total"], summary["not_run"], summary["exit_code"]) == (1, 2, 3)
