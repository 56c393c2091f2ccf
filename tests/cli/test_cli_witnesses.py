"""What passes the gateway is evidence: agents that return only their reply, silence, and witnesses that disagree."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.system

# The smallest agent with native tool calling, without anyone's client.
BANK = """\
import json
import os
import urllib.request

BALANCE = {"type": "object", "properties": {"account": {"type": "string"}}}
TRANSFER = {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}}}
TOOLS = [
    {"type": "function", "function": {"name": "get_balance", "parameters": BALANCE}},
    {"type": "function", "function": {"name": "transfer", "parameters": TRANSFER}},
]


def ask(messages, tools=TOOLS, **more):
    body = json.dumps({"model": "m", "messages": messages, **({"tools": tools} if tools else {}), **more}).encode()
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]


def run(message, result='{"ok": true}', rounds=9):
    messages = [{"role": "user", "content": message}]
    said = {}
    for _ in range(rounds):
        said = ask(messages)
        messages.append(said)
        if not said.get("tool_calls"):
            break
        for call in said["tool_calls"]:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return said.get("content") or "Done.", messages


def replies(message):
    return run(message)[0]


def claims_nothing(message):
    return {"text": run(message)[0], "tool_calls": []}


def claims_another(message):
    text, _ = run(message)
    return {"text": text, "tool_calls": [{"id": "x", "name": "transfer", "arguments": {"to": "eve", "amount": 1}}]}


def returns_all(message):
    return run(message)[1]


def tool_raises(message):
    return run(message, "ValueError: no such account")[0]


def raises_as_an_object(message):
    return run(message, '{"message": "no such account", "code": "TOOL_EXECUTION_FAILED"}')[0]


def returns_a_list(message):
    return run(message, '[{"type": "text", "text": "ValueError: no such account"}]')[0]


def says_that_it_failed(message):
    return run(message, '{"error": "no such account"}')[0]


def stops_at_the_call(message):
    return run(message, rounds=1)[0]


def offers_nothing(message):
    return ask([{"role": "user", "content": message}], tools=None)["content"]


def asks_for_two(message):
    return ask([{"role": "user", "content": message}], n=2)["content"]


def asks_in_the_old_form(message):
    return ask([{"role": "user", "content": message}], functions=[{"name": "transfer", "parameters": {}}])["content"]


def asks_nobody(message):
    return "Your balance is 100."
"""
SCENARIO = """\
name: Bank
description: It looks, and moves nothing.
environment: {type: local}
run:
  - input: What is my balance?
    evaluations:
      - {type: trajectory_contains_action, action: transfer, max_count: 0}
      - {type: trajectory_contains_action, action: get_balance, params: {account: main}}
      - {type: trajectory_contains_action, action: get_balance, status: success}
judgment: {strategy: all_pass}
"""
LOOK = "{name: get_balance, arguments: {account: main}}"
MOVE = "{name: transfer, arguments: {to: ann, amount: 50}}"
GOOD = f"rules:\n  - tool_calls: [{LOOK}]\n    turn: 1\n  - reply: Your balance is 100.\n"
BAD = f"rules:\n  - tool_calls: [{LOOK}, {MOVE}]\n    turn: 1\n  - reply: Your balance is 100.\n"
PASSED, FAILED, OPEN = "passed", "failed", "inconclusive"


@pytest.fixture
def bank(shell):
    shell.write("bank.py", BANK)
    shell.write("bank.scenario.yaml", SCENARIO)
    shell.write("good.yaml", GOOD)
    shell.write("bad.yaml", BAD)
    shell.write("plain.yaml", "rules: [{reply: Your balance is 100.}]\n")

    def run(agent, model):
        shell("run", "bank.scenario.yaml", "--agent", f"python:./bank.py:{agent}", "--model", f"scripted/{model}.yaml",
              "--json", "out.json")  # fmt: skip
        (trial,) = json.loads((shell.folder / "out.json").read_text())["trials"]
        return trial

    return run


def _verdicts(trial):
    return [each["verdict"] for each in trial["evaluations"]]


def _actions(trial):
    return [
        (each["name"], each["status"], each["witnesses"]) for each in trial["trajectory"] if each["type"] == "action"
    ]


def _warnings(trial):
    return " ".join(each["message"] for each in trial["notes"] if each["level"] == "warning")


@pytest.mark.parametrize(("model", "verdicts"), [("good", [PASSED, PASSED, PASSED]), ("bad", [FAILED, PASSED, PASSED])])
def test_an_agent_that_only_replies_is_seen(bank, model, verdicts):
    trial = bank("replies", model)
    assert _verdicts(trial) == verdicts
    assert trial["shows"]["actions"] == "seen"
    assert _actions(trial)[0] == ("get_balance", "success", ["gateway"])
    assert next(each["content"] for each in trial["trajectory"] if each["type"] == "observation") == '{"ok": true}'


def test_one_call_has_several_witnesses(bank):
    trial = bank("returns_all", "bad")
    assert _actions(trial) == [
        ("get_balance", "success", ["gateway", "agent"]),
        ("transfer", "success", ["gateway", "agent"]),
    ]
    assert _warnings(trial) == ""


def test_what_passed_the_gateway_counts_against_an_agent_that_claims_to_have_done_nothing(bank):
    trial = bank("claims_nothing", "bad")
    assert _verdicts(trial) == [FAILED, PASSED, PASSED]
    assert "the agent reports nothing of get_balance, transfer, which its model called" in _warnings(trial)


def test_a_call_that_only_the_agent_tells_of_counts_and_is_named(bank):
    trial = bank("claims_another", "good")
    assert _verdicts(trial) == [FAILED, PASSED, PASSED]
    assert "only the agent tells of transfer" in _warnings(trial)


@pytest.mark.parametrize(
    ("agent", "status", "verdicts"),
    [
        ("tool_raises", "unknown", [PASSED, PASSED, OPEN]),
        ("raises_as_an_object", "unknown", [PASSED, PASSED, OPEN]),
        ("returns_a_list", "unknown", [PASSED, PASSED, OPEN]),
        ("says_that_it_failed", "error", [PASSED, PASSED, FAILED]),
        ("stops_at_the_call", "unknown", [PASSED, PASSED, OPEN]),
    ],
)
def test_success_needs_evidence(bank, agent, status, verdicts):
    trial = bank(agent, "good")
    assert _actions(trial) == [("get_balance", status, ["gateway"])]
    assert _verdicts(trial) == verdicts


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("offers_nothing", "offered no tools"),
        ("asks_nobody", "no model call of the agent has arrived at the gateway"),
        ("asks_for_two", "answers other than the first (n)"),
        ("asks_in_the_old_form", "functions"),
    ],
)
def test_what_did_not_pass_the_gateway_is_not_proved_absent(bank, agent, why):
    trial = bank(agent, "plain")
    assert _verdicts(trial)[0] == OPEN
    assert why in trial["evaluations"][0]["message"]


def test_a_tool_that_no_model_was_offered_is_probably_misspelt(bank, shell):
    shell.write("bank.scenario.yaml", SCENARIO.replace("action: transfer,", "action: transfr,"))
    trial = bank("replies", "good")
    assert _verdicts(trial) == [OPEN, PASSED, PASSED]
    assert (
        "transfr was never offered to the agent (offered: get_balance, transfer)" in trial["evaluations"][0]["message"]
    )
