"""`latency_budget`: which tier of the budget the answer's latency fell in."""

from __future__ import annotations

import math
from typing import ClassVar, Self

from pydantic import model_validator

from steadyhand.builtin.evaluators.parameters import PositiveMilliseconds
from steadyhand.ports.evaluator import EvaluationContext, EvaluationParams
from steadyhand.records.evaluation import EvaluationResult, Evidence, LatencyTier, failed, inconclusive, passed
from steadyhand.records.result import ExecutionResult, Latency


class LatencyBudgetParams(EvaluationParams):
    target_ms: PositiveMilliseconds
    acceptable_ms: PositiveMilliseconds
    critical_ms: PositiveMilliseconds

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.target_ms <= self.acceptable_ms <= self.critical_ms:
            found = f"{self.target_ms:g}, {self.acceptable_ms:g} and {self.critical_ms:g}"
            raise ValueError(f"needs target_ms <= acceptable_ms <= critical_ms; found {found}")
        return self

    def bounds(self) -> dict[str, float]:
        return {"target_ms": self.target_ms, "acceptable_ms": self.acceptable_ms, "critical_ms": self.critical_ms}

    def tier(self, latency_ms: float) -> LatencyTier:
        """All bounds are inclusive."""
        if latency_ms <= self.target_ms:
            return LatencyTier.TARGET
        if latency_ms <= self.acceptable_ms:
            return LatencyTier.ACCEPTABLE
        return LatencyTier.CRITICAL if latency_ms <= self.critical_ms else LatencyTier.EXCEEDED


class LatencyBudget:
    type: ClassVar[str] = "latency_budget"
    fails_for_good: ClassVar[bool] = True
    params: ClassVar[type[EvaluationParams]] = LatencyBudgetParams

    async def evaluate(
        self, params: LatencyBudgetParams, result: ExecutionResult, context: EvaluationContext
    ) -> EvaluationResult:
        expected = f"at most {params.critical_ms:g} ms"
        latency = result.latency
        if latency is None or latency.ms is None or not math.isfinite(latency.ms) or latency.ms < 0:
            reasons = "; ".join(map(str, latency.spoiled)) if latency else ""
            return inconclusive(
                f"there is no latency to grade: {reasons or 'no model call or agent turn was timed'}",
                evidence=Evidence(expected=expected, found="no latency", where="timing"),
            )
        where = "request sent to last byte" if latency.source == "model_call" else "the agent's turn"
        tier = _certain_tier(params, latency)
        if latency.spoiled and tier is None:
            return inconclusive(
                f"the latency of {latency.ms:.1f} ms is not graded: {'; '.join(map(str, latency.spoiled))}",
                evidence=Evidence(expected=expected, found=f"{latency.ms:.1f} ms, spoiled", where=where),
                figures={"latency_ms": latency.ms, **params.bounds()},
            )
        if latency.cut:
            return _cut(params, latency.ms)
        assert tier is not None
        evidence = Evidence(expected=expected, found=f"{latency.ms:.1f} ms", where=where)
        figures = {"latency_ms": latency.ms, "tier": tier.value, **params.bounds()}
        if tier is LatencyTier.EXCEEDED:
            message = f"{latency.ms:.1f} ms is beyond the critical {params.critical_ms:g} ms{_in_spite_of(latency)}"
            return failed(message, evidence=evidence, figures=figures)
        message = f"{latency.ms:.1f} ms is in the {tier.value} tier{_in_spite_of(latency)}"
        return passed(message, evidence=evidence, figures=figures)


def _certain_tier(params: LatencyBudgetParams, latency: Latency) -> LatencyTier | None:
    """The tier that the latency is in whatever the disturbances did, if there is one."""
    low_ms, high_ms = latency.bounds
    if latency.cut:
        return LatencyTier.EXCEEDED if low_ms >= params.critical_ms else None
    tier = params.tier(low_ms)
    return tier if tier is params.tier(high_ms) else None


def _in_spite_of(latency: Latency) -> str:
    return f" in any case ({'; '.join(map(str, latency.spoiled))})" if latency.spoiled else ""


def _cut(params: LatencyBudgetParams, ms: float) -> EvaluationResult:
    """The answer was incomplete when the call was cut off after `ms`: its latency is more than that."""
    evidence = Evidence(
        expected=f"at most {params.critical_ms:g} ms", found=f"more than {ms:.1f} ms", where="the call was cut off"
    )
    figures = {"latency_ms": ms, **params.bounds()}
    if ms < params.critical_ms:
        message = f"the call was cut off after {ms:.1f} ms, before the critical {params.critical_ms:g} ms"
        return inconclusive(message, evidence=evidence, figures=figures)
    message = f"the answer was not complete after {ms:.1f} ms, when the call was cut off"
    return failed(message, evidence=evidence, figures={**figures, "tier": LatencyTier.EXCEEDED.value})
