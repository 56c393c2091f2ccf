"""Checks on what an agent did: files, commands, actions, time and turns."""

from __future__ import annotations

import pytest

from steadyhand.records.chat import Spoiled, SpoiledBy
from steadyhand.records.event import ServiceCalled, TrajectoryStep
from steadyhand.records.result import ConversationResult, ConversationTurn, ExecutionResult, Latency

P, F, I = "passed", "failed", "inconclusive"  # noqa: E741


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ({"type": "file_exists", "path": "out.txt"}, P),
        ({"type": "file_exists", "path": "/out.txt"}, P),
        ({"type": "file_exists", "path": "./sub/../out.txt"}, P),
        ({"type": "file_exists", "path": "empty"}, P),
        ({"type": "file_exists", "path": "sub"}, F),
        ({"type": "file_exists", "path": "OUT.txt"}, F),
        ({"type": "file_exists", "path": "host"}, F),
        ({"type": "file_contains", "path": "/out.txt", "value": "HELLO"}, P),
        ({"type": "file_contains", "path": "out.txt", "value": "HELLO", "case_sensitive": True}, F),
        ({"type": "file_contains", "path": "out.txt", "value": "bye"}, F),
        ({"type": "file_contains", "path": "none.txt", "value": "bye"}, F),
        ({"type": "file_contains", "path": "host", "value": "root"}, F),
        ({"type": "file_contains", "path": "sub/bin", "value": "mark"}, P),
        ({"type": "command_exit_code_is", "command": "grep -q hello out.txt"}, P),
        ({"type": "command_exit_code_is", "command": "sh -c 'exit 3'", "expected_code": 3}, P),
        ({"type": "command_exit_code_is", "command": "sh -c 'exit 3'"}, F),
        ({"type": "command_exit_code_is", "command": "sleep 100", "expected_code": 137, "timeout_ms": 200}, F),
        ({"type": "command_exit_code_is", "command": "kill -9 $$", "expected_code": 137}, P),
    ],
)
async def test_files_and_commands(evaluate, environment, check, verdict):
    await environment.write("out.txt", b"hello\n")
    await environment.write("empty", b"")
    await environment.write("sub/bin", b"\xff\x00mark\xff")
    await environment.run("ln -s /etc/passwd host")
    result = await evaluate(check)
    assert result.verdict == verdict
    assert result.evidence is not None


async def test_without_a_workspace_nothing_exists(evaluate, environment):
    result = await evaluate({"type": "file_exists", "path": "out.txt"})
    assert result.message == "out.txt does not exist in the workspace; files there: none"
    assert not environment.workspace.exists()


async def test_a_commands_output_is_evidence(evaluate):
    check = {"type": "command_exit_code_is", "command": "echo seen; seq 100 >&2; exit 2"}
    result = await evaluate(check)
    assert result.evidence.found == "exit code 2"
    assert result.evidence.excerpt.startswith("stdout: seen\nstderr: ...")
    assert result.evidence.excerpt.endswith("99\n100")
    assert result.figures["exit_code"] == 2


def did(name: str, status: str = "success", **params: object) -> TrajectoryStep:
    return TrajectoryStep(type="action", at_ms=0, name=name, status=status, params=params)


DEEDS = (
    TrajectoryStep(type="thought", at_ms=0, content="REFUND"),
    did("SEND_EMAIL", to="ann", body={"text": "hi", "html": None}, tags=["a", "b"], urgent=True),
    TrajectoryStep(type="observation", at_ms=0, name="REFUND", content="ok"),
    did("sendEmail", "error", to="bob", count=1),
    did("lookup"),
)


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ({"action": "send-email"}, P),
        ({"action": "Send_Email", "min_count": 2}, P),
        ({"action": "send_email", "min_count": 3}, F),
        ({"action": "send_email", "max_count": 1}, F),
        ({"action": "send_email", "max_count": 2}, P),
        ({"action": "refund"}, F),
        ({"action": "refund", "max_count": 0}, P),
        ({"action": "lookup", "max_count": 0}, F),
        ({"action": "send"}, F),
        ({"action": "send_email", "status": "error"}, P),
        ({"action": "lookup", "status": "error"}, F),
        ({"action": "send_email", "status": "success", "min_count": 2}, F),
        ({"action": "send_email", "params": {"to": "ann"}}, P),
        ({"action": "send_email", "params": {"to": "ann"}, "status": "error"}, F),
        ({"action": "send_email", "params": {"to": "Ann"}}, F),
        ({"action": "send_email", "params": {"body": {"text": "hi"}}}, P),
        ({"action": "send_email", "params": {"body": {"html": None}}}, P),
        ({"action": "send_email", "params": {"body": {"missing": None}}}, F),
        ({"action": "send_email", "params": {"tags": ["a", "b"]}}, P),
        ({"action": "send_email", "params": {"tags": ["a"]}}, F),
        ({"action": "send_email", "params": {"urgent": True}}, P),
        ({"action": "send_email", "params": {"urgent": 1}}, F),
        ({"action": "send_email", "params": {"count": True}}, F),
        ({"action": "send_email", "params": {"count": 1.0}}, P),
        ({"action": "send_email", "params": {"to": "ann", "count": 1}}, F),
    ],
)
async def test_actions(evaluate, check, verdict):
    result = await evaluate({"type": "trajectory_contains_action", **check}, ExecutionResult(trajectory=DEEDS))
    assert result.verdict == verdict, result.message


@pytest.mark.parametrize("name", ["mcp__shop__refund", "shop.refund", "tools/Refund", "shop:refund", "Shop-refund"])
async def test_a_longer_name_that_ends_in_this_one_is_it(evaluate, name):
    result = ExecutionResult(trajectory=(did(name),))
    check = {"type": "trajectory_contains_action", "action": "refund"}
    assert (await evaluate({**check, "max_count": 0}, result)).verdict == F
    assert (await evaluate({"type": "sequence", "rules": [{"never": "refund"}]}, result)).verdict == F
    assert (await evaluate(check, result)).verdict == P
    assert (await evaluate({**check, "action": name, "max_count": 0}, result)).verdict == F
    assert (await evaluate({**check, "action": "fund", "max_count": 0}, result)).verdict == P


@pytest.mark.parametrize(
    ("params", "verdict"),
    [
        ({"to": "ANN"}, I),
        ({"to": "ANN ", "body": {"text": "hi"}}, I),
        ({"urgent": "true"}, I),
        ({"count": "1"}, I),
        ({"to": "eve"}, P),
        ({"to": "ANN", "body": {"text": "bye"}}, P),
        ({"count": True}, P),
    ],
)
async def test_the_absence_of_an_action_is_not_a_matter_of_spelling(evaluate, params, verdict):
    check = {"type": "trajectory_contains_action", "action": "send_email", "params": params}
    result = ExecutionResult(trajectory=DEEDS)
    never = await evaluate({**check, "max_count": 0}, result)
    assert never.verdict == verdict, never.message
    assert ("another spelling" in never.message) is (verdict == I)
    rule = {"never": {"action": "send_email", "params": params}}
    assert (await evaluate({"type": "sequence", "rules": [rule]}, result)).verdict == verdict
    assert (await evaluate(check, result)).verdict == F


ACTIONS = "the step's actions: SEND_EMAIL (success), sendEmail (error), lookup (success)"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"action": "refund"}, "refund never happened; expected at least once"),
        ({"action": "refund", "max_count": 0}, "refund never happened"),
        ({"action": "lookup", "max_count": 0}, "lookup happened once; expected never"),
        ({"action": "lookup", "min_count": 2, "max_count": 2}, "lookup happened once; expected exactly twice"),
        ({"action": "lookup", "min_count": 2, "max_count": 4}, "lookup happened once; expected 2 to 4 times"),
        ({"action": "send_email", "min_count": 0, "max_count": 1}, "send_email happened twice; expected at most once"),
        (
            {"action": "send_email", "params": {"to": "Ann"}},
            (
                "send_email happened twice, but not with params {'to': 'Ann'}: to was 'ann', not 'Ann'; "
                "expected at least once"
            ),
        ),
        (
            {"action": "send_email", "params": {"to": "ann", "tags": ["a"]}, "max_count": 0},
            "send_email happened twice, but not with params {'to': 'ann', 'tags': ['a']}: tags had 2 entries, not 1",
        ),
        (
            {"action": "lookup", "params": {"id": 4}, "status": "error"},
            (
                "lookup happened once, but not with params {'id': 4} and status error: id was not given, and its "
                "status was success; expected at least once"
            ),
        ),
        (
            {"action": "send_email", "status": "error", "min_count": 2},
            "send_email happened once with status error; expected at least twice",
        ),
    ],
)
async def test_what_was_done_and_what_was_different(evaluate, check, message):
    result = await evaluate({"type": "trajectory_contains_action", **check}, ExecutionResult(trajectory=DEEDS))
    assert result.message == f"{message}; {ACTIONS}"


async def test_an_action_that_came_too_late_is_reported(evaluate):
    late = ExecutionResult(trajectory=[did("STOP")], started_at_ms=-300)
    check = {"type": "trajectory_contains_action", "action": "STOP", "within_ms": 200}
    result = await evaluate(check, late)
    assert result.message == (
        "STOP happened once, but later than 200 ms; expected at least once; the step's actions: STOP (success)"
    )
    assert result.evidence.expected == "STOP at least once within 200 ms"
    assert result.evidence.where == "action 1 (300 ms) of this step"


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"command": "sh -c 'exit 3'", "expected_code": 3}, "\"sh -c 'exit 3'\" ended with exit code 3"),
        ({"command": "sh -c 'exit 3'"}, "\"sh -c 'exit 3'\" ended with exit code 3; expected exit code 0"),
        ({"command": "sleep 60", "timeout_ms": 50}, "'sleep 60' was killed after 50 ms; expected exit code 0"),
    ],
)
async def test_how_a_command_ended(evaluate, check, message):
    assert (await evaluate({"type": "command_exit_code_is", **check})).message == message


@pytest.mark.parametrize(
    ("check", "turns", "message"),
    [
        ({"min_turns": 1}, 1, "1 turn, expected at least 1 turn"),
        ({"max_turns": 1}, 2, "2 turns, expected at most 1 turn"),
        ({"target_range": [2, 4], "optimal_turns": 3}, 1, "1 turn, expected 2 to 4 turns (optimal 3)"),
    ],
)
async def test_how_long_a_conversation_was(evaluate, check, turns, message):
    assert (await evaluate({"type": "conversation_length", **check}, talk(turns))).message == message


async def test_actions_seen_are_evidence(evaluate):
    check = {"type": "trajectory_contains_action", "action": "send_email"}
    result = await evaluate(check, ExecutionResult(trajectory=DEEDS))
    assert result.figures == {"count": 2, "actions": 3, "first_ms": 0.0}
    assert result.evidence.where == "actions 1 (0 ms), 2 (0 ms) of this step"
    assert result.evidence.excerpt == "SEND_EMAIL (success), sendEmail (error), lookup (success)"
    nothing = await evaluate(check, ExecutionResult())
    assert (nothing.verdict, nothing.evidence.excerpt) == (F, "none")


@pytest.mark.parametrize(
    ("check", "took", "verdict"),
    [
        ({"max_duration_ms": 100}, 100.0, P),
        ({"max_duration_ms": 100}, 100.01, F),
        ({"min_duration_ms": 100}, 100.0, P),
        ({"min_duration_ms": 100}, 99.9, F),
        ({"min_duration_ms": 50, "max_duration_ms": 100}, 75.0, P),
        ({"min_duration_ms": 10, "target_duration_ms": 10}, 75.0, P),
        ({"max_duration_ms": 100, "target_duration_ms": 10}, 75.0, P),
        ({"max_duration_ms": 100}, float("nan"), I),
    ],
)
async def test_execution_time(evaluate, check, took, verdict):
    result = await evaluate({"type": "execution_time", **check}, ExecutionResult(duration_ms=took))
    assert result.verdict == verdict


async def test_the_target_is_reported(evaluate):
    check = {"type": "execution_time", "max_duration_ms": 100, "target_duration_ms": 10}
    result = await evaluate(check, ExecutionResult(duration_ms=75))
    assert result.figures == {"duration_ms": 75, "target_duration_ms": 10, "within_target": False}
    assert result.message == "took 75.0 ms (target 10 ms missed)"


def spoiled(kind, low_ms=None, high_ms=None):
    return Spoiled(kind=kind, detail=f"not cached, not replayed: {kind} once", low_ms=low_ms, high_ms=high_ms)


async def test_the_time_of_a_replayed_answer_proves_nothing(evaluate):
    check = {"type": "execution_time", "max_duration_ms": 10}
    replayed = ExecutionResult(duration_ms=1, latency=Latency(ms=1, spoiled=(spoiled(SpoiledBy.NOT_LIVE),)))
    assert (await evaluate(check, replayed)).verdict == I
    retried = ExecutionResult(duration_ms=1, latency=Latency(ms=1, spoiled=(spoiled(SpoiledBy.RETRIED),)))
    assert (await evaluate(check, retried)).verdict == P


@pytest.mark.parametrize(
    ("latency", "verdict", "tier"),
    [
        (Latency(ms=500.0), P, "target"),
        (Latency(ms=500.1), P, "acceptable"),
        (Latency(ms=1000.0), P, "acceptable"),
        (Latency(ms=2000.0), P, "critical"),
        (Latency(ms=2000.1), F, "exceeded"),
        (Latency(ms=0.0), P, "target"),
        (Latency(ms=None), I, None),
        (Latency(ms=-1.0), I, None),
        (Latency(ms=float("nan")), I, None),
        (Latency(ms=100.0, spoiled=(spoiled(SpoiledBy.RETRIED),)), I, None),
        (Latency(ms=100.0, spoiled=(spoiled(SpoiledBy.NOT_LIVE),)), I, None),
        (Latency(ms=9000.0, spoiled=(spoiled(SpoiledBy.NOT_LIVE),)), I, None),
        (Latency(ms=13_000.0, spoiled=(spoiled(SpoiledBy.LAGGED, 12_968.0, 13_000.0),)), F, "exceeded"),
        (Latency(ms=2010.0, spoiled=(spoiled(SpoiledBy.LAGGED, 1978.0, 2010.0),)), I, None),
        (Latency(ms=2032.0, spoiled=(spoiled(SpoiledBy.LAGGED, 2000.0, 2032.0),)), I, None),
        (Latency(ms=400.0, spoiled=(spoiled(SpoiledBy.LAGGED, 368.0, 400.0),)), P, "target"),
        (Latency(ms=100.0, spoiled=(spoiled(SpoiledBy.RETRIED, 100.0, 480.0),)), P, "target"),
        (Latency(ms=100.0, spoiled=(spoiled(SpoiledBy.RETRIED, 100.0, 510.0),)), I, None),
        (Latency(ms=2100.0, spoiled=(spoiled(SpoiledBy.RETRIED, 2100.0, 70_000.0),)), F, "exceeded"),
        (
            Latency(
                ms=2010.0,
                spoiled=(spoiled(SpoiledBy.RETRIED, 2010.0, 9000.0), spoiled(SpoiledBy.LAGGED, 1970.0, 2010.0)),
            ),
            I,
            None,
        ),
        (Latency(ms=2000.0, cut=True, spoiled=(spoiled(SpoiledBy.LAGGED, 1950.0, 2000.0),)), I, None),
        (Latency(ms=2000.0, cut=True, spoiled=(spoiled(SpoiledBy.RETRIED, 2000.0, None),)), F, "exceeded"),
        (None, I, None),
    ],
)
async def test_latency_budget(evaluate, latency, verdict, tier):
    check = {"type": "latency_budget", "target_ms": 500, "acceptable_ms": 1000, "critical_ms": 2000}
    result = await evaluate(check, ExecutionResult(latency=latency, duration_ms=1))
    assert (result.verdict, result.figures.get("tier")) == (verdict, tier)
    for reason in latency.spoiled if latency and not latency.cut else ():
        assert str(reason) in result.message


def talk(turns: int) -> ExecutionResult:
    return ExecutionResult(
        conversation=ConversationResult(
            turns=tuple(ConversationTurn(turn_number=n, user_input="u", agent_response="a") for n in range(turns)),
            total_duration_ms=1,
            terminated_early=True,
            termination_reason="goal_achieved",
        )
    )


@pytest.mark.parametrize(
    ("check", "turns", "verdict"),
    [
        ({"min_turns": 2}, 2, P),
        ({"min_turns": 2}, 1, F),
        ({"max_turns": 2}, 2, P),
        ({"max_turns": 2}, 3, F),
        ({"target_range": [2, 4]}, 2, P),
        ({"target_range": [2, 4]}, 4, P),
        ({"target_range": [2, 4]}, 5, F),
        ({"target_range": [2, 4], "max_turns": 3}, 4, F),
        ({"max_turns": 9, "optimal_turns": 3}, 9, P),
        ({"min_turns": 1}, 0, F),
    ],
)
async def test_conversation_length(evaluate, check, turns, verdict):
    result = await evaluate({"type": "conversation_length", **check}, talk(turns))
    assert result.verdict == verdict
    assert result.figures["turns"] == turns


NEED_A_JUDGE = [
    {"type": "llm_judge", "prompt": "Was it kind?"},
    {"type": "judge", "judge_criterion": "is kind"},
    {"type": "user_satisfaction"},
    {"type": "holds_across_turns", "criterion": "is kind"},
]


@pytest.mark.parametrize("check", NEED_A_JUDGE, ids=lambda check: check["type"])
async def test_without_a_judge_nothing_is_judged(evaluate, check):
    result = await evaluate(check, talk(3))
    assert result.verdict == I
    assert "--judge" in result.message


@pytest.mark.parametrize(
    "check", [{"type": "conversation_length", "min_turns": 1}, *NEED_A_JUDGE[2:]], ids=lambda check: check["type"]
)
async def test_only_conversations_can_be_checked_as_conversations(evaluate, check):
    result = await evaluate(check, "a reply")
    assert result.verdict == I
    assert "not a conversation" in result.message


BY_WHOM = [
    TrajectoryStep(type="action", at_ms=0, name="REFUND", agent="Desk"),
    TrajectoryStep(type="action", at_ms=1, name="FIND", agent="Clerk"),
    TrajectoryStep(type="action", at_ms=2, name="PAY"),
]


@pytest.mark.parametrize(
    ("check", "verdict", "said"),
    [
        ({"action": "REFUND", "agent": "desk"}, P, "REFUND happened once by desk"),
        ({"action": "REFUND", "agent": "Clerk"}, F, "it was done by Desk"),
        ({"action": "REFUND", "agent": "Clerk", "max_count": 0}, P, "but not by Clerk"),
        ({"action": "REFUND", "agent": "Desk", "max_count": 0}, F, "expected never"),
        ({"action": "PAY", "agent": "Clerk", "max_count": 0}, I, "unknown which agent"),
        ({"action": "PAY", "agent": "Clerk"}, I, "unknown which agent"),
        ({"action": "PAY", "max_count": 0}, F, "PAY happened once"),
        (
            {"action": "REFUND", "agent": "Biling", "max_count": 0},
            I,
            "no agent called Biling was seen here (agents seen",
        ),
        ({"action": "REFUND", "agent": "Biling"}, F, "it was done by Desk"),
    ],
)
async def test_a_check_may_name_the_agent(evaluate, check, verdict, said):
    result = await evaluate({"type": "trajectory_contains_action", **check}, ExecutionResult(trajectory=BY_WHOM))
    assert result.verdict == verdict
    assert said in result.message


SHIFT = {
    "trajectory": (
        TrajectoryStep(type="action", at_ms=0, name="REFUND", agent="Desk", duration_ms=10),
        TrajectoryStep(type="action", at_ms=20, name="FIND", agent="Clerk", duration_ms=10),
        TrajectoryStep(type="action", at_ms=40, name="A", agent="Desk", duration_ms=10),
        TrajectoryStep(type="action", at_ms=40, name="B", agent="Clerk", duration_ms=10),
    ),
    "service_calls": (
        ServiceCalled(at_ms=5, service="shop", method="refund"),
        ServiceCalled(at_ms=25, service="shop", method="find"),
        ServiceCalled(at_ms=45, service="shop", method="ask"),
        ServiceCalled(at_ms=70, service="shop", method="tell"),
    ),
}


@pytest.mark.parametrize(
    ("check", "verdict", "said"),
    [
        ({"method": "refund", "agent": "desk"}, P, "called once by desk"),
        ({"method": "refund", "agent": "Clerk"}, F, "it was called by Desk"),
        ({"method": "refund", "agent": "Desk", "max_count": 0}, F, "expected never"),
        ({"method": "refund", "agent": "Clerk", "max_count": 0}, P, "but not by Clerk"),
        ({"method": "ask", "agent": "Clerk", "max_count": 0}, I, "unknown which agent"),
        ({"method": "tell", "agent": "Clerk"}, I, "unknown which agent"),
        ({"method": "refund", "agent": "Nobody", "max_count": 0}, I, "no agent called Nobody"),
        ({"method": "tell"}, P, "called once"),
    ],
)
async def test_a_service_call_is_of_the_agent_whose_action_was_under_way(evaluate, check, verdict, said):
    result = await evaluate({"type": "service_called", "service": "shop", **check}, ExecutionResult(**SHIFT))
    assert (result.verdict, said in result.message) == (verdict, True), result.message
