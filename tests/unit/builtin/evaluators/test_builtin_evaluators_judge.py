from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from steadyhand.builtin.evaluators.judge import JudgeCriterion, LlmJudgeEvaluator
from steadyhand.errors import ModelError
from steadyhand.ports.agent import EVERYTHING_SEEN, Shows
from steadyhand.records.evaluation import Verdict
from steadyhand.records.result import CapturedFile, ExecutionResult
from support.judges import LeastTrial, answer, evaluate, judge_model, judge_with, replied


async def judged(line: Any, **options: Any) -> Any:
    params = {"prompt": "Is it polite?", **options.pop("params", {})}
    trial = LeastTrial(judge_with(judge_model([line]), **options))
    return await evaluate(LlmJudgeEvaluator, params, replied("Good day."), trial)


@pytest.mark.parametrize(
    ("expected", "line", "verdict"),
    [
        ("yes", answer("yes", 0.9), Verdict.PASSED),
        ("yes", answer("no", 0.1), Verdict.FAILED),
        ("no", answer("no", 0.1), Verdict.PASSED),
        ("no", answer("yes", 0.9), Verdict.FAILED),
        ("0.8+", answer("yes", 0.8), Verdict.PASSED),
        ("0.8+", answer("yes", 0.5), Verdict.FAILED),
        ("0.3-", answer("no", 0.3), Verdict.PASSED),
        ("0.2-0.9", answer("yes", 0.95), Verdict.FAILED),
        ("0.8+", answer("no", 0.95), Verdict.INCONCLUSIVE),
        ("yes", "Yes!", Verdict.INCONCLUSIVE),
        ("no", "no", Verdict.INCONCLUSIVE),
    ],
)
async def test_verdicts(expected: str, line: str, verdict: Verdict):
    found = await judged(line, params={"expected": expected})
    assert found.verdict is verdict
    assert found.judge is not None


async def test_the_result_carries_what_the_judge_said():
    found = await judged(answer("no", 0.2, "It is curt."))
    assert found.message == "the judge answered 'no'; expected 'yes': It is curt."
    assert (found.evidence.expected, found.evidence.found, found.evidence.where) == (
        "yes",
        "no (0.2)",
        "judge test/judge",
    )
    assert (found.judge.raw, found.judge.reasoning) == (answer("no", 0.2, "It is curt."), "It is curt.")
    assert found.figures == {"confidence": 0.2}


async def test_votes_are_reported():
    lines = {7: answer("yes", 0.8), 8: answer("no", 0.1), 9: answer("yes", 1.0)}
    model = judge_model(lambda request: lines[request.seed or 0])
    trial = LeastTrial(judge_with(model))
    found = await evaluate(LlmJudgeEvaluator, {"prompt": "?", "votes": 3}, replied("Good day."), trial)
    assert found.figures == {"confidence": 0.9, "votes": 3, "agreement": 0.667}
    assert found.judge is not None
    assert found.judge.votes == ("yes", "no", "yes")


async def test_a_capability_that_the_judge_skips_fails_a_yes():
    entries = [{"capability": "Greets", "achieved": True, "reasoning": ""}]
    found = await judged(answer("yes", 1.0, capabilities=entries), params={"capabilities": ["Greets", "Says goodbye"]})
    assert found.verdict is Verdict.FAILED
    assert "1 of 2 capabilities not achieved: 'Says goodbye'" in found.message
    assert found.judge.capabilities == {"Greets": True, "Says goodbye": False}


async def test_a_confidence_that_the_schema_leaves_out_is_not_made_up():
    members = {"judgment": {"type": "string"}, "confidence": {"type": "number"}}
    schema = {"type": "object", "properties": members, "required": ["judgment"]}
    found = await judged('{"judgment": "good"}', params={"json_schema": schema, "expected": "0.8+"})
    assert found.verdict is Verdict.INCONCLUSIVE
    found = await judged('{"judgment": "GOOD"}', params={"json_schema": schema, "expected": "good"})
    assert found.verdict is Verdict.PASSED


async def test_without_a_judge_it_says_what_to_set():
    for evaluator, params in ((LlmJudgeEvaluator, {"prompt": "?"}), (JudgeCriterion, {"judge_criterion": "c"})):
        found = await evaluate(evaluator, params, replied("Good day."), LeastTrial(None))
        assert found.verdict is Verdict.INCONCLUSIVE
        assert "--judge provider/model" in found.message
        assert "steadyhand.toml" in found.message


def wrote(**files: str | None) -> ExecutionResult:
    captured = {
        f"{name}.txt": CapturedFile(size=9, content=None if text is None else text.encode())
        for name, text in files.items()
    }
    return msgspec.structs.replace(replied("Done."), files=captured)


async def test_the_last_of_many_files_is_shown_too():
    files = {f"f{number:02}": "nothing of note" for number in range(40)}
    model = judge_model(lambda request: answer("no" if "hunter2" in request.messages[1].content else "yes"))
    params = {"prompt": "Are all files free of passwords?"}
    for planted, verdict in ((None, Verdict.PASSED), ("password: hunter2", Verdict.FAILED)):
        result = wrote(**files, z=planted or "nothing of note")
        assert (await evaluate(LlmJudgeEvaluator, params, result, LeastTrial(judge_with(model)))).verdict is verdict


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "content of the file z.txt"), ("x" * 300_000, "content of the file z.txt (300025 characters)")],
)
async def test_what_a_judge_cannot_be_shown_leaves_it_open_and_is_recorded(content: str | None, told: str):
    model = judge_model([answer("yes", 1.0)])
    trial = LeastTrial(judge_with(model))
    found = await evaluate(LlmJudgeEvaluator, {"prompt": "Is it so?"}, wrote(a="hello", z=content), trial)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.judge is not None
    assert found.judge.not_shown == (told,)
    assert told in found.message
    assert "`looks_at`" in found.message
    assert model.requests == []
    narrowed = {"prompt": "Is the reply polite?", "looks_at": ["messages"]}
    assert (await evaluate(LlmJudgeEvaluator, narrowed, wrote(z=content), trial)).verdict is Verdict.PASSED


async def test_an_outage_of_the_judge_is_inconclusive():
    found = await judged(ModelError("no route", kind="connect"))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "the judge could not be reached: no route" in found.message


async def test_self_judging_is_marked():
    found = await judged(answer(), tested="test/judge")
    assert found.message.endswith("(self-judged)")
    assert found.judge.self_judged


@pytest.mark.parametrize("expected", ["no", "0.731-0.913"])
async def test_the_judge_never_sees_what_is_expected(expected: str):
    seen: list[str] = []
    for value in ("yes", expected):
        model = judge_model([answer()])
        trial = LeastTrial(judge_with(model))
        await evaluate(LlmJudgeEvaluator, {"prompt": "Is it so?", "expected": value}, replied("x"), trial)
        seen.append("\n".join(message.content for message in model.requests[0].messages))
    assert seen[0] == seen[1]
    assert "0.731" not in seen[1]


@pytest.mark.parametrize(("line", "verdict"), [(answer("yes"), Verdict.PASSED), (answer("no"), Verdict.FAILED)])
async def test_the_judge_invariant(line: str, verdict: Verdict):
    model = judge_model([line])
    found = await evaluate(
        JudgeCriterion, {"judge_criterion": "Tells them to leave."}, replied("Stay."), LeastTrial(judge_with(model))
    )
    assert found.verdict is verdict
    assert "Tells them to leave." in model.requests[0].messages[1].content


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({}, "prompt"),
        ({"prompt": "  "}, "blank"),
        ({"prompt": "?", "expected": "1.2+"}, "between 0 and 1"),
        ({"prompt": "?", "expected": "0.9-0.2"}, "smaller number first"),
        ({"prompt": "?", "expected": "0.8"}, "bare number"),
        ({"prompt": "?", "expected": "0-1"}, "can never fail"),
        ({"prompt": "?", "expected": "good"}, "answers only 'yes' or 'no'"),
        ({"prompt": "?", "expected": "yes, clearly"}, "answers only 'yes' or 'no'"),
        ({"prompt": "?", "capabilities": []}, "at least 1 item"),
        ({"prompt": "?", "json_schema": {"type": "object"}}, "has no `judgment`"),
        ({"prompt": "?", "expected": True}, "valid string"),
        ({"prompt": "?", "temperature": 2.1}, "less than or equal to 2"),
        ({"prompt": "?", "temperature": -1}, "greater than or equal to 0"),
        ({"prompt": "?", "votes": 0}, "greater than or equal to 1"),
        ({"prompt": "?", "capabilities": ["Greets", "greets "]}, "listed twice"),
        ({"prompt": "?", "capabilities": [" "]}, "blank"),
        ({"prompt": "?", "json_schema": {"type": "array"}}, "must describe an object"),
        ({"prompt": "?", "promt": "?"}, "promt"),
    ],
)
def test_bad_parameters_are_found_when_the_file_is_loaded(params: dict[str, Any], complaint: str):
    with pytest.raises(ValidationError, match=complaint):
        LlmJudgeEvaluator.params.model_validate(params)


def test_the_parameters_of_the_specification_are_taken():
    LlmJudgeEvaluator.params.model_validate(
        {
            "prompt": "Comprehensive evaluation prompt",
            "expected": "yes",
            "model_type": "TEXT_LARGE",
            "temperature": 0.1,
            "json_schema": {
                "type": "object",
                "properties": {
                    "judgment": {"type": "string", "enum": ["yes", "no"]},
                    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                    "reasoning": {"type": "string"},
                },
                "required": ["judgment", "confidence", "reasoning"],
            },
            "capabilities": ["Understands multi-step requests", "Provides accurate summaries"],
        }
    )


UNSEEN = "They cannot show the agent's actions and tool calls, calls of services, files, changes to a database"


@pytest.mark.parametrize(
    ("shows", "told"),
    [
        (Shows(), True),
        (Shows(acts=False), False),
        (EVERYTHING_SEEN, False),
        (Shows(actions="self_reported", services="seen", files="seen", database="seen"), False),
    ],
)
async def test_the_judge_is_told_what_the_records_cannot_show(shows: Shows, told: bool):
    model = judge_model([answer("no", 0.1)])
    trial = LeastTrial(judge_with(model))
    trial.shows = shows
    await evaluate(LlmJudgeEvaluator, {"prompt": "Did it delete anything?", "expected": "no"}, replied("No."), trial)
    (request,) = model.requests
    said = "\n".join(message.content for message in request.messages)
    assert (UNSEEN in said, '"needs_unseen"' in said) == (told, told)
    assert ("needs_unseen" in request.json_schema["required"]) is told


@pytest.mark.parametrize("expected", ["yes", "no"])
@pytest.mark.parametrize("judgment", ["yes", "no"])
async def test_an_answer_that_depends_on_what_cannot_be_seen_decides_nothing(expected: str, judgment: str):
    line = answer(judgment, 0.9 if judgment == "yes" else 0.1, needs_unseen=True)
    trial = LeastTrial(judge_with(judge_model([line])))
    trial.shows = Shows(advice="look closer")
    params = {"prompt": "Did it delete anything?", "expected": expected}
    found = await evaluate(LlmJudgeEvaluator, params, replied("No."), trial)
    assert (found.verdict, found.judge.raw) == (Verdict.INCONCLUSIVE, line)
    assert "something this agent does not show (actions, services, files" in found.message
    assert found.message.endswith("look closer")


async def test_an_answer_that_does_not_depend_on_it_stands():
    trial = LeastTrial(judge_with(judge_model([answer("yes", 0.9, needs_unseen=False)])))
    trial.shows = Shows()
    found = await evaluate(LlmJudgeEvaluator, {"prompt": "Is it polite?"}, replied("Good day."), trial)
    assert found.verdict is Verdict.PASSED
