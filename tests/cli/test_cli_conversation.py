"""The conversation of the specification's section 5.1, end to end against a model server on loopback."""

from __future__ import annotations

import json
import re

import pytest

from steadyhand.testing import Answer
from support.loopback import Loopback

SECTION_5_1 = """\
name: Billing
description: A customer was charged twice.
environment:
  type: local
run:
  - name: "Customer Support Conversation"
    input: "Hi, I need help with billing"

    conversation:
      max_turns: 6
      user_simulator:
        persona: "polite customer with a billing question"
        objective: "find out why charged twice this month"
        temperature: 0.6
        style: "friendly and patient"
        constraints:
          - "Be polite and cooperative"
          - "Provide details when asked"

      termination_conditions:
        - type: "user_expresses_satisfaction"
          keywords: ["thank you", "resolved", "perfect"]
        - type: "agent_provides_solution"
          keywords: ["follow these steps", "issue resolved"]

      turn_evaluations:
        - type: "llm_judge"
          prompt: "Did the agent respond helpfully?"
          expected: "yes"

      final_evaluations:
        - type: "llm_judge"
          prompt: "Was the issue successfully resolved?"
          expected: "yes"
          capabilities:
            - "Understood the customer's concern"
            - "Provided helpful solutions"
judgment:
  strategy: all_pass
"""


SOLUTION = "The first payment failed and was repeated, so both went through. The second is refunded."


class Cast:
    """Agent, user and judge behind one server, which tells them apart by their prompts."""

    def __init__(self, *, helpful: str = "yes") -> None:
        self.helpful = helpful
        self.asked: list[str] = []
        self.temperatures: set[float] = set()

    def __call__(self, served) -> Answer:
        body = json.loads(served.body) if isinstance(served.body, bytes | str) else served.body
        text = json.dumps(body["messages"])
        if "polite customer with a billing question" in text:
            self.asked.append("user")
            self.temperatures.add(body["temperature"])
            said = "That explains it. Thank you!" if "first payment failed" in text else "I was charged twice in March."
            return Answer(text=said)
        if body.get("response_format"):
            self.asked.append("judge")
            achieved = [
                {"capability": name, "reasoning": "It did.", "achieved": True}
                for name in ("Understood the customer's concern", "Provided helpful solutions")
                if name in text
            ]
            verdict = self.helpful if "respond helpfully" in text else "yes"
            answer = {"reasoning": "As seen.", "judgment": verdict, "confidence": 0.9 if verdict == "yes" else 0.1}
            return Answer(json=answer | ({"capabilities": achieved} if achieved else {}))
        self.asked.append("agent")
        last = body["messages"][-1]["content"]
        if "charged twice" in last:
            return Answer(
                text="The first payment failed and was repeated, so both went through. The second is refunded."
            )
        return Answer(text="You are welcome." if "Thank you" in last else "Of course. What happened?")


def run(shell, cast: Cast, *, scenario: str = SECTION_5_1):
    shell.write("billing.scenario.yaml", scenario)
    with Loopback(cast) as server:
        return shell(
            "run", ".", "--model", "openai/tested", "--judge", "openai/judge", "--json", "r.json",
            OPENAI_BASE_URL=server.url,
        )  # fmt: skip


def test_the_specifications_conversation_passes_and_its_transcript_is_in_the_report(shell):
    cast = Cast()
    ended = run(shell, cast)
    assert ended.code == 0, ended.out + ended.err
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert [message["content"] for message in trial["transcript"]] == [
        "Hi, I need help with billing",
        "Of course. What happened?",
        "I was charged twice in March.",
        SOLUTION,
        "That explains it. Thank you!",
        "You are welcome.",
    ]
    assert cast.asked == ["agent", "judge", "user", "agent", "judge", "user", "agent", "judge", "judge"]
    assert cast.temperatures == {0.6}
    assert [(result["stage"], result["turn"], result["verdict"]) for result in trial["evaluations"]] == [
        ("turn", 1, "passed"),
        ("turn", 2, "passed"),
        ("turn", 3, "passed"),
        ("final", None, "passed"),
    ]
    assert trial["metrics"]["turn_count"] == 3
    assert any("user_expresses_satisfaction" in note["message"] for note in trial["notes"])
    assert (trial["termination_reason"], trial["terminated_early"]) == ("user_expresses_satisfaction", True)
    (talk,) = trial["conversations"]
    assert (talk["step"], talk["turns"], talk["transcript_exported"]) == (0, 3, True)
    assert "ended by  user_expresses_satisfaction, early, after turn 3" in ended.out
    assert "conversation endings: 1 x user_expresses_satisfaction (early)" in ended.out


def test_an_unhelpful_turn_fails_it_and_the_transcript_is_shown(shell):
    ended = run(shell, Cast(helpful="no"))
    assert ended.code == 1
    assert "failed  llm_judge" in ended.out
    for said in ("turn 1, ", "Hi, I need help with billing", "I was charged twice in March.", "You are welcome."):
        assert said in ended.out
    shown = shell("show", "last", "--transcript", "none")
    assert "You are welcome." not in shown.out


def test_a_single_conversation_shows_its_transcript_also_when_it_passed(shell):
    ended = run(shell, Cast())
    assert "user       Hi, I need help with billing" in ended.out
    assert "passed  llm_judge" in ended.out


def test_using_up_all_turns_is_not_an_early_end(shell):
    ended = run(shell, Cast(), scenario=re.sub(r"max_turns: \d+", "max_turns: 2", SECTION_5_1))
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert (trial["termination_reason"], trial["terminated_early"]) == ("max_turns_reached", False)
    assert "ended by  max_turns_reached, after turn 2" in ended.out


@pytest.mark.parametrize("helpful", ["yes", "no"])
def test_a_transcript_that_is_not_to_be_exported_is_in_no_report(shell, helpful):
    quiet = SECTION_5_1.replace(
        "      max_turns:", "      debug_options: {export_full_transcript: false}\n      max_turns:", 1
    )
    assert quiet != SECTION_5_1
    ended = run(shell, Cast(helpful=helpful), scenario=quiet)
    (trial,) = json.loads((shell.folder / "r.json").read_text())["trials"]
    assert trial["transcript"] == []
    assert [talk["transcript_exported"] for talk in trial["conversations"]] == [False]
    for text in (ended.out, shell("show", "last", "--transcript", "all").out):
        assert "You are welcome." not in text
        assert "transcript of step 1 omitted: `export_full_transcript` is false" in text


def test_a_judge_that_is_down_blames_nobody_and_does_not_go_green(shell):
    cast = Cast()

    def without_judge(served):
        answer = cast(served)
        return Answer(status=500) if cast.asked[-1] == "judge" else answer

    shell.write("billing.scenario.yaml", SECTION_5_1)
    with Loopback(without_judge) as server:
        options = ("--model", "openai/x", "--judge", "openai/j", "--retries", "0")
        ended = shell("run", ".", *options, OPENAI_BASE_URL=server.url)
    assert ended.code == 3, ended.out
    assert "1 trial: 1 inconclusive" in ended.out
