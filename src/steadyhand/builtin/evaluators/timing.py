"""`latency_budget` and `execution_time`: how long the answer took, and how much of a span was the harness's own."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from steadyhand.builtin.evaluators.text import NonNegativeMilliseconds, PositiveMilliseconds
from steadyhand.judging.trial import tier_of
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.chat import Spoiled, SpoiledBy
from steadyhand.records.evaluation import (
    NOT_RUNNING,
    EvaluationResult,
    Evidence,
    LatencyBounds,
    LatencyTier,
    Verdict,
    failed,
    inconclusive,
    passed,
)
from steadyhand.records.result import ExecutionResult, Latency

_NOTICED_MS = 50.0


class LatencyBudgetParams(EvaluationParams):
    stands_alone: ClassVar[str] = "it grades the latency of the whole answer"

    target_ms: PositiveMilliseconds = Field(description="Ideal response time, in milliseconds")
    acceptable_ms: PositiveMilliseconds = Field(description="Acceptable response time, in milliseconds")
    critical_ms: PositiveMilliseconds = Field(description="Response time beyond which the check fails, in milliseconds")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.target_ms <= self.acceptable_ms <= self.critical_ms:
            found = f"{self.target_ms:g}, {self.acceptable_ms:g} and {self.critical_ms:g}"
            raise ValueError(f"expected target_ms <= acceptable_ms <= critical_ms, found {found}")
        return self

    def bounds(self) -> dict[str, float]:
        return {"target_ms": self.target_ms, "acceptable_ms": self.acceptable_ms, "critical_ms": self.critical_ms}

    def tier(self, latency_ms: float) -> LatencyTier:
        return tier_of(latency_ms, self.target_ms, self.acceptable_ms, self.critical_ms)


class LatencyBudget:
    type: ClassVar[str] = "latency_budget"
    fails_for_good: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = LatencyBudgetParams

    def latency_bounds(self, params: LatencyBudgetParams) -> LatencyBounds:
        return LatencyBounds(
            target_ms=params.target_ms, acceptable_ms=params.acceptable_ms, critical_ms=params.critical_ms
        )

    async def evaluate(
        self, params: LatencyBudgetParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        expected = f"at most {params.critical_ms:g} ms"
        latency = result.latency
        if latency is None or latency.ms is None or not math.isfinite(latency.ms) or latency.ms < 0:
            reasons = "; ".join(map(str, latency.spoiled)) if latency else ""
            return inconclusive(
                f"no latency to grade: {reasons or 'no model call or agent turn was timed'}",
                evidence=Evidence(expected=expected, found="no latency", where="timing"),
            )
        where = "request sent to last byte" if latency.source == "model_call" else "the agent's turn"
        tier = _certain_tier(params, latency)
        if latency.spoiled and tier is None:
            return inconclusive(
                f"the latency of {latency.ms:.1f} ms cannot be graded: {'; '.join(map(str, latency.spoiled))}",
                evidence=Evidence(expected=expected, found=f"{latency.ms:.1f} ms, not gradable", where=where),
                figures={"latency_ms": latency.ms, **params.bounds()},
            )
        if latency.cut:
            return _cut(params, latency.ms)
        assert tier is not None
        evidence = Evidence(expected=expected, found=f"{latency.ms:.1f} ms", where=where)
        figures = {"latency_ms": latency.ms, "tier": str(tier), **params.bounds()}
        if tier is LatencyTier.EXCEEDED:
            message = (
                f"{latency.ms:.1f} ms exceeds the critical time of {params.critical_ms:g} ms{_regardless(latency)}"
            )
            return failed(message, evidence=evidence, figures=figures)
        message = f"{latency.ms:.1f} ms is in the {tier} tier{_regardless(latency)}"
        return passed(message, evidence=evidence, figures=figures)


class ExecutionTimeParams(EvaluationParams):
    max_duration_ms: NonNegativeMilliseconds | None = Field(
        default=None, description="Longest time the agent may take, in milliseconds"
    )
    min_duration_ms: NonNegativeMilliseconds | None = Field(
        default=None, description="Shortest time the agent may take, in milliseconds"
    )
    target_duration_ms: NonNegativeMilliseconds | None = Field(
        default=None, description="Target time, in milliseconds; reported only, never a failure"
    )

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        low, high = self.min_duration_ms, self.max_duration_ms
        if not low and high is None:
            target = "; target_duration_ms is only reported" if self.target_duration_ms is not None else ""
            raise ValueError(f"set max_duration_ms, or a min_duration_ms above 0{target}")
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_duration_ms ({low:g}) is above max_duration_ms ({high:g})")
        return self


class ExecutionTime:
    type: ClassVar[str] = "execution_time"
    params: ClassVar[type[EvaluationParams]] = ExecutionTimeParams

    async def evaluate(
        self, params: ExecutionTimeParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        """Bounds are inclusive. The target is reported and never fails."""
        took = result.duration_ms
        if not math.isfinite(took):
            return inconclusive("the agent's time was not measured")
        not_live = [str(each) for each in _spoiled(result) if each.kind is SpoiledBy.NOT_LIVE]
        if not_live:
            return inconclusive(f"the agent's time was not measured in a live run: {'; '.join(not_live)}")
        figures: dict[str, Any] = {"duration_ms": took}
        note = ""
        if params.target_duration_ms is not None:
            within = took <= params.target_duration_ms
            figures |= {"target_duration_ms": params.target_duration_ms, "within_target": within}
            note = f" (target {params.target_duration_ms:g} ms {'met' if within else 'missed'})"
        low, high = params.min_duration_ms, params.max_duration_ms
        bounds = [f"at least {low:g} ms"] if low is not None else []
        bounds += [f"at most {high:g} ms"] if high is not None else []
        evidence = Evidence(expected=" and ".join(bounds), found=f"{took:.1f} ms", where="the agent's own time")
        broken = _broken(took, low, high)
        least_ms, most_ms = result.duration_bounds or (took, took)
        # Two different bounds may be broken at the ends; `broken` names the bound.
        if _broken(least_ms, low, high) != broken or _broken(most_ms, low, high) != broken:
            return EvaluationResult(
                verdict=Verdict.ERROR,
                message=f"took {least_ms:.0f} to {most_ms:.0f} ms: Steadyhand was not running for part of it",
                evidence=evidence,
                figures={**figures, NOT_RUNNING: round(most_ms - least_ms, 3)},
            )
        if broken is not None:
            return failed(f"took {took:.1f} ms, {broken}{note}", evidence=evidence, figures=figures)
        return passed(f"took {took:.1f} ms{note}", evidence=evidence, figures=figures)


def harness_ms(result: ExecutionResult, start_ms: float, end_ms: float) -> float:
    """Milliseconds between two moments that may have been the harness's own.

    That is queueing, failed attempts and back-off of the model calls begun in between, the time between the turns of a
    conversation, when the user was simulated and checks ran, and time at which this process was not running. Calls that
    waited side by side are all counted, so this is an upper bound.
    """
    away_ms = sum(max(0.0, min(end_ms, ended) - max(start_ms, began)) for began, ended in result.away)
    waited_ms = sum(
        call.timing.attempts[-1].started_ms
        for call in result.calls
        if start_ms <= call.at_ms < end_ms and call.timing.attempts
    )
    return waited_ms + _between_turns_ms(result, start_ms, end_ms) + away_ms


def away_figures(result: ExecutionResult) -> dict[str, float]:
    """For a check that could not be decided: that this process was not running, if that may be the reason."""
    return {NOT_RUNNING: round(sum(ended - began for began, ended in result.away), 3)} if result.away else {}


def earliest_ms(result: ExecutionResult, at_ms: float) -> float:
    """When something that was stamped at `at_ms` can have happened at the earliest: while this process was not running,
    it took no notice."""
    found = (began for began, ended in result.away if began <= at_ms <= ended + _NOTICED_MS)
    return min(found, default=at_ms)


def _between_turns_ms(result: ExecutionResult, start_ms: float, end_ms: float) -> float:
    turns = result.conversation.turns if result.conversation is not None else ()
    if not turns:
        return 0.0
    inside_ms = [min(end_ms, turn.ended_at_ms) - max(start_ms, turn.started_at_ms) for turn in turns]
    return max(0.0, end_ms - start_ms - sum(ms for ms in inside_ms if ms > 0))


def _certain_tier(params: LatencyBudgetParams, latency: Latency) -> LatencyTier | None:
    """The latency's tier if no disturbance can have changed it, else None."""
    if latency.ms is not None and not latency.spoiled and not latency.cut:
        return params.tier(latency.ms)
    low_ms, high_ms = latency.bounds
    if latency.cut:
        return LatencyTier.EXCEEDED if low_ms >= params.critical_ms else None
    tier = params.tier(low_ms)
    return tier if tier is params.tier(high_ms) else None


def _regardless(latency: Latency) -> str:
    return f" either way ({'; '.join(map(str, latency.spoiled))})" if latency.spoiled else ""


def _cut(params: LatencyBudgetParams, ms: float) -> EvaluationResult:
    """The answer was incomplete when the call was cut off after `ms`: its latency is more than that."""
    evidence = Evidence(
        expected=f"at most {params.critical_ms:g} ms", found=f"more than {ms:.1f} ms", where="the call was cut off"
    )
    figures = {"latency_ms": ms, **params.bounds()}
    if ms < params.critical_ms:
        message = f"the call was cut off after {ms:.1f} ms, before the critical time of {params.critical_ms:g} ms"
        return inconclusive(message, evidence=evidence, figures=figures)
    message = f"the answer was incomplete when the call was cut off after {ms:.1f} ms"
    return failed(message, evidence=evidence, figures={**figures, "tier": LatencyTier.EXCEEDED.value})


def _broken(took: float, low: float | None, high: float | None) -> str | None:
    if high is not None and took > high:
        return f"above the maximum of {high:g} ms"
    if low is not None and took < low:
        return f"below the minimum of {low:g} ms"
    return None


def _spoiled(result: ExecutionResult) -> tuple[Spoiled, ...]:
    return () if result.latency is None else result.latency.spoiled
