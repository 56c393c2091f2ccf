"""When a conversation ends, and what is recorded as the reason."""

from __future__ import annotations

import pytest

from steadyhand.ports.agent import NoJudgement
from steadyhand.records.evaluation import Verdict
from steadyhand.records.scenario import ConversationConfig, ScriptedTurn, TerminationCondition, TerminationJudge
from support.conversation import PLACE, USER, ToldAgent, ToldUser, check, ending, hold, notes, scenario
from support.judges import ScriptedJudge


def talks(*conditions: TerminationCondition, **fields):
    return scenario(
        ConversationConfig(max_turns=4, user_simulator=USER, termination_conditions=conditions, **fields),
        evaluations=[check("conversation_length", min_turns=1)],
    )


def when(type_: str, *keywords: str, **fields) -> TerminationCondition:
    return TerminationCondition(type=type_, place=PLACE, keywords=keywords, **fields)


SATISFIED = when("user_expresses_satisfaction", "thank you", "resolved")
SOLVED = when("agent_provides_solution", "follow these steps")
ESCALATED = when("escalation_needed", "supervisor")
GOAL = when("goal_achieved", "done")


@pytest.mark.parametrize(
    ("condition", "replies", "lines", "expected"),
    [
        (SATISFIED, ["a"], ["hm", "Thank you!", "x"], ("user_expresses_satisfaction", 3)),
        (SATISFIED, ["thank you, resolved"], ["x", "y", "z"], ("max_turns_reached", 4)),
        (SATISFIED, ["a"], ["it is unresolved", "not resolved yet", "z"], ("max_turns_reached", 4)),
        (SATISFIED, ["a"], ["Nothing was resolved.", "Is it resolved?", "z"], ("max_turns_reached", 4)),
        (SATISFIED, ["a"], ["I don't believe this has really been resolved.", "z", "z"], ("max_turns_reached", 4)),
        (SATISFIED, ["a"], ["It is not resolved, thank you.", "Thank you, but no.", "z"], ("max_turns_reached", 4)),
        (SATISFIED, ["a"], ["hm", "Thank you, nothing else!", "x"], ("user_expresses_satisfaction", 3)),
        (GOAL, ["Nothing is done.", "Is it done?"], ["Not done.", "b", "c"], ("max_turns_reached", 4)),
        (SOLVED, ["Do not follow these steps.", "Please follow these steps."], ["b"], ("agent_provides_solution", 2)),
        (
            ESCALATED,
            ["There is no supervisor.", "Do you want a supervisor?", "x"],
            ["b", "c", "d"],
            ("max_turns_reached", 4),
        ),
        (ESCALATED, ["a", "I am connecting you to a supervisor."], ["b"], ("escalation_needed", 2)),
        (when("custom_condition", "refund"), ["a"], ["No refund.", "I want a refund!", "z"], ("max_turns_reached", 4)),
        (when("custom_condition", "refund"), ["a"], ["No refund.", "Refund!"], ("custom_condition", 3)),
        (SATISFIED, ["a"], ["Thank you for wasting my time.", "Resolved, my foot.", "z"], ("max_turns_reached", 4)),
        (SOLVED, ["a", "Follow these steps: 1."], ["b", "c", "d"], ("agent_provides_solution", 2)),
        (SOLVED, ["a"], ["follow these steps", "b", "c"], ("max_turns_reached", 4)),
        (ESCALATED, ["a", "b", "I get a SUPERVISOR."], ["supervisor", "c", "d"], ("escalation_needed", 3)),
        (GOAL, ["a"], ["b", "I am done", "c"], ("goal_achieved", 3)),
        (GOAL, ["a", "All done."], ["b", "c", "d"], ("goal_achieved", 2)),
        (when("conversation_stuck"), ["Same answer."], ["b", "c", "d"], ("conversation_stuck", 3)),
        (when("conversation_stuck"), ["a", "One.", "Two.", "Quite so."], ["b", "c", "d"], ("max_turns_reached", 4)),
        (when("max_turns_reached"), ["a"], ["b", "c", "d"], ("max_turns_reached", 4)),
    ],
)
async def test_by_keyword_or_rule(tmp_path, condition, replies, lines, expected):
    record = await hold(tmp_path, talks(condition), ToldAgent(*replies), user=ToldUser(*lines))
    assert ending(record) == expected
    assert record.judged.verdict is Verdict.PASSED


async def test_the_authors_opening_is_not_a_reaction(tmp_path):
    told = scenario(
        ConversationConfig(max_turns=2, user_simulator=USER, termination_conditions=(SATISFIED,)),
        opening="Is it resolved? thank you",
    )
    record = await hold(tmp_path, told, ToldAgent("a"), user=ToldUser("hm"))
    assert ending(record) == ("max_turns_reached", 2)


async def test_the_condition_that_fired_first_in_the_file_is_the_reason(tmp_path):
    record = await hold(tmp_path, talks(GOAL, SOLVED), ToldAgent("done, follow these steps"), user=ToldUser())
    (figures,) = notes(record, "conversation_ended")
    assert figures == {"reason": "goal_achieved", "evidence": "agent said 'done' in turn 1", "turns": 1}


@pytest.mark.parametrize("type_", ["goal_achieved", "user_expresses_satisfaction", "custom_condition"])
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([("yes", 0.8)], 1),
        ([("YES", 0.79), ("yes", 0.9)], 2),
        ([("no", 1.0), ("no", 0.1), ("yes", 1.0)], 3),
    ],
)
async def test_a_judges_confidence_in_yes_is_compared_with_the_threshold(tmp_path, type_, answers, expected):
    condition = when(type_, llm_judge=TerminationJudge(prompt="Is it over?"))
    judge = ScriptedJudge(*answers)
    record = await hold(tmp_path, talks(condition), ToldAgent("a"), user=ToldUser("b", "c", "d"), judge=judge)
    assert ending(record) == (type_, expected)
    assert judge.asked[-1].prompt == "Is it over?"
    assert [(piece.title, piece.text) for piece in judge.asked[-1].materials[:2]] == [
        ("turn 1, message from the user", "Hello"),
        ("turn 1, message from the agent", "a"),
    ]


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (None, "needs a judge"),
        (ScriptedJudge(NoJudgement("unreadable")), "unreadable"),
        (ScriptedJudge(("yes", None)), "no confidence"),
    ],
)
async def test_a_condition_that_cannot_be_judged_is_an_error(tmp_path, judge, said):
    condition = when("goal_achieved", llm_judge=TerminationJudge(prompt="Is it over?"))
    record = await hold(tmp_path, talks(condition), ToldAgent("a"), user=ToldUser("b"), judge=judge)
    assert record.judged.verdict is Verdict.ERROR
    assert said in record.judged.reason


async def later(turns, trial):
    return "two turns are enough" if len(turns) == 2 else ""


FUNCTIONS = {
    "at_once": lambda turns, trial: True,
    "never": lambda turns, trial: False,
    "later": later,
    "broken": lambda turns, trial: 1 / 0,
    "odd": lambda turns, trial: 5,
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("at_once", ("custom_condition", 1)), ("never", ("max_turns_reached", 4)), ("later", ("custom_condition", 2))],
)
async def test_a_plugins_function_decides(tmp_path, name, expected):
    record = await hold(
        tmp_path, talks(when("custom_condition", function=name)), ToldAgent("a"),
        user=ToldUser("b", "c", "d"), termination=FUNCTIONS.__getitem__,
    )  # fmt: skip
    assert ending(record) == expected
    if name == "later":
        assert "two turns are enough" in notes(record, "conversation_ended")[0]["evidence"]


@pytest.mark.parametrize(("name", "said"), [("broken", "raised ZeroDivisionError"), ("odd", "answered with int")])
async def test_a_function_that_does_not_answer_is_an_error(tmp_path, name, said):
    told = talks(when("custom_condition", function=name))
    record = await hold(tmp_path, told, ToldAgent("a"), user=ToldUser("b"), termination=FUNCTIONS.__getitem__)
    assert record.judged.verdict is Verdict.ERROR
    assert said in record.judged.reason


async def test_a_check_that_the_script_never_came_to_is_not_passed_over(tmp_path):
    script = (ScriptedTurn(say="b"), ScriptedTurn(say="c", evaluations=(check("string_contains", value="a"),)))
    config = ConversationConfig(max_turns=3, script=script, termination_conditions=(when("goal_achieved", "b"),))
    record = await hold(tmp_path, scenario(config), ToldAgent("a"))
    (result,) = record.evaluations
    assert (result.verdict, result.turn, result.stage) == (Verdict.INCONCLUSIVE, 3, "turn")
    assert "was not reached" in result.message
    assert record.judged.verdict is Verdict.INCONCLUSIVE
