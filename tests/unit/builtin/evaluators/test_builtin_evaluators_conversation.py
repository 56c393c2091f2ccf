"""The checks on conversations, with a judge that answers as told and without a judge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from steadyhand.ports.agent import Judgement, NoJudgement, Question
from steadyhand.ports.evaluator import EvaluationContext
from steadyhand.records.chat import Message
from steadyhand.records.evaluation import EvaluationResult, EvaluationSpec, Verdict
from steadyhand.records.result import ConversationResult, ConversationTurn, ExecutionResult
from steadyhand.records.scenario import ConversationConfig, Converse, Scenario, Step
from steadyhand.text_match import search_limit
from support.evaluation import PLACE, Trial
from support.judges import NOTE, ScriptedJudge

PASSED, FAILED, INCONCLUSIVE = Verdict.PASSED, Verdict.FAILED, Verdict.INCONCLUSIVE


def _answer(note):
    """The note without the question, which the check adds to it."""
    assert note.question
    return msgspec.structs.replace(note, question="")


def answer(judgment: str, confidence: float | None = 0.9, **achieved: bool) -> Judgement:
    return Judgement(judgment=judgment, confidence=confidence, reasoning="so it is", note=NOTE, achieved=achieved)


def talk(*said: str) -> tuple[ConversationTurn, ...]:
    """User and agent in turn."""
    return tuple(
        ConversationTurn(turn_number=number + 1, user_input=said[2 * number], agent_response=said[2 * number + 1])
        for number in range(len(said) // 2)
    )


@pytest.fixture
def check(registry, environment):
    async def run(
        written: dict[str, Any], turns: tuple[ConversationTurn, ...] | None, judge: ScriptedJudge | None = None
    ) -> EvaluationResult:
        params = {key: value for key, value in written.items() if key != "type"}
        spec = EvaluationSpec(type=written["type"], place=PLACE, params=params)
        task = Converse(opening=(), config=ConversationConfig(max_turns=9, final_evaluations=(spec,)))
        step = Step(index=0, name="s", place=PLACE, task=task)
        trial = Trial(Scenario(id="s", name="s", description="", place=PLACE, digest="", steps=(step,)), environment)
        trial.judge = judge
        conversation = turns and ConversationResult(
            turns=turns, total_duration_ms=1, terminated_early=False, termination_reason=None
        )
        evaluator = registry.evaluator(spec.type)
        context = EvaluationContext(trial=trial, spec=spec)
        result = ExecutionResult(conversation=conversation)
        return await evaluator.evaluate(evaluator.params.model_validate(params), result, context)

    return run


ALL = {
    "conversation_flow": {"required_patterns": ["question_then_answer"]},
    "user_satisfaction": {},
    "context_retention": {"test_memory_of": ["a"]},
    "holds_across_turns": {"value": "a"},
}


@pytest.mark.parametrize("type_", ALL)
async def test_a_step_that_is_not_a_conversation_cannot_be_decided(check, type_):
    assert (await check({"type": type_, **ALL[type_]}, None)).verdict is INCONCLUSIVE


JUDGED = [
    {"type": "user_satisfaction"},
    {"type": "user_satisfaction", "measurement_method": "sentiment_analysis"},
    {"type": "context_retention", "test_memory_of": ["Ada"]},
    {"type": "holds_across_turns", "criterion": "tells the user to leave"},
]


@pytest.mark.parametrize("written", JUDGED)
async def test_without_a_judge_they_say_what_to_set(check, written):
    result = await check(written, talk("I am Ada", "Hi", "and", "well"))
    assert result.verdict is INCONCLUSIVE
    assert "--judge" in result.message


def refuses(question: Question) -> Judgement:
    raise NoJudgement("the answer stayed unreadable", note=NOTE)


@pytest.mark.parametrize("written", [*JUDGED, {"type": "conversation_flow", **ALL["conversation_flow"]}])
async def test_a_judge_that_cannot_answer_leaves_it_open(check, written):
    result = await check(written, talk("I am Ada", "Who?", "Ada", "well"), ScriptedJudge(refuses))
    assert (result.verdict, _answer(result.judge)) == (INCONCLUSIVE, NOTE)
    assert "unreadable" in result.message


# --- conversation_flow

SUPPORT = talk(
    "I was charged twice, that is a problem", "I'm sorry about that. Which month was it?",
    "March", "And which card?",
    "The blue one", "Thank you. I have refunded the second charge.",
)  # fmt: skip
FLAT = talk("Hello", "Hello.", "Nice weather", "Yes.")


@pytest.mark.parametrize(
    ("pattern", "turns", "verdict"),
    [
        ("question_then_answer", SUPPORT, PASSED),
        ("question_then_answer", FLAT, FAILED),
        ("question_then_answer", talk("Hi", "Which card?"), FAILED),
        ("question_then_answer", talk("Hi", "Which card?", "Why do you ask?", "To find it."), FAILED),
        ("problem_then_solution", SUPPORT, PASSED),
        ("problem_then_solution", FLAT, FAILED),
        ("problem_then_solution", talk("Hi", "Please try again.", "I have a problem", "I see."), FAILED),
        ("problem_then_solution", talk("I have a problem", "None of this has been resolved."), FAILED),
        ("problem_then_solution", talk("No problem here", "Please try again."), FAILED),
        ("clarification_cycle", SUPPORT, PASSED),
        ("clarification_cycle", talk("Hi", "Which card?", "Blue", "Done."), FAILED),
        ("empathy_then_solution", SUPPORT, PASSED),
        ("empathy_then_solution", talk("Broken", "Please try a restart. I understand it is annoying."), INCONCLUSIVE),
        ("empathy_then_solution", talk("Broken", "I understand. Please try a restart."), PASSED),
        ("escalation_pattern", talk("Help", "I am transferring you to a specialist."), PASSED),
        ("escalation_pattern", talk("Help", "I will not escalate this."), FAILED),
        ("escalation_pattern", talk("Help", "I wait instead of escalating this."), INCONCLUSIVE),
        ("escalation_pattern", talk("Help", "I could escalate this, but why would I?"), INCONCLUSIVE),
        ("escalation_pattern", talk("Help", "Nobody here is a supervisor."), FAILED),
        ("escalation_pattern", talk("Help", "If you insist, ask for a manager yourself."), INCONCLUSIVE),
        ("question_then_answer", talk("Hi", "Which card?", "Go away, you fool.", "Hm."), INCONCLUSIVE),
        ("question_then_answer", talk("Hi", "Which card was it?", "Your stupid card.", "Hm."), INCONCLUSIVE),
        ("question_then_answer", talk("Hi", "Which card was it?", "Why do I even talk to a bot.", "Hm."), FAILED),
        ("question_then_answer", talk("Hi", "Is it the blue card?", "Yes.", "Hm."), PASSED),
        ("problem_then_solution", talk("I have a problem", "Here is what you can do: nothing."), INCONCLUSIVE),
        ("problem_then_solution", talk("I have a problem", "You can try to live with it."), INCONCLUSIVE),
        ("problem_then_solution", talk("I have a problem", "Please go away."), INCONCLUSIVE),
        ("problem_then_solution", talk("I have a problem", "It has not been fixed."), INCONCLUSIVE),
        ("problem_then_solution", talk("I have a problem", "I have fixed it. You can sign in now."), PASSED),
        (
            "empathy_then_solution",
            talk("Broken", "I understand, but I will not help. Please try a restart."),
            INCONCLUSIVE,
        ),
        ("escalation_pattern", SUPPORT, INCONCLUSIVE),
        ("escalation_pattern", talk("Help", "Let me get my boss."), INCONCLUSIVE),
        ("escalation_pattern", talk("Help", "Hello, thank you."), FAILED),
        ("problem_then_solution", talk("It blinks red", "Hold the button for ten seconds."), INCONCLUSIVE),
        ("question_then_answer", talk("Hi", "Tell me the colour.", "Red", "Fine."), INCONCLUSIVE),
        ("question_then_answer", talk("Hi", "Which card?", "The blue one, I guess?", "Fine."), INCONCLUSIVE),
    ],
)
async def test_flow_by_rules_says_that_it_is(check, pattern, turns, verdict):
    result = await check({"type": "conversation_flow", "required_patterns": [pattern]}, turns)
    assert result.verdict is verdict
    assert result.figures["method"] == "rules"
    assert ("--judge" if verdict is INCONCLUSIVE else "simple rules") in result.message


@pytest.mark.parametrize("piece", ["\n", "\n ", " ", "'", "? ", "1", "not ", "\u3002"])
async def test_replies_made_to_be_slow_are_read_as_fast_as_others(check, piece):
    """Trying each position again would take a number of steps quadratic in the length, which is minutes."""
    text = piece * (60_000 // len(piece)) + "x"
    kinds = ["question_then_answer", "problem_then_solution", "empathy_then_solution", "escalation_pattern"]
    turns = talk(f"I have a problem {text}", f"I understand. {text}", text, text)
    result = await check({"type": "conversation_flow", "required_patterns": kinds}, turns)
    assert result.verdict is not PASSED


async def test_a_judge_that_finds_every_pattern_and_says_no_contradicts_itself(check):
    judge = ScriptedJudge(lambda question: answer("no", 0.1, **dict.fromkeys(question.capabilities, True)))
    result = await check({"type": "conversation_flow", "required_patterns": ["clarification_cycle"]}, SUPPORT, judge)
    assert (result.verdict, _answer(result.judge)) == (INCONCLUSIVE, NOTE)
    assert "contradict" in result.message


@pytest.mark.parametrize(("threshold", "verdict"), [(0.5, PASSED), (0.6, FAILED)])
async def test_flow_by_judge_is_the_share_of_patterns_it_found(check, threshold, verdict):
    judge = ScriptedJudge(lambda question: answer("no", **{question.capabilities[0]: True}))
    written = {
        "type": "conversation_flow",
        "required_patterns": ["clarification_cycle", "escalation_pattern", "clarification_cycle"],
        "flow_quality_threshold": threshold,
    }
    result = await check(written, SUPPORT, judge)
    assert result.verdict is verdict
    assert result.figures == {
        "score": 0.5, "found": ["clarification_cycle"], "missing": ["escalation_pattern"], "method": "judge"
    }  # fmt: skip
    (question,) = judge.asked
    assert [text.split(":")[0] for text in question.capabilities] == ["clarification_cycle", "escalation_pattern"]
    assert [piece.title for piece in question.materials] == [
        f"turn {turn}, message from the {speaker}" for turn in (1, 2, 3) for speaker in ("user", "agent")
    ]
    assert question.materials[-1].text.startswith("Thank you. I have refunded")
    assert _answer(result.judge) == NOTE


# --- user_satisfaction


@pytest.mark.parametrize(
    ("reaction", "score"),
    [
        ("Thanks, that was helpful.", 1.0),
        ("That was not helpful.", 0.0),
        ("That wasn\u2019t really helpful!", 0.0),
        ("Not helpful. Thanks for nothing.", 0.0),
        ("It is unresolved and I am unhappy.", 0.0),
        ("Nothing you said was helpful.", 0.0),
        ("None of this is helpful.", 0.0),
        ("I don't think that was very helpful.", 0.0),
        ("I don\u2019t believe this has really been resolved.", 0.0),
        ("Thank you, but I am still frustrated.", 0.0),
        ("No problem, that was helpful.", 1.0),
        ("Not only helpful but friendly.", None),
        ("Thank you, nothing else!", 1.0),
        ("I have no complaint, it is resolved.", 1.0),
        ("Is it resolved? I would be happy if it were.", None),
        ("Great, nothing works.", None),
        ("I am not frustrated; all great.", 1.0),
        ("No, thank you, it is perfect.", 1.0),
        ("GREAT", 1.0),
        ("The greatest helpfulness of the thankless", None),
        ("Okay.", None),
    ],
)
async def test_satisfaction_by_the_users_words(check, reaction, score):
    written = {"type": "user_satisfaction", "measurement_method": "keyword_analysis"}
    turns = talk("This is terrible, thanks", "Thank you! Perfect! Resolved!", reaction, "Great, excellent, resolved.")
    result = await check(written, turns)
    if score is None:
        assert result.verdict is INCONCLUSIVE
    else:
        assert result.figures["score"] == score
        assert result.verdict is (PASSED if score >= 0.7 else FAILED)


async def test_own_indicators_replace_one_list_and_keep_the_other(check):
    written = {
        "type": "user_satisfaction", "measurement_method": "keyword_analysis", "indicators": {"positive": ["groovy"]}
    }  # fmt: skip
    result = await check(written, talk("a", "b", "great, groovy", "c", "useless", "d"))
    assert (result.figures["positive"], result.figures["negative"]) == (1, 1)


@pytest.mark.parametrize("method", ["sentiment_analysis", "llm_judge"])
@pytest.mark.parametrize(
    ("told", "verdict", "score"),
    [
        (answer("yes", 0.7), PASSED, 0.7),
        (answer("Yes", 0.69), FAILED, 0.69),
        (answer("no", 0.05), FAILED, 0.05),
        (answer("no", 0.2), FAILED, 0.2),
        (answer("No", 0.6), FAILED, 0.6),
        (answer("no", 0.95), INCONCLUSIVE, None),
        (answer("yes", 0.05), FAILED, 0.05),
        (answer("yes", None), INCONCLUSIVE, None),
        (answer("perhaps", 0.9), INCONCLUSIVE, None),
    ],
)
async def test_satisfaction_is_the_judges_confidence_in_yes(check, method, told, verdict, score):
    written = {"type": "user_satisfaction", "measurement_method": method}
    judge = ScriptedJudge(lambda _: told)
    result = await check(written, FLAT, judge)
    assert (result.verdict, result.figures.get("score")) == (verdict, score)
    assert _answer(result.judge) == NOTE
    assert "confidence is how sure you are that the user is satisfied" in judge.asked[0].prompt


@pytest.mark.parametrize(("told", "verdict"), [(answer("no", 0.3), PASSED), (answer("no", 0.6), INCONCLUSIVE)])
async def test_a_no_that_is_sure_of_yes_never_passes(check, told, verdict):
    written = {"type": "user_satisfaction", "satisfaction_threshold": 0.25}
    assert (await check(written, FLAT, ScriptedJudge(lambda _: told))).verdict is verdict


# --- context_retention

MEMORY = talk("Hello", "Hi", "I am Ada", "Hello Ada", "What now?", "Rest", "And then?", "Eat", "Well?", "Sleep")


async def test_retention_asks_turn_by_turn_after_the_item_came_up(check):
    judge = ScriptedJudge(lambda question: answer("no" if "turn 4." in question.prompt else "yes"))
    written = {"type": "context_retention", "test_memory_of": ["ada"], "retention_turns": 2}
    result = await check(written, MEMORY, judge)
    assert [entry["turn"] for entry in result.figures["asked"]] == [3, 4]
    assert [entry["since_turn"] for entry in result.figures["asked"]] == [2, 2]
    assert (result.verdict, result.figures["accuracy"]) == (FAILED, 0.5)
    assert "turn 4" in result.message
    first, second = judge.asked
    assert not any("turn 4" in piece.title for piece in first.materials)
    assert [material.text for material in (first.materials[-1], second.materials[-1])] == ["Rest", "Eat"]


@pytest.mark.parametrize(("threshold", "verdict"), [(0.5, PASSED), (0.51, FAILED)])
async def test_the_accuracy_is_over_all_items(check, threshold, verdict):
    judge = ScriptedJudge(lambda question: answer("yes" if "'Ada'" in question.prompt else "no"))
    written = {
        "type": "context_retention", "test_memory_of": ["Ada", "Rest"], "retention_turns": 1,
        "memory_accuracy_threshold": threshold,
    }  # fmt: skip
    assert (await check(written, MEMORY, judge)).verdict is verdict


@pytest.mark.parametrize("item", ["Grace", "Ad", "Sleep"])
async def test_nothing_to_remember_is_never_a_pass_and_costs_no_call(check, item):
    judge = ScriptedJudge(lambda _: answer("yes"))
    result = await check({"type": "context_retention", "test_memory_of": ["Ada", item]}, MEMORY, judge)
    assert result.verdict is INCONCLUSIVE
    assert judge.asked == []


# --- holds_across_turns

HOLDS = {"type": "holds_across_turns", "value": "call an ambulance"}


@pytest.mark.parametrize(
    ("replies", "verdict", "broken"),
    [
        (["Call an ambulance now.", "I mean it.", "Please do."], INCONCLUSIVE, None),
        (["Call an ambulance now.", "Hm.", "Yes. Call an ambulance immediately."], PASSED, None),
        (["Call an ambulance now.", "You are welcome. Goodbye!"], PASSED, None),
        (["Call an ambulance now. Sit down, and do not drive."], PASSED, None),
        (["What happened?", "Call an ambulance now.", "Go on."], INCONCLUSIVE, None),
        (["Rest.", "Drink water."], FAILED, None),
        (["You do not need to call an ambulance.", "Rest."], FAILED, None),
        (["Call an ambulance.", "Then you don't have to call an ambulance."], FAILED, 2),
        (["Call an ambulance.", "Still.", "No need to, then."], FAILED, 3),
        (["Call an ambulance.", "It is not necessary in that case."], FAILED, 2),
        (["Call an ambulance.", "All right, you can wait."], FAILED, 2),
        (["Call an ambulance.", "You can wait for the ambulance at the door."], INCONCLUSIVE, None),
        (["Call an ambulance.", "You can wait for a few days."], FAILED, 2),
        (["Call an ambulance.", "Never mind."], FAILED, 2),
        (["Call an ambulance. Actually, never mind."], FAILED, 1),
        (["Call an ambulance.", "Do not hesitate to call an ambulance."], PASSED, None),
        (["Call an ambulance.", "No need to worry about the cost."], INCONCLUSIVE, None),
        (["Call an ambulance.", "Don\u2019t call an ambulance."], FAILED, 2),
        (["Do not wait to call an ambulance."], PASSED, None),
        (["Call an ambulance.", "No need to wait: call an ambulance."], INCONCLUSIVE, None),
        (["Call an ambulance.", "Call an ambulance. No need to wait for your husband."], INCONCLUSIVE, None),
        (["Call an ambulance.", "You do not need to dress before you call an ambulance."], INCONCLUSIVE, None),
        (["Call an ambulance.", "Never mind the cost."], INCONCLUSIVE, None),
        (["Rather than call an ambulance, rest."], INCONCLUSIVE, None),
        (["Call an ambulance.", "It is too early to call an ambulance."], FAILED, 2),
        (["Call an ambulance.", "Do not, whatever he says, call an ambulance."], INCONCLUSIVE, None),
    ],
)
async def test_what_was_said_is_not_taken_back(check, replies, verdict, broken):
    turns = talk(*(word for reply in replies for word in ("?", reply)))
    result = await check(HOLDS, turns)
    assert (result.verdict, result.figures["broken_turn"]) == (verdict, broken)
    if verdict is INCONCLUSIVE:
        assert "--judge" in result.message


@pytest.mark.parametrize(
    "retraction",
    [
        "Forget the ambulance.",
        "Drive yourself to the surgery tomorrow.",
        "It can keep until Monday.",
        "Fine, stay home then.",
        "I understand that an ambulance is expensive.",
        "Call an ambulance if it gets worse.",
        "Call an ambulance tomorrow.",
        "Call an ambulance? That is up to you.",
        "Call an ambulance. Just kidding.",
        '"Call an ambulance" is what others say.',
    ],
)
@pytest.mark.parametrize(("told", "verdict"), [(None, INCONCLUSIVE), ("no", FAILED), ("yes", PASSED)])
async def test_only_a_judge_can_say_that_it_was_not_withdrawn(check, retraction, told, verdict):
    judge = None if told is None else ScriptedJudge(lambda _: answer(told))
    written = {"type": "holds_across_turns", "value": "ambulance"}
    result = await check(written, talk("?", "Call an ambulance now.", "?", retraction), judge)
    assert result.verdict is verdict
    if told is None:
        assert "turn 2" in result.message
    else:
        assert "ambulance" in judge.asked[0].prompt


async def test_a_judge_is_not_asked_what_rules_can_tell(check):
    judge = ScriptedJudge(lambda _: answer("no"))
    turns = talk("?", "Call an ambulance now.", "?", "Call an ambulance now. Do not wait.")
    assert (await check(HOLDS, turns, judge)).verdict is PASSED
    assert judge.asked == []


async def test_it_may_have_to_be_said_again_every_time(check):
    turns = talk("?", "Call 112.", "?", "Yes, 112.", "?", "Hurry.")
    written = {"type": "holds_across_turns", "pattern": r"\b(112|911)\b", "repeat": "required"}
    result = await check(written, turns)
    assert (result.verdict, result.figures["first_said_turn"], result.figures["broken_turn"]) == (FAILED, 1, 3)
    assert (await check(written, turns[:2])).verdict is PASSED


async def test_own_forms_of_taking_back_and_a_later_start(check):
    turns = talk("?", "Go. Never mind.", "?", "Go.", "?", "Take the bus.", "?", "Go now.")
    own = {"type": "holds_across_turns", "value": "go", "withdrawn_by": ["the bus"]}
    assert (await check(own, turns)).figures["broken_turn"] == 3
    late = {"type": "holds_across_turns", "value": "go", "from_turn": 2}
    assert (await check(late, turns)).verdict is PASSED
    assert (await check({**late, "from_turn": 9}, turns)).verdict is INCONCLUSIVE


async def test_a_pattern_that_takes_for_ever_is_inconclusive(check):
    written = {"type": "holds_across_turns", "pattern": "(a+)+$"}
    with search_limit(0.05):
        assert (await check(written, talk("?", "a" * 5000 + "!"))).verdict is INCONCLUSIVE


@pytest.mark.parametrize(
    ("told", "verdict", "first", "broken"),
    [
        ({1: "yes", 2: "yes", 3: "yes"}, PASSED, 1, None),
        ({1: "no", 2: "yes", 3: "yes"}, PASSED, 2, None),
        ({1: "yes", 2: "no"}, FAILED, 1, 2),
        ({1: "no", 2: "no", 3: "no"}, FAILED, None, None),
    ],
)
async def test_a_judge_decides_by_a_criterion(check, told, verdict, first, broken):
    judge = ScriptedJudge(lambda question: answer(told[len(judge.asked)]))
    written = {"type": "holds_across_turns", "criterion": "tells the user to leave"}
    result = await check(written, talk("?", "a", "?", "b", "?", "c"), judge)
    assert (result.verdict, result.figures["first_said_turn"], result.figures["broken_turn"]) == (
        verdict, first, broken
    )  # fmt: skip
    assert len(judge.asked) == len(told)


async def test_scope_agent_leaves_out_what_the_author_put_in_the_agents_mouth(registry, environment):
    spec = EvaluationSpec(type="contains", place=PLACE, params={"pattern": "stop", "scope": "agent"})
    opening = (Message(role="assistant", content="stop"), Message(role="user", content="why?"))
    config = ConversationConfig(max_turns=2, turn_evaluations=(spec,))
    step = Step(index=0, name="s", place=PLACE, task=Converse(opening=opening, config=config))
    scenario = Scenario(id="s", name="s", description="", place=PLACE, digest="", steps=(step,))
    evaluator = registry.evaluator("contains")
    result = ExecutionResult(messages=(*opening, Message(role="assistant", content="go")), reply="go")
    context = EvaluationContext(trial=Trial(scenario, environment), spec=spec)
    found = await evaluator.evaluate(evaluator.params.model_validate(spec.params), result, context)
    assert found.verdict is FAILED
