"""Scores a reply by a rubric: one question to the judge for all dimensions except timeliness, which is computed from
the latency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from steadyhand.judging.rubric import NO_JUDGE, is_timeliness, missing_dimensions, overall_score
from steadyhand.ports.agent import Judge, Judgement, NoJudgement, Question, TrialContext
from steadyhand.records.evaluation import Material, Rubric, RubricDimension, RubricScore
from steadyhand.records.scenario import Scenario

_TASK = """\
Does the agent's final reply state anything fabricated: facts, findings, sources or actions that the records neither \
contain nor support? Also score the reply by the rubric "{rubric}", each dimension on its own, from 0 to 1; an \
anchor describes a reply of that score, and scores between anchors are allowed. Set `judgment` to yes if something is \
fabricated, and quote it in `evidence`; else set it to no and leave `evidence` empty."""


async def score_rubric(
    rubric: Rubric,
    scenario: Scenario,
    materials: Sequence[Material],
    *,
    judge: Judge | None,
    trial: TrialContext,
    timeliness: float | None,
) -> RubricScore:
    """Never raises because of the judge. The model under test is never asked to score itself.

    `timeliness` is `judging.rubric.timeliness_of` the latency tier.
    """
    if judge is None or judge.self_judged:
        return RubricScore(name=rubric.name, reason=NO_JUDGE)
    asked = [dimension for dimension in rubric.dimensions if not is_timeliness(dimension.name)]
    timed = [dimension for dimension in rubric.dimensions if is_timeliness(dimension.name)]
    scores = {dimension.name: timeliness for dimension in timed if timeliness is not None}
    question = Question(
        prompt=_prompt(rubric, scenario, asked),
        materials=tuple(materials),
        json_schema=_schema(asked),
        votes=1,
    )
    try:
        judgement = await judge.ask(question, trial)
    except NoJudgement as error:
        return RubricScore(name=rubric.name, scores=scores, reason=f"not scored: {error}", note=error.note)
    scores |= _scores(judgement, asked)
    fabricated, evidence = _fabricated(judgement)
    missing = missing_dimensions(rubric, scores)
    return RubricScore(
        name=rubric.name,
        scores={name: scores[name] for name in (dimension.name for dimension in rubric.dimensions) if name in scores},
        overall=overall_score(rubric, scores),
        fabricated=fabricated,
        evidence=evidence,
        reason=f"no usable score for {', '.join(missing)}" if missing else None,
        note=judgement.note,
    )


def _prompt(rubric: Rubric, scenario: Scenario, asked: Sequence[RubricDimension]) -> str:
    parts = [
        _TASK.format(rubric=rubric.name),
        f"The scenario: {scenario.name}\n{scenario.description.strip()}",
    ]
    if scenario.expected_action:
        parts.append(f"What a correct reply does, by the scenario's author: {scenario.expected_action.strip()}")
    if rubric.description:
        parts.append(f"About the rubric: {rubric.description.strip()}")
    parts += [_described(dimension) for dimension in asked]
    return "\n\n".join(parts)


def _described(dimension: RubricDimension) -> str:
    lines = [f"Dimension {dimension.name!r}: {dimension.description.strip()}".rstrip(": ")]
    lines += [f"- {anchor.score:g}: {anchor.text.strip()}" for anchor in dimension.anchors]
    return "\n".join(lines)


def _schema(asked: Sequence[RubricDimension]) -> dict[str, Any]:
    score = {
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "score": {"type": "number", "minimum": 0, "maximum": 1}},
        "required": ["reasoning", "score"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "scores": {
                "type": "object",
                "properties": {dimension.name: score for dimension in asked},
                "required": [dimension.name for dimension in asked],
                "additionalProperties": False,
            },
            "evidence": {"type": "string"},
            "judgment": {"type": "string", "enum": ["yes", "no"]},
        },
        "required": ["scores", "evidence", "judgment"],
        "additionalProperties": False,
    }


def _scores(judgement: Judgement, asked: Sequence[RubricDimension]) -> dict[str, float]:
    """The usable scores as given: nothing is clamped, rounded or filled in."""
    given: Any = judgement.fields.get("scores")
    if not isinstance(given, dict):
        return {}
    entries = cast("dict[str, Any]", given)
    found: dict[str, float] = {}
    for dimension in asked:
        entry: Any = entries.get(dimension.name)
        score: Any = cast("dict[str, Any]", entry).get("score") if isinstance(entry, dict) else None
        if isinstance(score, int | float) and not isinstance(score, bool) and 0 <= score <= 1:
            found[dimension.name] = float(score)
    return found


def _fabricated(judgement: Judgement) -> tuple[bool | None, str | None]:
    """Fabrication counts only with evidence, and its absence only without."""
    evidence: Any = judgement.fields.get("evidence")
    shown = evidence.strip() if isinstance(evidence, str) else ""
    match judgement.judgment.strip().casefold():
        case "yes":
            return (True, shown) if shown else (None, None)
        case "no":
            return (None, None) if shown else (False, None)
        case _:
            return None, None
