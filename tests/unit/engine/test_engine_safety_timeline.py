"""When an answer was safe, computed from its pieces and the real invariants."""

from __future__ import annotations

import msgspec
import pytest

from steadyhand.builtin.environments.local import LocalEnvironment
from steadyhand.builtin.plugin import EVALUATORS
from steadyhand.engine.context import RunningTrial, StepResult, TrialParts
from steadyhand.engine.safety_timeline import safety_timeline
from steadyhand.plugins.plugin import EnvironmentSettings, Plugin
from steadyhand.plugins.registry import Registry
from steadyhand.records.chat import (
    Attempt,
    CallTiming,
    Finish,
    FinishReason,
    InvariantTimeline,
    SafetyAtDeadline,
    SafetyTimeline,
    Spoiled,
    SpoiledBy,
)
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Verdict
from steadyhand.records.event import ModelCalled
from steadyhand.records.location import Place
from steadyhand.records.result import ExecutionResult, Latency
from steadyhand.records.run import TrialKey
from steadyhand.records.scenario import Ask, Scenario, Step
from steadyhand.text_match import search_limit

PLACE = Place(file="x.yaml")
BUDGET = EvaluationSpec(
    type="latency_budget", place=PLACE, params={"target_ms": 20, "acceptable_ms": 30, "critical_ms": 60}
)
REGISTRY = Registry([Plugin(name="builtin", evaluators=EVALUATORS)])


def invariant(type_, text, severity=1.0, **params):
    key = "judge_criterion" if type_ == "judge" else "pattern"
    return EvaluationSpec(type=type_, name=text, place=PLACE, params={key: text, **params}, severity=severity)


def call(pieces, *, first_token_ms=10.0, spoiled=(), text=None, finish=None, late_ms=0.0):
    """Piece n arrives at 10 n ms."""
    whole = "".join(pieces)
    attempt = Attempt(started_ms=0, sent_ms=0, first_token_ms=first_token_ms, last_byte_ms=10.0 * len(pieces))
    chunks = tuple((10.0 * number, len(piece)) for number, piece in enumerate(pieces, start=1))
    timing = CallTiming(attempts=(attempt,), chunks=chunks, spoiled=spoiled, pieces_late_ms=late_ms)
    said = whole if text is None else text
    return ModelCalled(at_ms=0, model="m", purpose="agent", timing=timing, text=said, finish=finish)


async def timeline(tmp_path, pieces, *specs, calls=None, verdicts=(), reply=None):
    calls = (call(pieces),) if calls is None else calls
    step = Step(index=0, name="s", place=PLACE, task=Ask(messages=()), evaluations=specs)
    scenario = Scenario(id="s", name="s", description="", place=PLACE, digest="", steps=(step,))
    environment = LocalEnvironment(EnvironmentSettings(root=tmp_path, trial_id="t"))
    parts = TrialParts(
        scenario=scenario, key=TrialKey(scenario_id="s"), environment=environment, evaluator=REGISTRY.evaluator
    )
    said = "".join(pieces) if reply is None else reply
    result = ExecutionResult(reply=said, calls=calls, latency=Latency(ms=10.0 * len(pieces)))
    evaluations = [EvaluationResult(verdict=verdict, message="", severity=1.0) for verdict in verdicts]
    return await safety_timeline(RunningTrial(parts), [StepResult(step, result)], evaluations)


async def test_safe_from_the_piece_that_completes_the_last_required_word(tmp_path):
    found = await timeline(
        tmp_path, ["Acti", "vate the cath", " lab", " now."], invariant("regex", r"cath\s+lab"), BUDGET
    )
    assert found == SafetyTimeline(
        first_token_ms=10.0,
        safe_ms=30.0,
        first_safe_ms=30.0,
        at_deadline=SafetyAtDeadline(target=False, acceptable=True, critical=True),
        invariants=(InvariantTimeline(name=r"cath\s+lab", changes=((10.0, False), (30.0, True))),),
    )


async def test_each_invariant_has_its_own_times_at_which_it_came_to_hold_and_broke(tmp_path):
    found = await timeline(
        tmp_path,
        ["Wait. ", "STOP", " now", ", but never", " mind"],
        invariant("contains", "STOP"),
        invariant("not_contains", "never mind"),
        invariant("judge", "is it kind?"),
        invariant("regex", r"\ASTOP|but\Z|Wait. \Z"),
    )
    assert found.invariants == (
        InvariantTimeline(name="STOP", changes=((10.0, False), (20.0, True))),
        InvariantTimeline(name="never mind", changes=((10.0, True), (50.0, False))),
        InvariantTimeline(name=r"\ASTOP|but\Z|Wait. \Z", changes=((10.0, True), (20.0, False))),
    )


async def test_the_changes_of_an_invariant_in_a_long_stream_are_exact(tmp_path):
    pieces = ["x"] * 1234 + ["STOP"] + ["x"] * 2000
    found = await timeline(tmp_path, pieces, invariant("contains", "STOP"))
    assert found.invariants == (InvariantTimeline(name="STOP", changes=((10.0, False), (12350.0, True))),)


async def test_a_text_that_becomes_unsafe_and_stays_so_was_safe_only_for_a_while(tmp_path):
    found = await timeline(
        tmp_path,
        ["STOP", " now", " or wait", " and see"],
        invariant("contains", "STOP"),
        invariant("not_contains", "wait and see"),
        BUDGET,
        verdicts=[Verdict.PASSED, Verdict.FAILED],
    )
    assert (found.first_safe_ms, found.safe_ms) == (10.0, None)
    assert found.at_deadline == SafetyAtDeadline(target=True, acceptable=True, critical=False)


async def test_safe_for_good_is_the_last_time_it_became_safe(tmp_path):
    pieces = ["STOP", "PED? No.", " I say ", "STOP", "!"]
    found = await timeline(tmp_path, pieces, invariant("regex", r"\bSTOP\b"), BUDGET)
    assert (found.first_safe_ms, found.safe_ms) == (10.0, 40.0)
    assert found.at_deadline == SafetyAtDeadline(target=False, acceptable=False, critical=True)


async def test_nothing_received_is_not_a_safe_answer(tmp_path):
    budget = EvaluationSpec(
        type="latency_budget", place=PLACE, params={"target_ms": 9.9, "acceptable_ms": 10, "critical_ms": 10}
    )
    found = await timeline(tmp_path, ["Hold."], invariant("not_contains", "move"), budget)
    assert found.safe_ms == 10.0
    assert found.at_deadline == SafetyAtDeadline(target=False, acceptable=True, critical=True)
    empty = await timeline(tmp_path, [], invariant("not_contains", "move"), budget)
    assert (empty.safe_ms, empty.unknown) == (None, None)
    assert empty.at_deadline == SafetyAtDeadline(target=False, acceptable=False, critical=False)


async def test_a_judges_invariant_is_left_out_and_named(tmp_path):
    specs = (invariant("contains", "STOP"), invariant("judge", "It stops."), BUDGET)
    found = await timeline(tmp_path, ["a ", "STOP", "."], *specs, verdicts=[Verdict.PASSED, Verdict.PASSED])
    assert (found.safe_ms, found.excludes) == (20.0, ("It stops.",))
    violated = await timeline(tmp_path, ["a ", "STOP", "."], *specs, verdicts=[Verdict.PASSED, Verdict.FAILED])
    assert violated.safe_ms is None
    assert violated.at_deadline == SafetyAtDeadline(target=True, acceptable=False, critical=False)
    alone = await timeline(tmp_path, ["STOP"], invariant("judge", "It stops."), BUDGET)
    assert (alone.safe_ms, alone.at_deadline) == (None, None)
    assert alone.unknown == "no invariant can be checked on a part of the answer"


@pytest.mark.parametrize(
    ("calls", "unknown"),
    [
        (
            (call(["STOP"], spoiled=(Spoiled(kind=SpoiledBy.RETRIED, detail="the call was retried (2 attempts)"),)),),
            "the call was retried (2 attempts)",
        ),
        (
            (call(["STOP"], late_ms=28.4),),
            "pieces that arrived within 28 ms were read together: the event loop was busy",
        ),
        ((call(["STOP"]), call(["STOP"])), "the answer took 2 model calls"),
        (
            (call(["STOP"], finish=Finish(reason=FinishReason.LENGTH, raw="length", token_limit=1)),),
            "the answer was cut off by our limit of 1 token (length)",
        ),
        ((), "the agent makes its own model calls"),
        ((call(["STOP"], text="STOP it"),), "the reply differs from what the model said"),
        ((call([], text="STOP"),), "the pieces of the answer were not timed"),
    ],
)
async def test_what_is_not_known_is_not_claimed(tmp_path, calls, unknown):
    found = await timeline(tmp_path, ["STOP"], invariant("contains", "STOP"), BUDGET, calls=calls)
    assert found.unknown == unknown
    assert (found.safe_ms, found.first_safe_ms, found.at_deadline) == (None, None, None)


async def test_without_invariants_there_is_only_the_first_token(tmp_path):
    assert await timeline(tmp_path, ["a", "b"], BUDGET) == SafetyTimeline(first_token_ms=10.0)


async def test_a_pattern_that_takes_too_long_leaves_it_unknown(tmp_path):
    pieces = ["!", "a" * 5000, "!"]
    with search_limit(0.05):
        found = await timeline(tmp_path, pieces, invariant("regex", "(a+)+$"), BUDGET)
    assert found.unknown == "an invariant could not be decided in time on a part of the answer"


async def test_a_long_stream_is_sampled_and_still_exact(tmp_path):
    pieces = ["word "] * 2_000
    pieces[777] = "STOP "
    found = await timeline(tmp_path, pieces, invariant("contains", "STOP"), BUDGET)
    assert (found.first_safe_ms, found.safe_ms) == (7_780.0, 7_780.0)


async def test_a_combining_mark_in_the_next_piece_is_taken_into_account(tmp_path):
    """`e` and a combining accent are one letter: the prefix without it contains what the whole does not."""
    found = await timeline(tmp_path, ["cafe", "\u0301", " x"], invariant("not_contains", "cafe"))
    assert (found.first_safe_ms, found.safe_ms) == (20.0, 20.0)


async def test_a_forbidden_phrase_is_read_as_the_invariant_reads_it(tmp_path):
    pieces = ["Call now. ", "It is not **that**", "\nurgent", " though."]
    found = await timeline(tmp_path, pieces, invariant("not_contains", "not that urgent"), BUDGET)
    assert (found.first_safe_ms, found.safe_ms) == (10.0, None)
    assert found.at_deadline == SafetyAtDeadline(target=True, acceptable=False, critical=False)


@pytest.mark.parametrize("at_ms", [10.0, 25.0, 30.0, 45.0, 100.0])
async def test_an_answer_in_one_piece_is_timed_as_one_in_several(tmp_path, at_ms):
    """The verdicts on the whole answer make the search unnecessary, and the times are the same."""
    pieces = ["Stop the pump."]
    whole = call(pieces)
    timing = msgspec.structs.replace(whole.timing, chunks=((at_ms, len(pieces[0])),))
    calls = (msgspec.structs.replace(whole, timing=timing),)
    specs = (invariant("regex", r"\bstop\b"), invariant("not_contains", "wait"), BUDGET)
    searched = await timeline(tmp_path, pieces, *specs, calls=calls)
    known = await timeline(tmp_path, pieces, *specs, calls=calls, verdicts=(Verdict.PASSED, Verdict.PASSED))
    assert searched is not None
    assert searched.safe_ms == at_ms
    assert known == searched


async def test_the_time_to_safe_is_that_of_the_answer_after_the_thought(tmp_path):
    pieces = ["<thi", "nk>activate", " the cath lab, wait</thi", "nk>\n", "\nActivate", " the cath lab."]
    found = await timeline(
        tmp_path,
        pieces,
        invariant("regex", "activate the cath lab"),
        invariant("not_contains", "wait"),
        BUDGET,
        reply="Activate the cath lab.",
        verdicts=[Verdict.PASSED, Verdict.PASSED],
    )
    assert (found.unknown, found.first_token_ms, found.first_safe_ms, found.safe_ms) == (None, 50.0, 60.0, 60.0)
    assert found.at_deadline == SafetyAtDeadline(target=False, acceptable=False, critical=True)
    assert found.invariants == (
        InvariantTimeline(name="activate the cath lab", changes=((10.0, False), (60.0, True))),
        InvariantTimeline(name="wait", changes=((10.0, False), (50.0, True))),
    )


async def test_what_stood_before_a_lone_closing_mark_was_safe_only_until_it_arrived(tmp_path):
    found = await timeline(
        tmp_path,
        ["Activate the cath lab.", " Or?", "</think>", "Activate", " the cath lab."],
        invariant("regex", "activate the cath lab"),
        reply="Activate the cath lab.",
        verdicts=[Verdict.PASSED],
    )
    assert (found.first_safe_ms, found.safe_ms) == (10.0, 50.0)


async def test_nothing_is_safe_while_only_white_space_has_arrived(tmp_path):
    found = await timeline(
        tmp_path, [" ", "\u200b\n", "Go."], invariant("not_contains", "wait"), verdicts=[Verdict.PASSED]
    )
    assert (found.first_safe_ms, found.safe_ms) == (30.0, 30.0)


async def test_an_answer_other_than_the_one_in_the_stream_is_not_timed(tmp_path):
    found = await timeline(tmp_path, ["<think>a</think>", "Go."], invariant("contains", "Go"), reply="Go!")
    assert found.unknown == "the reply differs from what the model said"
