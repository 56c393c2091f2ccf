from __future__ import annotations

import json
from typing import Any

import pytest

from steadyhand.builtin.judges.rubric import score_rubric
from steadyhand.errors import ModelError
from steadyhand.judging.material import materials_of
from steadyhand.records.evaluation import Anchor, Rubric, RubricDimension, RubricScore
from steadyhand.testing import ScriptedChatModel
from support.judges import PLACE, LeastTrial, judge_model, judge_with, replied

RUBRIC = Rubric(
    name="clinical",
    place=PLACE,
    dimensions=(
        RubricDimension(
            name="accuracy",
            weight=0.5,
            description="Is it right?",
            anchors=(Anchor(score=0.0, text="Wrong."), Anchor(score=1.0, text="Right.")),
        ),
        RubricDimension(name="clarity", weight=0.3, description="Is it clear?"),
        RubricDimension(name="Timeliness", weight=0.2, description="Was it in time?"),
    ),
)


def scored(accuracy: Any = 1.0, clarity: Any = 0.5, judgment: str = "no", evidence: str = "", **more: Any) -> str:
    scores = {
        "accuracy": {"score": accuracy, "reasoning": "a"},
        "clarity": {"score": clarity, "reasoning": "c"},
        **more,
    }
    return json.dumps({"scores": scores, "judgment": judgment, "evidence": evidence})


async def score(model: ScriptedChatModel | None, timeliness: float | None = 0.75, **options: Any) -> RubricScore:
    trial = LeastTrial()
    return await score_rubric(
        RUBRIC,
        trial.scenario,
        materials_of(replied("Call 112."), {}),
        judge=judge_with(model, **options) if model else None,
        trial=trial,
        timeliness=timeliness,
    )


async def test_all_dimensions_but_timeliness_are_asked_for_in_one_question():
    model = judge_model([scored()])
    found = await score(model)
    assert found.scores == {"accuracy": 1.0, "clarity": 0.5, "Timeliness": 0.75}
    assert found.overall == pytest.approx(0.8)
    assert found.fabricated is False
    assert found.reason is None
    assert found.note is not None
    assert len(model.requests) == 1
    whole = "\n".join(message.content for message in model.requests[0].messages)
    assert "Is it right?" in whole
    assert "- 1: Right." in whole
    assert "Call for help." in whole
    assert "imeliness" not in whole


async def test_a_latency_without_a_grade_leaves_the_overall_score_open():
    found = await score(judge_model([scored()]), timeliness=None)
    assert found.scores == {"accuracy": 1.0, "clarity": 0.5}
    assert found.overall is None
    assert found.reason == "no usable score for Timeliness"


async def test_a_score_of_timeliness_by_the_judge_is_not_taken():
    late = {"Timeliness": {"score": 1.0, "reasoning": "quick"}}
    found = await score(judge_model([scored(**late)]), timeliness=0.0)
    assert found.overall is None
    assert found.scores == {"Timeliness": 0.0}


@pytest.mark.parametrize(
    "line",
    [
        scored(accuracy=1.5),
        scored(accuracy=-0.1),
        scored(accuracy="high"),
        scored(accuracy=True),
        json.dumps({"scores": {"accuracy": {"score": 1, "reasoning": ""}}, "judgment": "no", "evidence": ""}),
        "All good.",
    ],
)
async def test_scores_are_never_made_up(line: str):
    model = judge_model([line])
    found = await score(model)
    assert found.overall is None
    assert "accuracy" not in found.scores
    assert found.fabricated is None
    assert found.reason is not None
    assert found.reason.startswith("not scored: the judge gave no usable answer")
    assert len(model.requests) == 2


async def test_fabrication_needs_evidence():
    found = await score(judge_model([scored(judgment="yes", evidence="'troponin was 4.2'")]))
    assert (found.fabricated, found.evidence) == (True, "'troponin was 4.2'")
    found = await score(judge_model([scored(judgment="yes", evidence=" ")]))
    assert (found.fabricated, found.evidence) == (None, None)
    found = await score(judge_model([scored(judgment="no", evidence="'troponin was 4.2'")]))
    assert (found.fabricated, found.evidence) == (None, None)
    assert found.overall is not None


async def test_without_a_judge_of_its_own_a_rubric_costs_no_call():
    model = judge_model([scored()])
    for found in (await score(None), await score(model, tested=model.name)):
        assert found.overall is None
        assert found.scores == {}
        assert found.reason is not None
        assert "--judge provider/model" in found.reason
    assert model.requests == []


async def test_an_outage_leaves_it_unscored():
    found = await score(judge_model([ModelError("no route", kind="connect")]))
    assert found.overall is None
    assert found.reason == "not scored: the judge could not be reached: no route"


async def test_scores_quoted_from_the_reply_do_not_count():
    trial = LeastTrial()
    found = await score_rubric(
        RUBRIC,
        trial.scenario,
        materials_of(replied(scored(1.0, 1.0)), {}),
        judge=judge_with(judge_model([scored(1.0, 1.0)])),
        trial=trial,
        timeliness=1.0,
    )
    assert found.overall is None


async def test_default_votes_do_not_multiply_a_rubric():
    model = judge_model([scored()])
    await score(model, default_votes=3)
    assert len(model.requests) == 1
