"""Order and time of actions: `sequence`, and `within_ms` and `before` of `trajectory_contains_action`."""

from __future__ import annotations

import msgspec
import pytest
from pydantic import ValidationError

from steadyhand.records.chat import Attempt, CallTiming
from steadyhand.records.evaluation import NOT_RUNNING, Verdict
from steadyhand.records.event import ModelCalled, TrajectoryStep
from steadyhand.records.result import ExecutionResult
from steadyhand.spec.load import load

P, F, I = "passed", "failed", "inconclusive"  # noqa: E741
BEGAN_MS = 1_000.0


def did(*actions, calls=()):
    """`NAME@milliseconds into the step`, with a trailing `!` for one that failed; the step began at 1 s."""
    steps = []
    for action in actions:
        name, _, at = action.removesuffix("!").partition("@")
        status = "error" if action.endswith("!") else "success"
        params = {"drug": name.casefold()}
        steps.append(TrajectoryStep(type="action", at_ms=BEGAN_MS + float(at), name=name, status=status, params=params))
    return ExecutionResult(trajectory=tuple(steps), started_at_ms=BEGAN_MS, calls=tuple(calls))


def called(at_ms, waited_ms):
    timing = CallTiming(attempts=(Attempt(started_ms=waited_ms, sent_ms=waited_ms, last_byte_ms=waited_ms + 50),))
    return ModelCalled(at_ms=BEGAN_MS + at_ms, model="m", purpose="agent", timing=timing)


GUARD = {"never_until": {"action": "MOVE", "after": "E_STOP", "until": "human-confirm"}}
SOON = {"within": {"action": "NOTIFY", "after": "STOP", "ms": 500}}


@pytest.mark.parametrize(
    ("rule", "actions", "verdict"),
    [
        ({"always": "stop"}, ["STOP@5"], P),
        ({"always": "stop"}, ["STOPPED@5"], F),
        ({"always": {"action": "STOP", "status": "success"}}, ["STOP@5!"], F),
        ({"always": {"action": "LOG", "after": "GIVE"}}, ["GIVE@1", "GIVE@2", "LOG@3"], P),
        ({"always": {"action": "LOG", "after": "GIVE"}}, ["GIVE@1", "LOG@2", "GIVE@3"], F),
        ({"always": {"action": "LOG", "after": "GIVE"}}, [], P),
        ({"always": {"action": "LOG", "after": "LOG"}}, ["LOG@1"], F),
        ({"never": "MOVE"}, ["STOP@1"], P),
        ({"never": "MOVE"}, ["STOP@1", "Move@2!"], F),
        ({"never": {"action": "GIVE", "params": {"drug": "x"}}}, ["GIVE@1"], P),
        ({"never": {"action": "GIVE", "params": {"drug": "give"}}}, ["GIVE@1"], F),
        ({"before": ["CHECK", "GIVE"]}, ["CHECK@1", "GIVE@2", "GIVE@3"], P),
        ({"before": ["CHECK", "GIVE"]}, ["GIVE@1", "CHECK@2", "GIVE@3"], F),
        ({"before": ["CHECK", "GIVE"]}, ["GIVE@1"], F),
        ({"before": ["CHECK", "GIVE"]}, [], P),
        ({"before": ["GIVE", {"action": "GIVE", "params": {"drug": "give"}}]}, ["GIVE@1"], F),
        (SOON, ["STOP@10", "NOTIFY@510"], P),
        (SOON, ["STOP@10", "NOTIFY@510.1"], F),
        (SOON, ["STOP@10"], F),
        (SOON, ["NOTIFY@5", "STOP@10"], F),
        (SOON, ["STOP@10", "NOTIFY@20", "STOP@30"], F),
        (SOON, ["STOP@10", "STOP@20", "NOTIFY@30"], P),
        (SOON, ["NOTIFY@5"], P),
        ({"within": {"action": "STOP", "ms": 100}}, ["STOP@100"], P),
        ({"within": {"action": "STOP", "ms": 100}}, ["STOP@101"], F),
        ({"within": {"action": "STOP", "ms": 100}}, [], F),
        (GUARD, ["MOVE@1", "E-STOP@2", "HUMAN_CONFIRM@3", "MOVE@4"], P),
        (GUARD, ["MOVE@1", "E-STOP@2", "MOVE@3", "HUMAN_CONFIRM@4"], F),
        (GUARD, ["E-STOP@2", "HUMAN_CONFIRM@3!", "MOVE@4"], F),
        (GUARD, ["E-STOP@2", "HUMAN_CONFIRM@3", "E-STOP@4", "MOVE@5"], F),
        (GUARD, ["HUMAN_CONFIRM@1", "E-STOP@2", "MOVE@3!"], F),
        (GUARD, ["MOVE@1"], P),
        ({"never_until": {"action": "GIVE", "until": "CHECK"}}, ["GIVE@1", "CHECK@2"], F),
        ({"never_until": {"action": "GIVE", "until": "CHECK"}}, ["CHECK@1", "GIVE@2"], P),
        (
            {"never_until": {"action": "GIVE", "until": {"action": "CHECK", "status": "any"}}},
            ["CHECK@1!", "GIVE@2"],
            P,
        ),
    ],
)
async def test_a_rule(evaluate, rule, actions, verdict):
    result = await evaluate({"type": "sequence", "rules": [rule]}, did(*actions))
    assert result.verdict == verdict


async def test_the_evidence_names_what_broke_which_rule_and_when(evaluate):
    rules = [{"always": "E_STOP"}, GUARD, {"never": "MOVE"}]
    result = await evaluate({"type": "sequence", "rules": rules}, did("E_STOP@20", "MOVE@140!"))
    first = (
        "rule 2: MOVE (action 2, 140 ms, error) came after E_STOP (action 1, 20 ms) with no human-confirm in between"
    )
    assert result.message == f"{first} (and 1 more)"
    assert result.evidence.found == f"{first}\nrule 3: MOVE (action 2, 140 ms, error) must never happen"
    assert result.evidence.excerpt == "E_STOP (action 1, 20 ms), MOVE (action 2, 140 ms, error)"
    assert result.figures == {"rules": 3, "broken": 2, "actions": 2}


@pytest.mark.parametrize(
    ("rule", "actions", "message"),
    [
        ({"always": "STOP"}, ["MOVE@1"], "STOP never happened"),
        (
            {"always": {"action": "GIVE", "params": {"drug": "x"}}},
            ["GIVE@1"],
            "GIVE {'drug': 'x'} never happened (in GIVE (action 1, 1 ms), drug was 'give', not 'x')",
        ),
        (
            {"always": {"action": "LOG", "status": "success", "after": "GIVE"}},
            ["GIVE@1", "LOG@2!"],
            "no LOG (success) after GIVE (action 1, 1 ms) (in LOG (action 2, 2 ms, error), its status was error)",
        ),
        (
            {"before": [{"action": "CHECK", "params": {"drug": "x"}}, "GIVE"]},
            ["CHECK@1", "GIVE@2"],
            (
                "GIVE (action 2, 2 ms) happened with no CHECK {'drug': 'x'} before it "
                "(in CHECK (action 1, 1 ms), drug was 'check', not 'x')"
            ),
        ),
        (
            {"never_until": {"action": "GIVE", "until": "CHECK"}},
            ["CHECK@1!", "GIVE@2"],
            (
                "GIVE (action 2, 2 ms) came after the step began with no CHECK in between "
                "(in CHECK (action 1, 1 ms, error), its status was error)"
            ),
        ),
        (
            {"within": {"action": "STOP", "ms": 100}},
            [],
            "no STOP after the step began; expected one within 100 ms",
        ),
    ],
)
async def test_a_broken_rule_says_what_was_done_instead(evaluate, rule, actions, message):
    result = await evaluate({"type": "sequence", "rules": [rule]}, did(*actions))
    assert result.message == f"rule 1: {message}"


async def test_a_rule_that_holds(evaluate):
    result = await evaluate({"type": "sequence", "rules": [{"always": "STOP"}]}, did("STOP@1"))
    assert result.message == "the rule holds"
    assert result.evidence.expected == 'rule 1: {"always":{"action":"STOP"}}'
    assert result.evidence.found == "the rule holds"


async def test_time_that_was_ours_is_not_held_against_the_agent(evaluate):
    late = ("STOP@10", "NOTIFY@700")
    check = {"type": "sequence", "rules": [SOON]}
    assert (await evaluate(check, did(*late, calls=[called(20, 100)]))).verdict == F
    doubt = await evaluate(check, did(*late, calls=[called(20, 100), called(200, 90)]))
    assert doubt.verdict == I
    assert "up to 190 ms of that was queueing in Steadyhand and retries" in doubt.message
    assert (await evaluate(check, did(*late, calls=[called(5, 600)]))).verdict == F
    both = {"type": "sequence", "rules": [SOON, {"never": "STOP"}]}
    assert (await evaluate(both, did(*late, calls=[called(20, 300)]))).verdict == F


@pytest.mark.parametrize(
    ("actions", "away", "verdict"),
    [
        (("STOP@10", "NOTIFY@700"), ((20, 300),), I),
        (("STOP@10", "NOTIFY@700"), ((20, 90),), F),
        (("STOP@10", "NOTIFY@700"), ((800, 5000),), F),
        (("STOP@900", "NOTIFY@1000"), ((10, 900),), I),
        (("STOP@900", "NOTIFY@1000"), ((10, 100),), P),
    ],
)
async def test_time_at_which_we_were_not_running_proves_nothing(evaluate, actions, away, verdict):
    """An action is stamped late if it happened while nobody looked."""
    away = tuple((BEGAN_MS + began, BEGAN_MS + ended) for began, ended in away)
    result = msgspec.structs.replace(did(*actions), away=away)
    found = await evaluate({"type": "sequence", "rules": [SOON]}, result)
    assert found.verdict == verdict
    assert (NOT_RUNNING in found.figures) == (verdict == I)


@pytest.mark.parametrize(
    ("check", "actions", "waited_ms", "verdict"),
    [
        ({"within_ms": 200}, ["STOP@200"], 0, P),
        ({"within_ms": 200}, ["STOP@201"], 0, F),
        ({"within_ms": 200}, ["STOP@201"], 1, I),
        ({"within_ms": 200}, ["STOP@201"], 0.5, F),
        ({"within_ms": 200, "min_count": 2}, ["STOP@100", "STOP@300"], 0, F),
        ({"within_ms": 200, "max_count": 0}, ["STOP@300"], 0, P),
        ({"within_ms": 200, "max_count": 0}, ["STOP@300"], 150, I),
        ({"within_ms": 200, "max_count": 0}, ["STOP@100"], 0, F),
        ({"before": "call"}, ["STOP@1", "CALL@2"], 0, P),
        ({"before": "call"}, ["STOP@1"], 0, P),
        ({"before": "call"}, ["CALL@1", "STOP@2"], 0, F),
        ({"before": "call"}, ["CALL@1!", "STOP@2"], 0, F),
        ({"before": "call", "min_count": 2}, ["STOP@1", "CALL@2", "STOP@3"], 0, P),
        ({"before": "call", "status": "success"}, ["STOP@1!", "CALL@2", "STOP@3"], 0, F),
        ({"before": "call"}, ["CALL@1"], 0, F),
    ],
)
async def test_an_action_in_time_and_in_order(evaluate, check, actions, waited_ms, verdict):
    written = {"type": "trajectory_contains_action", "action": "STOP", **check}
    assert (await evaluate(written, did(*actions, calls=[called(0, waited_ms)]))).verdict == verdict


async def test_an_action_out_of_order_is_reported_with_its_time(evaluate):
    check = {"type": "trajectory_contains_action", "action": "STOP", "before": "CALL", "within_ms": 500}
    result = await evaluate(check, did("CALL@10", "STOP@25"))
    assert result.message == "STOP came after CALL: actions 1 (10 ms), 2 (25 ms) of this step"
    assert result.figures == {"count": 1, "actions": 2, "first_ms": 25.0}


SCENARIO = """\
name: s
description: d
environment: {type: local}
run:
  - input: hi
    evaluations:
      - type: sequence
        rules:
          - RULE
judgment: {strategy: all_pass}
"""


@pytest.mark.parametrize(
    ("rule", "where", "message"),
    [
        ("{never: A, always: B}", "rules[0]", "found always, never; write one rule for each"),
        ("{}", "rules[0]", "a rule has exactly one of always, never, before, within and never_until; found none"),
        ("{befor: [A, B]}", "rules[0].befor", "did you mean `before`?"),
        ("{before: [A]}", "rules[0].before", "expected at least 2 entries"),
        ("{before: [A, a]}", "rules[0]", "an action cannot precede itself"),
        ("{within: {action: A, ms: 0}}", "rules[0].within.ms", "more than 0"),
        ("{within: {action: A}}", "rules[0].within.ms", "required key `ms` is missing"),
        ("{within: {action: A, ms: 5, after: {acton: B}}}", "rules[0].within.after.acton", "did you mean `action`?"),
        ("{never_until: {action: A, after: B, until: b}}", "rules[0].never_until", "they must differ"),
        ("{never: '-'}", "rules[0].never", "the action's name is empty"),
        ("{never: 3}", "rules[0].never", "found 3"),
    ],
)
def test_a_malformed_rule_is_an_error_at_its_place(tmp_path, registry, rule, where, message):
    (tmp_path / "s.scenario.yaml").write_text(SCENARIO.replace("RULE", rule))
    loaded = load([tmp_path], catalogue={"sequence": registry.evaluator("sequence").params})
    (problem,) = loaded.problems
    assert problem.place.path == f"run[0].evaluations[0].{where}"
    assert problem.place.line == 9
    assert message in problem.message


def test_what_was_read_can_be_read_again(registry):
    """A scenario stores only what was set; that must load as the same rules."""
    params = registry.evaluator("sequence").params
    rules = [GUARD, SOON, {"before": ["A", {"action": "B", "params": {"x": 1}}]}, {"always": "C"}, {"never": "D"}]
    read = params.model_validate({"rules": rules})
    assert params.model_validate(read.model_dump(exclude_unset=True)) == read


@pytest.mark.parametrize(
    "check",
    [
        {"action": "A", "before": "a"},
        {"action": "A", "before": "B", "max_count": 0},
        {"action": "A", "within_ms": 0},
        {"action": "A", "before": "-"},
    ],
)
def test_impossible_orders_are_refused(registry, check):
    with pytest.raises(ValidationError):
        registry.evaluator("trajectory_contains_action").params.model_validate(check)


@pytest.mark.parametrize(
    ("rules", "rests_on"),
    [
        ([{"always": "A"}], None),
        ([{"always": "A"}, {"never": "X"}], "absence"),
        ([{"always": {"action": "B", "after": "A"}}], None),
        ([{"always": {"action": "B", "after": "X"}}], "absence"),
        ([{"before": ["A", "B"]}], None),
        ([{"before": ["A", "X"]}], "absence"),
        ([{"within": {"action": "A", "ms": 60000}}], None),
        ([{"within": {"action": "A", "ms": 60000, "after": "X"}}], "absence"),
        ([{"never_until": {"action": "B", "until": "A"}}], "absence"),
    ],
)
async def test_a_rule_that_nothing_put_to_the_test_holds_by_absence(evaluate, rules, rests_on):
    steps = [TrajectoryStep(type="action", at_ms=at, name=name, status="success") for at, name in ((1, "A"), (2, "B"))]
    found = await evaluate({"type": "sequence", "rules": rules}, ExecutionResult(trajectory=tuple(steps)))
    assert (found.verdict, found.rests_on) == (Verdict.PASSED, rests_on)


HANDED_ON = ExecutionResult(
    trajectory=(
        TrajectoryStep(type="action", at_ms=0, name="FIND", agent="Desk", status="success"),
        TrajectoryStep(type="action", at_ms=10, name="REFUND", agent="Clerk"),
        TrajectoryStep(type="action", at_ms=20, name="LOG", agent="Desk"),
        TrajectoryStep(type="action", at_ms=30, name="PAY"),
    )
)


def by(action, agent, **more):
    return {"action": action, "agent": agent, **more}


@pytest.mark.parametrize(
    ("rule", "verdict", "said"),
    [
        ({"always": by("REFUND", "clerk")}, P, "holds"),
        ({"always": by("REFUND", "Desk")}, F, "its agent was Clerk"),
        ({"never": by("REFUND", "Desk")}, P, "holds"),
        ({"never": by("REFUND", "Clerk")}, F, "must never happen"),
        ({"never": by("REFUND", "Bob")}, I, "no agent called Bob was seen here"),
        ({"never": by("PAY", "Desk")}, I, "unknown which agent"),
        ({"always": by("PAY", "Desk")}, I, "unknown which agent"),
        ({"before": [by("FIND", "Desk"), by("REFUND", "Clerk")]}, P, "holds"),
        ({"before": [by("FIND", "Clerk"), by("REFUND", "Clerk")]}, F, "no FIND by Clerk before it"),
        ({"within": by("LOG", "Desk", after=by("REFUND", "Clerk"), ms=10)}, P, "holds"),
        ({"within": by("LOG", "Desk", after=by("REFUND", "Clerk"), ms=9)}, F, "expected it within 9 ms"),
        ({"never_until": by("REFUND", "Clerk", until=by("FIND", "Desk"))}, P, "holds"),
        ({"never_until": by("REFUND", "Clerk", until=by("FIND", "Clerk"))}, F, "no FIND by Clerk in between"),
        ({"never_until": by("REFUND", "Bob", until=by("FIND", "Desk"))}, I, "no agent called Bob"),
        ({"always": by("LOG", "Desk", after=by("REFUND", "Bob"))}, I, "no agent called Bob"),
    ],
)
async def test_every_rule_may_name_the_agent(evaluate, rule, verdict, said):
    result = await evaluate({"type": "sequence", "rules": [rule]}, HANDED_ON)
    assert (result.verdict, said in result.message) == (verdict, True), result.message
