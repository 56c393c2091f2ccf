"""Checks that name what an agent did, in whole trials: the same deed by any of its names, done or only tried."""

from __future__ import annotations

import random
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from steadyhand.builtin.mocks.javascript import QuickJsSandbox
from steadyhand.engine.trial import run_trial
from steadyhand.ports.agent import Agent
from steadyhand.records.chat import ChatResponse, FinishReason, Message, ToolCall
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec
from steadyhand.records.event import ActionTaken, ServiceCalled
from steadyhand.records.run import TrialRecord
from steadyhand.records.scenario import Ask, Mock, Step
from steadyhand.runtime.mocks import MockTable
from steadyhand.runtime.runtime import AgentRuntime
from steadyhand.testing import ScriptedChatModel
from support.agents import a_trial, an_agent
from support.desk import serving_desk
from support.trial import HERE, a_scenario, calls, says

pytestmark = pytest.mark.usefixtures("forked_agents")

P, F, I, E = "passed", "failed", "inconclusive", "error"  # noqa: E741
NAMES = [
    "bank_transfer", "bank.transfer", "Bank-Transfer", "BANK_TRANSFER", "transfer", "mcp__bank__transfer",
    "bankTransfer", "bank/transfer", "Bank-transfer",
]  # fmt: skip
BANK = ("bank", "transfer")
STRICT = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"], "additionalProperties": False}


async def tried(
    folder: Path,
    agent: Agent,
    checks: list[dict[str, Any]],
    mocked: tuple[tuple[str | None, str], ...] = (BANK,),
    *,
    parameters: dict[str, Any] | None = None,
    timeout_ms: float | None = None,
    delay_ms: float = 0.0,
) -> TrialRecord:
    mocks = [
        Mock(service=service, method=method, place=HERE, response="ok", parameters=parameters, delay_ms=delay_ms)
        for service, method in mocked
    ]
    specs = tuple(
        EvaluationSpec(type=check["type"], place=HERE, params={key: check[key] for key in check if key != "type"})
        for check in checks
    )
    task = Ask(messages=(Message(role="user", content="go"),))
    step = Step(index=0, name="one", place=HERE, task=task, evaluations=specs, timeout_ms=timeout_ms)
    scenario = msgspec.structs.replace(a_scenario(mocks=mocks), steps=(step,))
    parts = a_trial(folder, scenario=scenario, agent=agent).parts
    table = MockTable(mocks, scripts=QuickJsSandbox(), random=random.Random(7), clock=parts.clock)
    parts.services = AgentRuntime(mocks=table)
    return await run_trial(parts)


def own(record: TrialRecord) -> list[EvaluationResult]:
    return [found for found in record.evaluations if found.type not in ("reply", "time_limit")]


def verdicts(record: TrialRecord) -> list[str]:
    return [found.verdict.value for found in own(record)]


def runtime(folder: Path, *answers: ChatResponse, **options: Any) -> Agent:
    return an_agent("runtime", folder, model=ScriptedChatModel(answers), options=options)


def never(name: str, **more: Any) -> list[dict[str, Any]]:
    """Both ways to forbid it, and two to ask for it."""
    return [
        {"type": "trajectory_contains_action", "action": name, "max_count": 0, **more},
        {"type": "sequence", "rules": [{"never": {"action": name, **more}}]},
        {"type": "trajectory_contains_action", "action": name, **more},
        {"type": "sequence", "rules": [{"always": {"action": name, **more}}]},
    ]


@pytest.mark.parametrize("name", NAMES)
async def test_every_name_of_a_tool_finds_what_was_done_with_it(tmp_path, name):
    agent = runtime(tmp_path, calls(("bank_transfer", {"to": "ann"})), says("done"))
    record = await tried(tmp_path, agent, never(name))
    assert verdicts(record) == [F, F, P, P], [found.message for found in record.evaluations]


async def test_a_tool_call_and_the_service_call_behind_it_count_once(tmp_path):
    agent = runtime(tmp_path, calls(("bank_transfer", {"to": "ann"})), says("done"))
    once = {"min_count": 1, "max_count": 1}
    checks = [
        {"type": "trajectory_contains_action", "action": "bank.transfer", **once},
        {"type": "service_called", "service": "bank", "method": "transfer", **once},
        {"type": "trajectory_contains_action", "action": "transfer", "min_count": 2},
    ]
    record = await tried(tmp_path, agent, checks)
    assert verdicts(record) == [P, P, F]
    (taken,) = [event for event in record.events if isinstance(event, ActionTaken)]
    (call,) = [event for event in record.events if isinstance(event, ServiceCalled)]
    assert call.action_id == taken.id


MALFORMED = ToolCall(id="m", name="bank_transfer", arguments={}, raw='{"to": ')


@pytest.mark.parametrize(
    ("call", "name", "status"),
    [
        (("delete_account", {"id": 1}), "delete_account", "rejected"),
        (("delete_account", {"id": 1}), "deleteAccount", "rejected"),
        (("bank_transfer", {}), "bank.transfer", "invalid"),
        (("bank_transfer", {"to": 3}), "transfer", "invalid"),
        (MALFORMED, "Bank-Transfer", "invalid"),
    ],
)
async def test_what_was_only_tried_breaks_a_prohibition_and_satisfies_nothing(tmp_path, call, name, status):
    checks = [*never(name), *never(name, status=status), *never(name, status="any"), *never(name, status="success")]
    record = await tried(tmp_path, runtime(tmp_path, calls(call), says("no")), checks, parameters=STRICT)
    (taken,) = [event for event in record.events if isinstance(event, ActionTaken)]
    assert taken.status == status
    missed = I if status == "rejected" else P  # what was never offered proves nothing
    assert verdicts(record) == [F, F, F, F, F, F, P, P, F, F, P, P, missed, missed, F, F]
    assert not [event for event in record.events if isinstance(event, ServiceCalled)]


async def test_arguments_that_cannot_be_read_may_have_been_these(tmp_path):
    checks = never("transfer", params={"to": "ann"})
    record = await tried(tmp_path, runtime(tmp_path, calls(MALFORMED), says("no")), checks, parameters=STRICT)
    assert verdicts(record)[:2] == [I, I]
    assert "its parameters are unknown: they were not reported, or are not a JSON object" in own(record)[0].message


async def test_a_call_that_the_model_corrected_satisfies_what_asks_for_it(tmp_path):
    agent = runtime(tmp_path, calls(MALFORMED), calls(("bank_transfer", {"to": "ann"})), says("done"))
    once = {"type": "trajectory_contains_action", "action": "transfer", "min_count": 1, "max_count": 1}
    record = await tried(tmp_path, agent, [*never("transfer", params={"to": "ann"}), once], parameters=STRICT)
    assert verdicts(record) == [F, F, P, P, P], [found.message for found in own(record)]


async def test_what_must_follow_a_name_follows_all_that_have_it(tmp_path):
    answers = calls(("bank_transfer", {})), calls(("list_files", {})), calls(("shop_transfer", {})), says("done")
    rules = [{"always": {"action": "list_files", "after": "transfer"}}]
    twice = (BANK, ("shop", "transfer"))
    record = await tried(tmp_path, runtime(tmp_path, *answers), [{"type": "sequence", "rules": rules}], twice)
    assert verdicts(record) == [F]


async def test_a_call_that_was_cut_off_may_have_succeeded(tmp_path):
    agent = runtime(tmp_path, calls(("bank_transfer", {})), says("done"))
    checks = [
        {"type": "trajectory_contains_action", "action": "transfer", "status": "success", "max_count": 0},
        {"type": "service_called", "service": "bank", "status": "success", "max_count": 0},
    ]
    record = await tried(tmp_path, agent, checks, timeout_ms=100, delay_ms=60_000)
    assert verdicts(record) == [I, I]


async def test_a_call_beyond_the_limit_of_steps_was_tried(tmp_path):
    agent = runtime(tmp_path, calls(("bank_transfer", {})), max_steps=1)
    record = await tried(tmp_path, agent, never("transfer"))
    assert verdicts(record) == [F, F, F, F]
    assert [event.status for event in record.events if isinstance(event, ActionTaken)] == ["rejected"]


async def test_a_call_in_an_answer_that_broke_off_was_tried(tmp_path):
    cut = msgspec.structs.replace(
        calls(("bank_transfer", {"to": "ann"}), text="I will"), finish_reason=FinishReason.LENGTH
    )
    record = await tried(tmp_path, runtime(tmp_path, cut), never("transfer"))
    assert verdicts(record)[:2] == [F, F]
    assert [event.status for event in record.events if isinstance(event, ActionTaken)] == ["interrupted"]


async def test_a_call_that_a_time_limit_cut_off_was_tried(tmp_path):
    agent = runtime(tmp_path, calls(("bank_transfer", {})), says("done"))
    record = await tried(tmp_path, agent, never("transfer"), timeout_ms=100, delay_ms=60_000)
    assert verdicts(record) == [F, F, F, F]
    assert [event.status for event in record.events if isinstance(event, ActionTaken)] == ["interrupted"]
    assert [event.outcome for event in record.events if isinstance(event, ServiceCalled)] == ["interrupted"]


@pytest.mark.parametrize("name", ["banc_transfer", "wire", "shop.transfer", "transfers"])
async def test_a_name_that_nobody_offered_proves_nothing(tmp_path, name):
    record = await tried(tmp_path, runtime(tmp_path, says("hello")), never(name))
    assert verdicts(record) == [I, I, F, F]
    for found in own(record):
        assert f"{name} was never offered to the agent (offered: bank.transfer, list_files" in found.message


async def test_what_was_offered_and_not_done_was_not_done(tmp_path):
    checks = [*never("transfer"), *never("write_file")]
    record = await tried(tmp_path, runtime(tmp_path, says("hello")), checks)
    assert verdicts(record) == [P, P, F, F] * 2


@pytest.mark.parametrize(
    ("check", "verdict", "said"),
    [
        ({"service": "banc", "max_count": 0}, I, "did you mean bank"),
        ({"service": "bank", "method": "tranfer", "max_count": 0}, I, "bank.tranfer was never offered"),
        ({"method": "tranfer", "max_count": 0}, I, "tranfer was never offered"),
        ({"service": "banc"}, F, "banc was never offered"),
        ({"service": "bank", "max_count": 0}, P, "never called"),
        ({"service": "BANK", "method": "Trans-Fer", "max_count": 0}, P, "never called"),
    ],
)
async def test_a_service_that_nobody_offered_proves_nothing(tmp_path, check, verdict, said):
    record = await tried(tmp_path, runtime(tmp_path, says("hello")), [{"type": "service_called", **check}])
    (found,) = own(record)
    assert (found.verdict.value, said in found.message) == (verdict, True), found.message


async def test_a_service_that_was_not_offered_and_tried_all_the_same(tmp_path):
    checks = [
        {"type": "service_called", "service": "mail", "max_count": 0},
        {"type": "service_called", "service": "mail", "method": "send", "max_count": 0},
        {"type": "service_called", "service": "mail"},
    ]
    record = await tried(tmp_path, runtime(tmp_path, calls(("mail_send", {})), says("no")), checks)
    assert verdicts(record) == [F, F, F]


async def test_a_name_that_could_mean_two_is_an_error_if_it_is_asked_for_and_both_if_it_is_forbidden(tmp_path):
    agent = runtime(tmp_path, calls(("shop_transfer", {})), says("done"))
    record = await tried(tmp_path, agent, never("transfer") + never("shop.transfer") + never("bank.transfer"),
                         (BANK, ("shop", "transfer")))  # fmt: skip
    assert verdicts(record) == [F, F, E, E, F, F, P, P, P, P, F, F]
    for found in own(record)[2:4]:
        assert "transfer could mean bank.transfer or shop.transfer; name it in full" in found.message


async def test_an_ambiguous_name_is_an_error_whatever_was_done(tmp_path):
    record = await tried(tmp_path, runtime(tmp_path, says("hello")), never("transfer"), (BANK, ("shop", "transfer")))
    assert verdicts(record) == [P, P, E, E]


RULES = [
    ({"before": ["list_files", "transfer"]}, F),
    ({"never_until": {"action": "bank.transfer", "until": "list_files"}}, F),
    ({"before": ["list_files", "wire"]}, I),
    ({"always": {"action": "list_files", "after": "wire"}}, I),
    ({"within": {"action": "list_files", "after": "wire", "ms": 500}}, I),
    ({"never_until": {"action": "wire", "until": "list_files"}}, I),
]


@pytest.mark.parametrize(("rule", "verdict"), RULES)
async def test_rules_about_what_was_tried_and_what_was_not_offered(tmp_path, rule, verdict):
    agent = runtime(tmp_path, calls(MALFORMED), says("no"))
    record = await tried(tmp_path, agent, [{"type": "sequence", "rules": [rule]}])
    assert verdicts(record) == [verdict], record.evaluations[0].message


SOURCE = """
import time

async def calling(message, get_service, action):
    await get_service("bank").transfer(to="ann")
    action("transfer", {"to": "ann"})
    return "done"

async def guessing(message, get_service, action):
    try:
        await get_service("mail").send(to="ann")
    except Exception:
        pass
    return "sorry"

async def repeating(message, get_service, action, trial):
    began = time.monotonic()
    await get_service("bank").transfer(to="ann")
    await get_service("bank").transfer(to="bob")
    action("transfer", {"for": "both"}, duration_ms=(time.monotonic() - began) * 1000 + 1)
    return "done"

def returning(message):
    call = {"id": "1", "type": "function", "function": {"name": "Bank-transfer", "arguments": "{\\"to\\": \\"ann\\"}"}}
    bad = {"id": "2", "type": "function", "function": {"name": "wipe", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call, bad]},
        {"role": "tool", "tool_call_id": "1", "content": "{\\"done\\": true}"},
        {"role": "assistant", "content": "done"},
    ]
"""


def python(folder: Path, name: str) -> Agent:
    (folder / "mine.py").write_text(SOURCE)
    return an_agent(f"python:./mine.py:{name}", folder, options={"in_process": True})


@pytest.mark.parametrize("name", NAMES)
async def test_what_a_python_agent_reports_and_calls_is_one_deed(tmp_path, name):
    once = {"type": "trajectory_contains_action", "action": name, "min_count": 1, "max_count": 1}
    record = await tried(tmp_path, python(tmp_path, "calling"), [*never(name), once])
    assert verdicts(record) == [F, F, P, P, P], [found.message for found in record.evaluations]


async def test_a_service_that_a_python_agent_guessed_was_tried(tmp_path):
    checks = [
        {"type": "service_called", "service": "mail", "max_count": 0},
        {"type": "service_called", "service": "mail"},
        *never("mail.send"),
        {"type": "service_called", "service": "post", "max_count": 0},
        {"type": "trajectory_contains_action", "action": "wipe", "max_count": 0},
    ]
    record = await tried(tmp_path, python(tmp_path, "guessing"), checks)
    assert [event.outcome for event in record.events if isinstance(event, ServiceCalled)] == ["rejected"]
    # Its own tools are not known, and it reports what it does: there, absence decides.
    assert verdicts(record) == [F, F, F, F, F, F, I, P]


async def test_a_returned_list_of_messages(tmp_path):
    checks = [
        *never("bank_transfer"),
        *never("transfer"),
        *never("wipe"),
        *never("wipe", status="success"),
        *never("x"),
    ]
    record = await tried(tmp_path, python(tmp_path, "returning"), checks)
    assert [event.status for event in record.events if isinstance(event, ActionTaken)] == ["unknown", "unknown"]
    assert verdicts(record) == [*[F, F, P, P] * 3, I, I, I, I, P, P, F, F]
    assert "how wipe ended is unknown" in own(record)[12].message


async def test_a_call_that_an_action_repeats_is_still_one_action(tmp_path):
    checks = [
        {"type": "trajectory_contains_action", "action": "transfer", "min_count": 1, "max_count": 1},
        {"type": "trajectory_contains_action", "action": "transfer", "min_count": 2},
        {"type": "service_called", "method": "transfer", "min_count": 2, "max_count": 2},
        {"type": "trajectory_contains_action", "action": "transfer", "params": {"to": "bob"}, "max_count": 0},
    ]
    record = await tried(tmp_path, python(tmp_path, "repeating"), checks)
    assert verdicts(record) == [P, F, P, F], [found.message for found in own(record)]


PROGRAM = """
import json, sys
for line in sys.stdin:
    for said in (
        {"type": "action", "name": "transfer", "params": {"to": "ann"}, "status": "rejected"},
        {"type": "call", "service": "mail", "method": "send", "id": 1, "params": {}},
    ):
        print(json.dumps(said), flush=True)
    sys.stdin.readline()
    print(json.dumps({"type": "reply", "text": "done"}), flush=True)
"""


async def test_a_command_agent_says_how_it_ended(tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    agent = an_agent(f"command:{shlex.quote(sys.executable)} ./mine.py", tmp_path)
    checks = [
        *never("bank.transfer"),
        {"type": "service_called", "service": "mail", "max_count": 0},
        *never("mail_send"),
    ]
    record = await tried(tmp_path, agent, checks)
    assert verdicts(record) == [F, F, F, F, F, F, F, F, F], [found.message for found in record.evaluations]


async def test_an_http_agent_whose_answer_lists_calls_without_outcomes(tmp_path):
    async with serving_desk() as desk:
        listed = [{"name": "mcp__bank__transfer", "arguments": {"to": "ann"}}]
        desk.answers["POST", "/chat"] = {"text": "done", "calls": listed}
        options = {"reply": "text", "tool_calls": "calls"}
        agent = an_agent(f"http:{desk.url}/chat", tmp_path, options=options)
        checks = [*never("transfer"), *never("BANK_TRANSFER"), *never("transfer", status="success")]
        record = await tried(tmp_path, agent, checks)
    assert [event.status for event in record.events if isinstance(event, ActionTaken)] == ["unknown"]
    assert verdicts(record) == [F, F, P, P, F, F, P, P, I, I, I, I]
