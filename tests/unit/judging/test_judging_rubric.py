from __future__ import annotations

import pytest

from steadyhand.judging.rubric import is_timeliness, missing_dimensions, overall_score, timeliness_of
from steadyhand.records.evaluation import LatencyTier, Rubric, RubricDimension
from steadyhand.records.location import Place


def rubric(**weights: float) -> Rubric:
    return Rubric(
        name="r",
        place=Place(file="r.yaml"),
        dimensions=tuple(RubricDimension(name=name, weight=weight) for name, weight in weights.items()),
    )


def test_the_overall_score_is_the_weighted_mean():
    assert overall_score(rubric(a=0.5, b=0.3, c=0.2), {"a": 1.0, "b": 0.5, "c": 0.0}) == pytest.approx(0.65)


def test_weights_need_not_sum_to_one():
    assert overall_score(rubric(a=3, b=1), {"a": 1.0, "b": 0.0}) == pytest.approx(0.75)


@pytest.mark.parametrize("scores", [{}, {"a": 1.0}, {"a": 1.0, "b": 1.5}, {"a": 1.0, "b": float("nan")}])
def test_nothing_is_made_up_for_a_score_that_is_missing(scores: dict[str, float]):
    assert overall_score(rubric(a=0.5, b=0.5), scores) is None
    assert "b" in missing_dimensions(rubric(a=0.5, b=0.5), scores)


def test_without_weight_there_is_no_score():
    assert overall_score(rubric(a=0), {"a": 1.0}) is None
    assert overall_score(rubric(), {}) is None


def test_timeliness_comes_from_the_tier():
    assert [timeliness_of(tier) for tier in LatencyTier] == [1.0, 0.75, 0.5, 0.0]
    assert timeliness_of(None) is None
    assert is_timeliness(" Timeliness")
    assert not is_timeliness("time")
