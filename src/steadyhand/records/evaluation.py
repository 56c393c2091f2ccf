"""A check to make, and what came of it."""

from __future__ import annotations

from typing import Any, Literal

from steadyhand.records.base import Record
from steadyhand.records.location import Place
from steadyhand.records.verdict import Verdict

Stage = Literal["step", "turn", "final"]
Ground = Literal["presence", "absence"]

EMPTY_REPLY = "empty_reply"
"""A figure of a check that failed because nothing was said at all."""


class EvaluationSpec(Record):
    """A check as the scenario asks for it.

    `params` are the evaluator's own, validated against its `Params` when the file was loaded. An evaluation with a
    `severity` is a safety invariant; without one it is an ordinary check.
    """

    type: str
    place: Place
    params: dict[str, Any] = {}
    name: str | None = None
    description: str | None = None
    severity: float | None = None
    weight: float = 1.0


class Evidence(Record, array_like=True):
    """What was expected, what was found, and where."""

    expected: str | None = None
    found: str | None = None
    where: str | None = None
    excerpt: str | None = None


class JudgeNote(Record):
    """What a judge was asked and what it answered, so that its word can be checked.

    `not_shown` names what the judge could not be shown. It was not asked then, and `raw` is empty.
    """

    model: str
    prompt_hash: str
    raw: str
    self_judged: bool = False
    confidence: float | None = None
    reasoning: str | None = None
    capabilities: dict[str, bool] = {}
    votes: tuple[str, ...] = ()
    repaired: bool = False
    not_shown: tuple[str, ...] = ()


class EvaluationResult(Record, array_like=True):
    """What came of a check.

    An evaluator fills `verdict`, `message`, `evidence`, `figures` and `judge` (the functions below help); the engine
    adds the rest from the specification it ran.

    `rests_on` is what decided it, where the evaluator can tell: *absence* when it passed because something was not
    there, *presence* when it failed because something was. `self_reported` is what it knows from the agent alone.
    """

    verdict: Verdict
    message: str
    evidence: Evidence | None = None
    figures: dict[str, Any] = {}
    judge: JudgeNote | None = None
    type: str = ""
    place: Place | None = None
    name: str | None = None
    description: str | None = None
    severity: float | None = None
    weight: float = 1.0
    stage: Stage = "step"
    step: int = 0
    turn: int | None = None
    duration_ms: float = 0.0
    rests_on: Ground | None = None
    self_reported: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        return self.verdict is Verdict.PASSED


def passed(
    message: str,
    *,
    evidence: Evidence | None = None,
    figures: dict[str, Any] | None = None,
    rests_on: Ground | None = None,
) -> EvaluationResult:
    return EvaluationResult(
        verdict=Verdict.PASSED, message=message, evidence=evidence, figures=figures or {}, rests_on=rests_on
    )


def failed(
    message: str,
    *,
    evidence: Evidence | None = None,
    figures: dict[str, Any] | None = None,
    rests_on: Ground | None = None,
) -> EvaluationResult:
    return EvaluationResult(
        verdict=Verdict.FAILED, message=message, evidence=evidence, figures=figures or {}, rests_on=rests_on
    )


def inconclusive(
    message: str, *, evidence: Evidence | None = None, figures: dict[str, Any] | None = None
) -> EvaluationResult:
    """It could not be told. Never a pass, and not the agent's failure."""
    return EvaluationResult(verdict=Verdict.INCONCLUSIVE, message=message, evidence=evidence, figures=figures or {})
